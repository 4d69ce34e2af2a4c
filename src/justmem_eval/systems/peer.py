"""Another memory system, run by its own code in its own environment.

The user installs the peer as its authors say and names that environment's Python. An adapter
script runs there and speaks JSON lines: one object in, one object out.

    start     settings                     -> {"ok": true}
    ingest    history, sessions            -> {"ok": true}
    open      history                      -> {"ok": true}
    retrieve  question {id, text, at}, k   -> {"context": TEXT, "evidence": [{"text", "session"?,
                                               "turns"?}, ...]}
    answer    question, context            -> {"answer": TEXT}, or {} for the plain reader

A failure is {"error": TEXT}. A process that crashes or hangs is ended and started again for the
next message; what it was working on is marked as failed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from justmem import tokens
from justmem.domain import dump
from justmem.errors import InvalidSetting, ModelError
from justmem.ports import LanguageModel
from justmem_eval.benchmarks import History, Question
from justmem_eval.meter import Meter
from justmem_eval.rows import Place, Row, Slot
from justmem_eval.systems.alignment import aligned
from justmem_eval.systems.reader import read
from justmem_eval.systems.types import Built, Predicted, Retrieved

ADAPTERS = Path(__file__).parent.parent / "peers"
NAMES = ("amem", "memoryos", "simplemem", "lightmem", "memos")
_LONGEST_LINE = 64 * 1024 * 1024


class PeerFailed(ModelError):
    """The peer crashed, hung, or said that it could not do it."""


@dataclass(slots=True)
class Process:
    """The adapter process, started when first needed. One message at a time."""

    command: Sequence[str]
    settings: Mapping[str, Any]
    patience: float
    log: Path
    spent: Callable[[], int]
    _process: asyncio.subprocess.Process | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _open: str = ""

    async def ask(
        self, message: Mapping[str, Any], *, history: str = ""
    ) -> tuple[dict[str, Any], int]:
        """The reply and the tokens it took. `history` has to be open for this message."""
        async with self._lock:
            before = self.spent()
            await self._start()
            if history and self._open != history:
                await self._say({"do": "open", "history": history})
                self._open = history
            return await self._say(message), self.spent() - before

    async def _start(self) -> None:
        if self._process is not None and self._process.returncode is None:
            return
        self._open = ""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    limit=_LONGEST_LINE,
                    start_new_session=True,
                )
            except OSError as error:
                raise InvalidSetting(
                    f"{self.command[0]} cannot be run ({error.strerror}): name the Python of the "
                    "environment that the peer is installed in."
                ) from error
        await self._say({"do": "start", "settings": dict(self.settings)})

    async def _say(self, message: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        what = message["do"]
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), self.patience)
            reply = json.loads(line) if line else None
        except TimeoutError:
            await self.end()
            raise PeerFailed(f"The peer did not finish `{what}` in {self.patience:g} s.") from None
        except (OSError, ValueError) as error:
            await self.end()
            raise PeerFailed(
                f"The peer broke off in `{what}` ({error}). See {self.log}."
            ) from error
        if not isinstance(reply, dict):
            await self.end()
            raise PeerFailed(f"The peer ended in `{what}`. See {self.log}.")
        if reply.get("error"):
            raise PeerFailed(f"The peer failed in `{what}`: {reply['error']}")
        return reply

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):  # it may end by itself at this very moment
                os.killpg(process.pid, signal.SIGKILL)  # its own children with it
            await process.wait()


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
        model: LanguageModel | None = None,
        adapter: Path | None = None,
        patience: float = 1800.0,
    ) -> None:
        self.name = name
        self._model = model
        script = adapter or ADAPTERS / f"{name}_adapter.py"
        if not script.is_file():
            raise InvalidSetting(f"There is no adapter for {name!r}: known are {', '.join(NAMES)}.")
        given = {**settings, "base_url": meter.url(name), "folder": str(folder / "peer")}
        log = folder / "peer.log"
        command = [python, "-u", str(script)]
        spent = partial(meter.spent, name)
        self._process = Process(command, given, patience, log, spent)

    async def build(self, history: History) -> Built:
        sessions = [dump(session) for session in history.sessions]
        message = {"do": "ingest", "history": history.id, "sessions": sessions}
        _, spent = await self._process.ask(message)
        return Built(id=history.id, sessions=len(sessions), seen=spent)

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[PeerMemory]:
        yield PeerMemory(self, history)

    async def retrieve(self, history: History, question: Question) -> Retrieved:
        asked = dump(question)
        message = {"do": "retrieve", "question": asked, "k": 10}
        reply, spent = await self._process.ask(message, history=history.id)
        evidence = [item for item in reply.get("evidence", ()) if isinstance(item, dict)]
        context = str(reply.get("context") or "\n".join(str(e.get("text", "")) for e in evidence))
        slots = tuple(Slot(place=_place(e, history), text=str(e.get("text", ""))) for e in evidence)
        row = Row(
            id=question.id,
            history=history.id,
            slots=slots[:10],
            read=tuple(slot.place for slot in slots[:10]),
            evidence_tokens=tokens.count(context),
            evidence=context,
        )
        return Retrieved(id=question.id, row=row, context=context, payload=asked, seen=spent)

    async def answer(
        self, history: History, question: Question, retrieved: Retrieved, sample: int
    ) -> Predicted:
        message = {"do": "answer", "question": dump(question), "context": retrieved.context}
        reply, spent = await self._process.ask(message, history=history.id)
        if "answer" in reply:
            return Predicted(id=question.id, answer=str(reply["answer"]), seen=spent)
        if self._model is None:
            return Predicted(id=question.id, sufficient=False)
        return await read(self._model, question, retrieved.context, sample)

    async def close(self) -> None:
        await self._process.end()


@dataclass(frozen=True, slots=True)
class PeerMemory:
    peer: Peer
    history: History

    async def retrieve(self, question: Question) -> Retrieved:
        return await self.peer.retrieve(self.history, question)


def _place(item: Mapping[str, Any], history: History) -> Place:
    """Where the peer says it comes from; a peer that keeps no source is aligned by its words."""
    session = item.get("session")
    if isinstance(session, str):
        return session, tuple(int(n) for n in item.get("turns", ()))
    return aligned(str(item.get("text", "")), history)
