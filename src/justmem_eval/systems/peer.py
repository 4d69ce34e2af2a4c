"""Another memory system, run by its own code in its own environment.

The user installs the peer as its authors say and names that environment's Python. An adapter
script runs there and speaks JSON lines: one object in, one object out.

    start     settings                     -> {"ok": true}
    ingest    history, sessions            -> {"ok": true}, and "failed": [TEXT] for sessions
                                              that could not be built
    open      history                      -> {"ok": true}
    retrieve  question {id, text, at}, k   -> {"context": TEXT, "evidence": [{"text", "session"?,
                                               "turns"?, "also"?: [{...}]}, ...]}
    answer    question, context            -> {"answer": TEXT}, or {} for the plain reader

Each history that is built or asked has a process and a lane of the meter of its own, so several
histories can be built at once and each keeps its own count of tokens. After ingestion the process
is killed, and a new one opens the memory for the questions.

A failure is {"error": TEXT}. A process that crashes or hangs is ended and started again for the
next message; what it was working on is marked as failed. A process that fails in `start` ends the
run.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from justmem.domain import dump
from justmem.errors import InvalidSetting
from justmem_eval.benchmarks import History, Question
from justmem_eval.calls import RepeatedModel
from justmem_eval.meter import Meter
from justmem_eval.records import Built, K, Piece, Predicted, Retrieved
from justmem_eval.systems.alignment import aligned
from justmem_eval.systems.plain import read
from justmem_eval.systems.process import ADAPTERS, Process
from justmem_eval.text import count

NAMES = ("amem", "memoryos", "simplemem", "lightmem", "memos", "mem0", "mempalace")


class Peer:
    """`model` is the plain reader's, for peers whose adapter gives no answer of its own."""

    def __init__(
        self,
        name: str,
        python: str,
        *,
        folder: Path,
        meter: Meter,
        settings: Mapping[str, Any],
        model: RepeatedModel | None = None,
        adapter: Path | None = None,
        patience: float = 1800.0,
    ) -> None:
        script = adapter or ADAPTERS / f"{name}_adapter.py"
        if not script.is_file():
            raise InvalidSetting(f"There is no adapter for {name!r}: known are {', '.join(NAMES)}.")
        self.model = model
        self.answers = True  # until its adapter leaves an answer to the plain reader
        self._name = name
        self._command = [python, "-u", str(script)]
        self._folder = folder
        self._meter = meter
        self._settings = settings
        self._patience = patience

    async def build(self, history: History) -> Built:
        sessions = [dump(session) for session in history.sessions]
        async with self._process(history) as process:
            reply, usage = await process.ask(
                {"do": "ingest", "history": history.id, "sessions": sessions}
            )
        return Built(
            id=history.id,
            sessions=len(sessions),
            usage=usage,
            failed=tuple(str(each) for each in reply.get("failed", ())),
            disk_kb=_size(self._place(history)) // 1024,
        )

    @asynccontextmanager
    async def opened(self, history: History, sample: int = 0) -> AsyncIterator[PeerMemory]:
        async with self._process(history) as process:
            yield PeerMemory(self, history, process, sample)

    async def close(self) -> None:
        pass

    def _place(self, history: History) -> Path:
        return self._folder / "peer" / _safe(history.id)

    @asynccontextmanager
    async def _process(self, history: History) -> AsyncIterator[Process]:
        lane = f"{self._name}-{_safe(history.id)}"
        base_url, folder = self._meter.url(lane, capped=True), str(self._place(history))
        process = Process(
            self._command,
            {**self._settings, "system": self._name, "base_url": base_url, "folder": folder},
            history.id,
            self._patience,
            self._folder / "peer.log",
            self._meter,
            lane,
        )
        try:
            yield process
        finally:
            await process.end()


@dataclass(frozen=True, slots=True)
class PeerMemory:
    peer: Peer
    history: History
    process: Process
    sample: int = 0

    async def retrieve(self, question: Question) -> Retrieved:
        message = {"do": "retrieve", "question": dump(question), "k": K}
        reply, usage = await self.process.ask(message)
        evidence = [item for item in reply.get("evidence", ()) if isinstance(item, dict)]
        context = str(reply.get("context") or "\n".join(str(e.get("text", "")) for e in evidence))
        chosen = tuple(_piece(item, self.history) for item in evidence)
        # What the reader is shown together with the pieces that were found.
        beside = [_piece(also, self.history) for item in evidence for also in item.get("also", ())]
        return Retrieved(
            id=question.id,
            history=self.history.id,
            chosen=chosen,
            read=(*chosen, *beside),
            context=context,
            evidence_tokens=count(context),
            usage=usage,
        )

    async def answer(self, question: Question, retrieved: Retrieved) -> Predicted:
        if self.peer.answers:
            message = {"do": "answer", "question": dump(question), "context": retrieved.context}
            reply, usage = await self.process.ask(message)
            if "answer" in reply:
                return Predicted(id=question.id, answer=str(reply["answer"]), usage=usage)
            self.peer.answers = False
        return await read(self.peer.model, question, retrieved.context, self.sample)


def _safe(id: str) -> str:
    """An id as the name of a folder and of a lane."""
    return re.sub(r"[^\w.]", "-", id, flags=re.ASCII)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _piece(item: Mapping[str, Any], history: History) -> Piece:
    """Where the peer says it comes from; what names no turn is aligned by its words."""
    text = str(item.get("text", ""))
    session, turns = item.get("session"), item.get("turns")
    if isinstance(session, str) and turns:
        return Piece(place=(session, tuple(int(n) for n in turns)), text=text)
    within = session if isinstance(session, str) else None
    return Piece(place=aligned(text, history, within=within), text=text, aligned=True)
