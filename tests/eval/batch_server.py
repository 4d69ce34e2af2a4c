"""OpenAI's batch API on loopback: files, batches, and what the model says to each request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any

from justmem_eval.loopback import Request, Respond, serve


@dataclass
class Batches:
    """`polls`: how often a batch is "in_progress" before it is completed."""

    play: Callable[[Request], Any]
    polls: int = 1
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    looked: threading.Event = field(default_factory=threading.Event)

    def upload(self, headers: Mapping[str, str], raw: bytes) -> dict[str, Any]:
        head = f"content-type: {headers['content-type']}\r\n\r\n".encode()
        form = BytesParser().parsebytes(head + raw)
        parts = {p.get_param("name", header="content-disposition"): p for p in form.get_payload()}  # type: ignore[union-attr]
        assert parts["purpose"].get_payload(decode=True) == b"batch"  # type: ignore[union-attr]
        return {"id": self._kept(parts["file"].get_payload(decode=True))}  # type: ignore[union-attr, arg-type]

    def create(self, wish: Mapping[str, Any]) -> dict[str, Any]:
        assert wish["endpoint"] == "/v1/chat/completions"
        assert wish["completion_window"] == "24h"
        id = f"batch_{len(self.batches)}"
        self.batches[id] = {"id": id, "status": "validating", "left": self.polls, **wish}
        return self.batches[id]

    def look(self, id: str) -> dict[str, Any]:
        self.looked.set()
        batch = self.batches[id]
        if batch["left"]:
            batch["left"] -= 1
            return {"id": id, "status": "in_progress"}
        if "output_file_id" not in batch:
            lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
            replies = [self._reply(line) for line in reversed(lines)]  # in any order
            batch["output_file_id"] = self._kept("\n".join(map(json.dumps, replies)).encode())
        return {**batch, "status": "completed"}

    def requests(self) -> list[list[Any]]:
        inputs = [self.files[batch["input_file_id"]] for batch in self.batches.values()]
        return [[json.loads(line) for line in raw.splitlines()] for raw in inputs]

    def _reply(self, line: Mapping[str, Any]) -> dict[str, Any]:
        assert line["method"] == "POST"
        assert line["url"] == "/v1/chat/completions"
        body = self.play(Request(line["url"], {}, line["body"]))
        return {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}}

    def _kept(self, data: bytes) -> str:
        id = f"file_{len(self.files)}"
        self.files[id] = data
        return id


@contextmanager
def serve_batches(play: Callable[[Request], Any], polls: int = 1) -> Iterator[Batches]:
    served = Batches(play, polls)

    def reply(request: Request) -> Respond:
        if request.method == "POST":
            upload = request.path == "/v1/files"
            return Respond(
                served.upload(request.headers, request.raw)
                if upload
                else served.create(request.body)
            )
        kind, id = request.path.removeprefix("/v1/").removesuffix("/content").split("/")
        return Respond(served.look(id) if kind == "batches" else served.files[id])

    with serve(reply) as url:
        served.url = f"{url}/v1"
        yield served
