"""Another memory system, run by its own code in its own environment.

The user installs the peer as its authors say and names that environment's Python. An adapter
script runs there and speaks JSON lines: one object in, one object out.

    start     settings                     -> {"ok": true}
    ingest    history, sessions            -> {"ok": true}, and "failed": [TEXT] for sessions
                                              that could not be built
    open      history                      -> {"ok": true}
    retrieve  question {id, text, at}, k   -> {"context": TEXT, "evidence": [{"text", "session"?,
                                               "turns"?, "also"?: [{...}]}, ...]}

Each history that is built or asked has a process and a lane of the meter of its own, so several
histories can be built at once and each keeps its own count of tokens. After ingestion the process
is killed, and a new one opens the memory for the questions.

A failure is {"error": TEXT}. A process that crashes or hangs is ended and started again for the
next message; what it was working on is marked as failed. A process that fails in `start` ends the
run.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from justmem import config
from justmem.config import providers
from justmem.errors import InvalidSetting
from justmem_eval.benchmarks import History, Question
from justmem_eval.meter import Meter
from justmem_eval.records import Built, K, PeerCannotStart, PeerFailed, Piece, Retrieved, Usage
from justmem_eval.settings import Settings
from justmem_eval.systems import Retrieve
from justmem_eval.systems.alignment import Alignment
from justmem_eval.text import count

NAMES = ("amem", "memoryos", "simplemem", "lightmem", "memos", "mem0", "mempalace")
ADAPTERS = Path(__file__).parent.parent / "peers"
_OPENAI = "https://api.openai.com/v1"
_LONGEST_LINE = 64 * 1024 * 1024


def server_of(given: Settings) -> str:
    """The model server of a peer, which the meter stands in front of."""
    parsed = providers.parse(given.model, "model")
    if parsed.scheme != "openai" or not given.peer.python:
        raise InvalidSetting(
            f"{given.system} runs in an environment of its own: install it as its authors say, "
            "name that environment's Python with --python, and a model with --model openai:NAME."
        )
    return parsed.url or _OPENAI


class Peer:
    def __init__(self, given: Settings, folder: Path, meter: Meter) -> None:
        name, peer = given.system, given.peer
        script = peer.adapter or ADAPTERS / f"{name}_adapter.py"
        if not script.is_file():
            raise InvalidSetting(f"There is no adapter for {name!r}: known are {', '.join(NAMES)}.")
        parsed = providers.parse(given.model, "model")
        self.folder = folder
        self.meter = meter
        self.command = [peer.python, "-u", str(script)]
        self.patience = peer.patience
        self.settings = {
            "system": name,
            "model": parsed.name,
            "embedder": peer.embedder,
            "dimensions": peer.dimensions,
            "api_key": providers.key_for(parsed, config.load()) or "none",
        }

    async def build(self, history: History) -> Built:
        sessions = [session.model_dump(mode="json") for session in history.sessions]
        process = Process(self, history.id)
        try:
            message = {"do": "ingest", "history": history.id, "sessions": sessions}
            reply, usage = await process.ask(message)
        finally:
            await process.end()
        size = sum(path.stat().st_size for path in process.folder.rglob("*") if path.is_file())
        return Built(
            id=history.id,
            sessions=len(sessions),
            usage=usage,
            failed=tuple(str(each) for each in reply.get("failed", ())),
            disk_kb=size // 1024,
        )

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[Retrieve]:
        process = Process(self, history.id)
        try:
            yield partial(_retrieve, Alignment(history), process)
        finally:
            await process.end()


async def _retrieve(alignment: Alignment, process: Process, question: Question) -> Retrieved:
    message = {"do": "retrieve", "question": question.model_dump(mode="json"), "k": K}
    reply, usage = await process.ask(message)
    evidence = [item for item in reply.get("evidence", ()) if isinstance(item, dict)]
    context = str(reply.get("context") or "\n".join(str(e.get("text", "")) for e in evidence))
    chosen = tuple(_piece(item, alignment) for item in evidence)
    # What the reader is shown together with the pieces that were found.
    beside = [_piece(also, alignment) for item in evidence for also in item.get("also", ())]
    return Retrieved(
        id=question.id,
        chosen=chosen,
        read=(*chosen, *beside),
        context=context,
        evidence_tokens=count(context),
        usage=usage,
    )


def _piece(item: Mapping[str, Any], alignment: Alignment) -> Piece:
    """Where the peer says it comes from; what names no turn is aligned by its words."""
    text = str(item.get("text", ""))
    session, turns = item.get("session"), item.get("turns")
    if isinstance(session, str) and turns:
        return Piece(place=(session, tuple(int(n) for n in turns)), text=text)
    within = session if isinstance(session, str) else None
    return Piece(place=alignment.place(text, within=within), text=text, aligned=True)


class Process:
    """The adapter process of one history, started when first needed. One message at a time.

    It counts as hung after `patience` seconds without a reply and without a request at the meter.
    A build may take hours as long as it works."""

    def __init__(self, peer: Peer, history: str) -> None:
        name = re.sub(r"[^\w.]", "-", history, flags=re.ASCII)
        self.history = history
        self.folder = peer.folder / "peer" / name
        self._peer = peer
        self._lane = f"{peer.settings['system']}-{name}"
        self._log = peer.folder / "peer.log"
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._cpu = self._peak_mb = 0.0  # of this process, when it last replied

    async def ask(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], Usage]:
        """The reply and what it took. For every message but `ingest` the memory is open."""
        meter = self._peer.meter
        async with self._lock:
            before = meter.used(self._lane)
            try:
                cpu = await self._ready(build=message["do"] == "ingest")
                reply = await self._say(message)
            except PeerFailed as error:
                error.usage = meter.used(self._lane).since(before)
                raise
            process = {"cpu": self._cpu - cpu, "peak_mb": self._peak_mb}
            return reply, meter.used(self._lane).since(before).model_copy(update=process)

    async def _ready(self, *, build: bool) -> float:
        """The CPU seconds so far that do not count for the message. Starting the process counts
        for a build. Starting it and opening the memory do not count for a question."""
        if self._process is not None and self._process.returncode is None:
            return self._cpu
        url = self._peer.meter.url(self._lane)
        settings = {**self._peer.settings, "base_url": url, "folder": str(self.folder)}
        try:
            await self._spawn()
            await self._say({"do": "start", "settings": settings})
        except (OSError, PeerFailed) as error:
            await self.end()
            raise PeerCannotStart(f"The run ends: the peer cannot start. {error}") from error
        if build:
            return 0.0
        await self._say({"do": "open", "history": self.history})
        return self._cpu

    async def _spawn(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        # `lines` is found from any adapter, wherever it lies.
        path = os.pathsep.join(filter(None, [str(ADAPTERS), os.environ.get("PYTHONPATH")]))
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._peer.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=_LONGEST_LINE,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )

    async def _say(self, message: Mapping[str, Any]) -> dict[str, Any]:
        process, what = self._process, message["do"]
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            await process.stdin.drain()
            line = await self._line(process.stdout)
            if not line:
                raise OSError("it ended")
            reply: dict[str, Any] = json.loads(line)
        except (OSError, ValueError) as error:
            await self.end()
            raise PeerFailed(
                f"The peer did not finish `{what}`: {error}. See {self._log}."
            ) from error
        used = reply.pop("usage", {})
        self._cpu, self._peak_mb = used.get("cpu", 0.0), used.get("peak_mb", 0.0)
        if reply.get("error"):
            raise PeerFailed(f"The peer failed in `{what}`: {reply['error']}")
        return reply

    async def _line(self, replies: asyncio.StreamReader) -> bytes:
        asked, patience = time.monotonic(), self._peer.patience
        reading = asyncio.ensure_future(replies.readline())
        try:
            while not reading.done():
                quiet = time.monotonic() - max(asked, self._peer.meter.last(self._lane))
                if quiet >= patience:
                    raise TimeoutError(f"it gave no sign of life for {patience:g} s")
                await asyncio.wait([reading], timeout=patience - quiet)
            return reading.result()
        finally:
            reading.cancel()

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):  # it may end by itself at this very moment
                os.killpg(process.pid, signal.SIGKILL)  # its own children with it
            await process.wait()
