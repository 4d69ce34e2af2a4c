"""A language model behind a provider's batch API (OpenAI's format): half the price, within a day.

Calls that are made at the same time are collected into one file, uploaded, and waited for. The
ids of running batches are kept in a file, so a killed run waits for them instead of paying again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from justmem import config
from justmem.config import providers
from justmem.domain import Call
from justmem.errors import ModelError, ModelUnavailable
from justmem.ports import Completion, Prompt
from justmem_eval.models import Cap, KeptModel
from justmem_eval.records import Lines, Reply, append_line
from justmem_eval.settings import BATCH
from justmem_eval.text import count

QUIET = 2.0  # seconds without a new call after which a batch is sent
POLL = 30.0  # seconds between two looks at a running batch
_OPENAI = "https://api.openai.com/v1"
_CHAT = "/v1/chat/completions"
_CONTEXT = 1_000_000
_ENDED = ("completed", "failed", "expired", "cancelled")
_SECONDS = 120.0  # for one HTTP request
Waiting = dict[str, tuple[Prompt, asyncio.Future[Completion]]]


class BatchModel(KeptModel):
    """`state` is the file with the ids of running batches."""

    attempts = 1

    def __init__(self, spec: str, replies: Lines[Reply], cap: Cap, state: Path) -> None:
        parsed = providers.parse(f"openai:{spec.removeprefix(BATCH)}", "model")
        super().__init__(parsed.name, _CONTEXT, replies, cap)
        self._state = state
        key = providers.key_for(parsed, config.load())
        self._client = httpx.AsyncClient(
            base_url=parsed.url or _OPENAI,
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=_SECONDS,
        )
        self._waiting: Waiting = {}
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._resumed: asyncio.Task[None] | None = None

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        if self._resumed is None:
            self._resumed = asyncio.create_task(self._resume())
        await asyncio.shield(self._resumed)
        return await super().complete(prompt, sample=sample)

    async def _ask(self, key: str, prompt: Prompt) -> Completion:
        loop = asyncio.get_running_loop()
        _, future = self._waiting.setdefault(key, (prompt, loop.create_future()))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(QUIET, self._send)
        return await asyncio.shield(future)

    # ------------------------------------------------------------ one batch

    def _send(self) -> None:
        calls, self._waiting = self._waiting, {}
        task = asyncio.get_running_loop().create_task(self._batch(calls))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _batch(self, calls: Waiting) -> None:
        try:
            id = await self._create({key: prompt for key, (prompt, _) in calls.items()})
            stages = {key: prompt.stage for key, (prompt, _) in calls.items()}
            self._note({"id": id, "stages": stages})
            found = await self._collect(id, stages)
        except ModelError as error:
            for _, future in calls.values():
                future.set_exception(error)
            return
        for key, (_, future) in calls.items():
            if key in found:
                future.set_result(found[key])
            else:
                future.set_exception(ModelUnavailable("The batch has no reply to this call."))

    async def _create(self, prompts: Mapping[str, Prompt]) -> str:
        call = {"method": "POST", "url": _CHAT}
        lines = [
            json.dumps({**call, "custom_id": key, "body": self._body(prompt)}, ensure_ascii=False)
            for key, prompt in prompts.items()
        ]
        file = ("requests.jsonl", "\n".join(lines).encode(), "application/jsonl")
        uploaded = await self._request(
            "POST", "files", data={"purpose": "batch"}, files={"file": file}
        )
        wish = {"input_file_id": uploaded.json()["id"], "endpoint": _CHAT}
        made = await self._request("POST", "batches", json={**wish, "completion_window": "24h"})
        return str(made.json()["id"])

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        said = {"system": prompt.system, "user": prompt.user}
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": role, "content": text} for role, text in said.items()],
            "max_completion_tokens": prompt.max_tokens,
            "temperature": 0,
        }
        if prompt.schema:
            shape = {"name": prompt.stage, "strict": True, "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        return body

    async def _collect(self, id: str, stages: Mapping[str, Any]) -> dict[str, Completion]:
        """Waits for a batch, and keeps its replies."""
        ended: dict[str, Any] = {}
        while ended.get("status") not in _ENDED:
            if ended:
                await asyncio.sleep(POLL)
            ended = (await self._request("GET", f"batches/{id}")).json()
        output = ended.get("output_file_id")
        content = (await self._request("GET", f"files/{output}/content")).text if output else ""
        found = {}
        for line in filter(str.strip, content.splitlines()):
            entry = json.loads(line)
            key, body = entry["custom_id"], (entry.get("response") or {}).get("body") or {}
            if key in stages and body.get("choices"):
                found[key] = _completion(body, stages[key], self.name)
                self.keep(key, found[key])
        self._note({"id": id, "ended": ended["status"]})
        if not output:
            raise ModelUnavailable(f"The batch {id} ended as {ended['status']}, without replies.")
        return found

    async def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            reply = await self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise ModelUnavailable(f"The batch API did not answer: {error}.") from error
        if reply.status_code >= 400:
            raise ModelUnavailable(
                f"The batch API refused {path} with status {reply.status_code}: {reply.text[:200]}"
            )
        return reply

    # ------------------------------------------------------------ after a kill

    def _note(self, entry: Mapping[str, Any]) -> None:
        append_line(self._state, json.dumps(entry))

    async def _resume(self) -> None:
        """Waits for the batches of an earlier process."""
        lines = self._state.read_text().splitlines() if self._state.exists() else []
        entries = [json.loads(line) for line in filter(None, lines)]
        ended = {entry["id"] for entry in entries if "ended" in entry}
        for entry in entries:
            if entry["id"] not in ended:
                found = await self._collect(entry["id"], entry["stages"])
                self.cap.settle(0, sum(each.call.counted for each in found.values()))

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._client.aclose()


def _completion(body: Mapping[str, Any], stage: Any, model: str) -> Completion:
    choice = body["choices"][0]
    text = choice["message"].get("content") or ""
    usage = body.get("usage") or {}
    call = Call(
        stage=stage,
        model=model,
        tokens_in=int(usage.get("prompt_tokens", 0)),
        tokens_out=int(usage.get("completion_tokens", count(text))),
        estimated="completion_tokens" not in usage,
    )
    return Completion(text, call, choice.get("finish_reason") == "length")
