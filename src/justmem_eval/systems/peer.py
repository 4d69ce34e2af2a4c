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

A failure is {"error": TEXT}. A process that crashes or hangs is ended and started again for the
next message; what it was working on is marked as failed. A process that fails in `start` ends the
run. After ingestion the process is killed, and a new one opens the memory for the questions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from justmem.domain import dump
from justmem.errors import InvalidSetting
from justmem.ports import LanguageModel
from justmem_eval.benchmarks import History, Question
from justmem_eval.meter import Meter
from justmem_eval.rows import Row, Slot
from justmem_eval.systems.alignment import aligned
from justmem_eval.systems.process import ADAPTERS, Process, Used
from justmem_eval.systems.reader import read
from justmem_eval.systems.types import Built, Predicted, Retrieved
from justmem_eval.text import count

NAMES = ("amem", "memoryos", "simplemem", "lightmem", "memos", "mem0", "mempalace")


class Peer:
    """`model` is the plain reader's, for peers whose adapter gives no answer of its own.
    `processes`: each has its own histories, so that no two open the same one."""

    def __init__(
        self,
        name: str,
        python: str,
        *,
        folder: Path,
        meter: Meter,
        settings: Mapping[str, Any],
        model: LanguageModel | None = None,
        adapter: Path | None = None,
        patience: float = 1800.0,
        processes: int = 1,
    ) -> None:
        self.name = name
        self._model = model
        script = adapter or ADAPTERS / f"{name}_adapter.py"
        if not script.is_file():
            raise InvalidSetting(f"There is no adapter for {name!r}: known are {', '.join(NAMES)}.")
        lanes = [name, *(f"{name}.{n}" for n in range(2, processes + 1))]
        self._processes = [
            Process(
                [python, "-u", str(script)],
                {**settings, "base_url": meter.url(lane), "folder": str(folder / "peer")},
                patience,
                folder / "peer.log",
                meter,
                lane,
            )
            for lane in lanes
        ]
        self._of: dict[str, Process] = {}

    def _process(self, history: History) -> Process:
        turn = len(self._of) % len(self._processes)
        return self._of.setdefault(history.id, self._processes[turn])

    async def build(self, history: History) -> Built:
        sessions = [dump(session) for session in history.sessions]
        message = {"do": "ingest", "history": history.id, "sessions": sessions}
        reply, spent = await self._process(history).ask(message)
        failed = tuple(str(each) for each in reply.get("failed", ()))
        return Built(id=history.id, sessions=len(sessions), seen=spent, failed=failed)

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[PeerMemory]:
        yield PeerMemory(self, history)

    async def retrieve(self, history: History, question: Question) -> Retrieved:
        asked = dump(question)
        message = {"do": "retrieve", "question": asked, "k": 10}
        reply, spent = await self._process(history).ask(message, history=history.id)
        evidence = [item for item in reply.get("evidence", ()) if isinstance(item, dict)]
        context = str(reply.get("context") or "\n".join(str(e.get("text", "")) for e in evidence))
        slots = tuple(_slot(item, history) for item in evidence)
        beside = [_slot(item, history) for item in _also(evidence)]
        row = Row(
            id=question.id,
            history=history.id,
            slots=slots,
            read=(*(slot.place for slot in slots), *(slot.place for slot in beside)),
            read_texts=tuple(slot.text for slot in (*slots, *beside)),
            evidence_tokens=count(context),
            evidence=context,
        )
        return Retrieved(id=question.id, row=row, context=context, payload=asked, seen=spent)

    async def answer(
        self, history: History, question: Question, retrieved: Retrieved, sample: int
    ) -> Predicted:
        message = {"do": "answer", "question": dump(question), "context": retrieved.context}
        reply, spent = await self._process(history).ask(message, history=history.id)
        if "answer" in reply:
            return Predicted(id=question.id, answer=str(reply["answer"]), seen=spent)
        if self._model is None:
            return Predicted(id=question.id, sufficient=False)
        return await read(self._model, question, retrieved.context, sample)

    @property
    def used(self) -> list[Used]:
        return [process.used for process in self._processes]

    async def close(self) -> None:
        for process in self._processes:
            await process.end()


@dataclass(frozen=True, slots=True)
class PeerMemory:
    peer: Peer
    history: History

    async def retrieve(self, question: Question) -> Retrieved:
        return await self.peer.retrieve(self.history, question)


def _slot(item: Mapping[str, Any], history: History) -> Slot:
    """Where the peer says it comes from; what names no turn is aligned by its words."""
    text = str(item.get("text", ""))
    session, turns = item.get("session"), item.get("turns")
    if isinstance(session, str) and turns:
        return Slot(place=(session, tuple(int(n) for n in turns)), text=text)
    within = session if isinstance(session, str) else None
    return Slot(place=aligned(text, history, within=within), text=text, aligned=True)


def _also(evidence: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """What the reader is shown together with the pieces that were found."""
    for item in evidence:
        yield from (also for also in item.get("also", ()) if isinstance(also, dict))
