"""Reference systems: no memory, the whole history in the prompt, and turns by likeness."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import numpy as np

from justmem.domain import Session
from justmem.ports import Embedder, LanguageModel
from justmem_eval.benchmarks import History, Question
from justmem_eval.rows import Row, Slot
from justmem_eval.systems.reader import read
from justmem_eval.systems.types import Built, Predicted, Retrieved
from justmem_eval.text import count

K = 10


def transcript(session: Session) -> str:
    said = "\n".join(f"{turn.speaker}: {turn.text}" for turn in session.turns)
    return f"Conversation of {session.at:%A %Y-%m-%d %H:%M}\n{said}"


class _Read:
    """Nothing is built; a plain reader answers."""

    name = ""

    def __init__(self, model: LanguageModel | None) -> None:
        self._model = model

    async def build(self, history: History) -> Built:
        return Built(id=history.id, sessions=len(history.sessions))

    async def answer(
        self, history: History, question: Question, retrieved: Retrieved, sample: int
    ) -> Predicted:
        if self._model is None:
            return Predicted(id=question.id, sufficient=False)
        return await read(self._model, question, retrieved.context, sample)

    async def close(self) -> None:
        pass


class NoMemory(_Read):
    """The reader is shown nothing. What it gets right needs no memory."""

    name = "none"

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[NoHistory]:
        yield NoHistory(history)


class NoHistory:
    def __init__(self, history: History) -> None:
        self._history = history

    async def retrieve(self, question: Question) -> Retrieved:
        return Retrieved(id=question.id, row=Row(id=question.id, history=self._history.id))


class FullText(_Read):
    name = "fulltext"

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[WholeHistory]:
        yield WholeHistory(history)


class WholeHistory:
    def __init__(self, history: History) -> None:
        self._history = history

    async def retrieve(self, question: Question) -> Retrieved:
        # By day: gold of LongMemEval can be dated later on the day of the question.
        told = [s for s in self._history.sessions if s.at.date() <= question.at.date()]
        text = "\n\n".join(map(transcript, told))
        row = Row(id=question.id, history=self._history.id, evidence_tokens=count(text))
        return Retrieved(id=question.id, row=row, context=text)


class NaiveRag(_Read):
    """The ten turns (with a user and an assistant: the ten exchanges) most like the question."""

    name = "naive_rag"

    def __init__(self, model: LanguageModel | None, embedder: Embedder) -> None:
        super().__init__(model)
        self._embedder = embedder

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[Chunks]:
        chunks = [chunk for session in history.sessions for chunk in _chunks(session)]
        vectors = (await self._embedder.embed([text for _, _, text in chunks])).vectors
        yield Chunks(history, chunks, vectors, self._embedder)


Chunk = tuple[Session, tuple[int, ...], str]


def _chunks(session: Session) -> Iterator[Chunk]:
    numbers: list[int] = []
    for number, turn in enumerate(session.turns, 1):
        if numbers and turn.role != "assistant":
            yield _chunk(session, numbers)
            numbers = []
        if turn.text.strip():
            numbers.append(number)
    if numbers:
        yield _chunk(session, numbers)


def _chunk(session: Session, numbers: list[int]) -> Chunk:
    said = "\n".join(f"{session.turn(n).speaker}: {session.turn(n).text}" for n in numbers)
    return session, tuple(numbers), said


class Chunks:
    def __init__(
        self, history: History, chunks: list[Chunk], vectors: np.ndarray, embedder: Embedder
    ) -> None:
        self._history = history
        self._chunks = chunks
        self._vectors = vectors
        self._embedder = embedder

    async def retrieve(self, question: Question) -> Retrieved:
        asked = (await self._embedder.embed([question.text], query=True)).vectors[0]
        order = np.argsort(-(self._vectors @ asked), kind="stable").tolist()
        last = question.at.date()
        best = [self._chunks[i] for i in order if self._chunks[i][0].at.date() <= last][:K]
        text = "\n\n".join(f"[{s.at:%Y-%m-%d}] {said}" for s, _, said in best)
        row = Row(
            id=question.id,
            history=self._history.id,
            slots=tuple(Slot(place=(s.id, numbers), text=said) for s, numbers, said in best),
            read=tuple((s.id, numbers) for s, numbers, _ in best),
            read_texts=tuple(said for _, _, said in best),
            evidence_tokens=count(text),
            evidence=text,
        )
        return Retrieved(id=question.id, row=row, context=text)
