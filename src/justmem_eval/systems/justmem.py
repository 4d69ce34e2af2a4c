"""JustMem as a system under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from justmem import AsyncMemory
from justmem.domain import Call, Evidence
from justmem.ports import LanguageModel
from justmem_eval.benchmarks import History, Question
from justmem_eval.calls import SampledModel
from justmem_eval.rows import evidence_row
from justmem_eval.systems import variants
from justmem_eval.systems.memories import Memories
from justmem_eval.systems.stages import forced
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
    async def opened(self, history: History, sample: int = 0) -> AsyncIterator[Opened]:
        answerer = SampledModel(self._answers, sample) if self._answers else "rules"
        async with self.memories.memory(history, answerer=answerer) as memory:
            yield Opened(self.memories, memory, history)

    async def answer(
        self, history: History, question: Question, retrieved: Retrieved, sample: int
    ) -> Predicted:
        async with self.opened(history, sample) as opened:
            return await opened.answer(retrieved)

    async def close(self) -> None:
        pass


class Opened:
    def __init__(self, memories: Memories, memory: AsyncMemory, history: History) -> None:
        self._memories = memories
        self._memory = memory
        self._history = history

    async def retrieve(self, question: Question) -> Retrieved:
        evidence, calls = await self._recall(question)
        evidence = await self._varied(evidence)
        kept = evidence.model_copy(update={"candidates": _bare(evidence)})
        row = evidence_row(question, self._history.id, evidence)
        if self._memories.switches.granularity == "session_pack":
            row = row.model_copy(update={"slots": row.slots[:1]})  # a pack is one unit
        return Retrieved(
            id=question.id,
            row=row,
            context=row.evidence,
            payload=kept.model_dump(mode="json", round_trip=True),
            calls=calls,
        )

    async def _recall(self, question: Question) -> tuple[Evidence, tuple[Call, ...]]:
        """The evidence, and the calls that it took. A forced access changes a plan that is there
        already: recorded, or made by a first recall."""
        stages = self._memories.stages
        access = stages.access(self._memories.switches, question)
        plan = stages.plan(question)
        planned: tuple[Call, ...] = ()
        if access is not None:
            if plan is None:
                first = await self._memory.recall(
                    question.text, at=question.at, speaker=question.speaker
                )
                plan, planned = first.plan, first.receipt.calls
            plan = forced(plan, access)
        evidence = await self._memory.recall(
            question.text, at=question.at, speaker=question.speaker, plan=plan
        )
        return evidence, (*planned, *evidence.receipt.calls)

    async def answer(self, retrieved: Retrieved) -> Predicted:
        reply = await self._memory.answer(Evidence.model_validate(retrieved.payload))
        return Predicted(
            id=retrieved.id,
            answer=reply.text,
            sufficient=reply.sufficient,
            cited=tuple((one.session_id, one.turn) for one in reply.citations),
            calls=reply.receipt.calls,
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
