"""JustMem as a system under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from justmem import AsyncMemory
from justmem.answer.model import ModelAnswerer
from justmem.answer.reading import evidence_text
from justmem.answer.rules import RulesAnswerer
from justmem.domain import Evidence, dump
from justmem.language.languages import LANGUAGES
from justmem.ports import Answerer, LanguageModel
from justmem_eval.benchmarks import History, Question
from justmem_eval.calls import SampledModel
from justmem_eval.rows import evidence_row
from justmem_eval.systems import variants
from justmem_eval.systems.memories import Memories
from justmem_eval.systems.types import Built, Predicted, Retrieved


class JustMem:
    """`answers` by a model, or by the rules where there is none."""

    def __init__(self, memories: Memories, answers: LanguageModel | None = None) -> None:
        self.name = "justmem"
        self.memories = memories
        self._answers = answers

    async def build(self, history: History) -> Built:
        return await self.memories.build(history)

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[Opened]:
        async with self.memories.memory(history) as memory:
            yield Opened(self.memories, memory, history)

    async def answer(
        self, history: History, question: Question, retrieved: Retrieved, sample: int
    ) -> Predicted:
        evidence = Evidence.model_validate(retrieved.payload)
        if not evidence.chosen and not evidence.sources:
            return Predicted(id=question.id, answer="That is not in memory.", sufficient=False)
        sessions = {session.id: session for session in history.sessions}
        reply = await self._answerer(sample).answer(evidence, sessions, limit=None)
        return Predicted(
            id=question.id,
            answer=reply.text,
            sufficient=reply.sufficient,
            cited=tuple((one.session_id, one.turn) for one in reply.citations),
            calls=tuple(reply.calls),
        )

    def _answerer(self, sample: int) -> Answerer:
        if self._answers is None:
            return RulesAnswerer(LANGUAGES)
        return ModelAnswerer(SampledModel(self._answers, sample))

    async def close(self) -> None:
        pass


class Opened:
    def __init__(self, memories: Memories, memory: AsyncMemory, history: History) -> None:
        self._memories = memories
        self._memory = memory
        self._history = history

    async def retrieve(self, question: Question) -> Retrieved:
        evidence = await self._memory.recall(
            question.text, at=question.at, speaker=question.speaker
        )
        evidence = await self._varied(evidence)
        kept = evidence.model_copy(update={"candidates": _bare(evidence)})
        row = evidence_row(question, self._history.id, evidence)
        if self._memories.switches.granularity == "session_pack":
            row = row.model_copy(update={"slots": row.slots[:1]})  # a pack is one unit
        return Retrieved(
            id=question.id,
            row=row,
            context=evidence_text(evidence, mark=""),
            payload=dump(kept),
            calls=evidence.receipt.calls,
        )

    async def _varied(self, evidence: Evidence) -> Evidence:
        switches, embedder = self._memories.switches, self._memories.models.embedder
        if switches.granularity == "session_pack":
            return await variants.session_pack(self._memory, embedder, evidence)
        if switches.granularity == "session_first":
            count = switches.budget.cards
            return await variants.session_first(self._memory, embedder, evidence, count)
        if switches.reading == "top1":
            return await variants.top1(self._memory, evidence)
        return evidence


def _bare(evidence: Evidence) -> tuple[object, ...]:
    """The answerers look at the subjects and scores of candidates, not at each signal."""
    return tuple(c.model_copy(update={"scores": {}}) for c in evidence.candidates)
