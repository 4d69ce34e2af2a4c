"""Reference systems: no memory, the whole history in the prompt, and the turns most like the
question. A plain reader answers, the same as for every peer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.resources import files
from itertools import pairwise

import numpy as np

from justmem.domain import Session
from justmem.errors import ModelNonsense
from justmem.ports import Embedder, Prompt
from justmem_eval.benchmarks import History, Question
from justmem_eval.models import KeptModel
from justmem_eval.records import Built, K, Piece, Predicted, Retrieved
from justmem_eval.systems import Retrieve
from justmem_eval.text import count, fence, new_mark

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_LONGEST = 500  # tokens of an answer


async def read(
    model: KeptModel | None, sample: int, question: Question, evidence: Retrieved
) -> Predicted:
    """The plain reader: answers from the text it is shown."""
    if model is None:
        return Predicted(id=question.id, sufficient=False)
    completion = await model.complete(_prompt(question, evidence.context), sample=sample)
    try:
        answer = str(json.loads(completion.text)["answer"])
    except (ValueError, KeyError, TypeError):
        answer = completion.text.strip()  # a server without JSON output answers in prose
    if not answer:
        raise ModelNonsense("The model sent an empty answer.", completion.call)
    return Predicted(id=question.id, answer=answer, calls=(completion.call,))


def _prompt(question: Question, context: str) -> Prompt:
    name = "reply.md" if question.remark else "read.md"
    instruction = files("justmem_eval").joinpath("prompts", name).read_text("utf-8").strip()
    mark = new_mark()
    asked = f"Time of the question: {question.at:%A %Y-%m-%d}\n"
    asked += fence("question", question.text, mark)
    user = f"{fence('memory', context, mark)}\n{asked}"
    return Prompt("answer", instruction, user, SCHEMA, _LONGEST, mark=mark)


class Plain:
    """A system that builds nothing. `context` is the text that it shows."""

    def __init__(self, context: Callable[[History, Question], str]) -> None:
        self._context = context

    async def build(self, history: History) -> Built:
        return Built(id=history.id, sessions=len(history.sessions))

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[Retrieve]:
        async def retrieve(question: Question) -> Retrieved:
            text = self._context(history, question)
            return Retrieved(id=question.id, context=text, evidence_tokens=count(text))

        yield retrieve


def nothing(history: History, question: Question) -> str:
    """No memory. What the reader gets right needs none."""
    return ""


def whole_history(history: History, question: Question) -> str:
    """Every session up to the day of the question: gold of LongMemEval can be dated later on that
    day."""
    told = [s for s in history.sessions if s.at.date() <= question.at.date()]
    return "\n\n".join(map(_transcript, told))


def _transcript(session: Session) -> str:
    said = "\n".join(f"{turn.speaker}: {turn.text}" for turn in session.turns)
    return f"Conversation of {session.at:%A %Y-%m-%d %H:%M}\n{said}"


# ---------------------------------------------------------------- Naive RAG

Chunk = tuple[Session, tuple[int, ...], str]


class NaiveRag(Plain):
    """The ten turns (with a user and an assistant: the ten exchanges) most like the question."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[Retrieve]:
        chunks = [chunk for session in history.sessions for chunk in _chunks(session)]
        vectors = (await self._embedder.embed([text for _, _, text in chunks])).vectors

        async def retrieve(question: Question) -> Retrieved:
            asked = (await self._embedder.embed([question.text], query=True)).vectors[0]
            order = np.argsort(-(vectors @ asked), kind="stable").tolist()
            last = question.at.date()
            best = [chunks[i] for i in order if chunks[i][0].at.date() <= last][:K]
            pieces = tuple(Piece(place=(s.id, turns), text=said) for s, turns, said in best)
            text = "\n\n".join(f"[{s.at:%Y-%m-%d}] {said}" for s, _, said in best)
            return Retrieved(
                id=question.id,
                chosen=pieces,
                read=pieces,
                context=text,
                evidence_tokens=count(text),
            )

        yield retrieve


def _chunks(session: Session) -> Iterator[Chunk]:
    """Each turn, with the replies of an assistant that follow it."""
    starts = [n for n, turn in enumerate(session.turns, 1) if turn.role != "assistant" or n == 1]
    for start, end in pairwise([*starts, len(session.turns) + 1]):
        numbers = tuple(n for n in range(start, end) if session.turn(n).text.strip())
        if numbers:
            said = (f"{session.turn(n).speaker}: {session.turn(n).text}" for n in numbers)
            yield session, numbers, "\n".join(said)
