"""A run: build once, retrieve once, answer and judge several times over fixed evidence.

Each stage does what its file (see records.py) does not hold yet, so a killed run continues where
it was. Each model call is in replies.jsonl before its result is used, so none is made twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from justmem.errors import InputError, JustMemError, ModelError
from justmem_eval import models
from justmem_eval.batch import BatchModel
from justmem_eval.benchmarks import Benchmark, Case, History
from justmem_eval.judging import Judging, corrected, judges, planted
from justmem_eval.meter import metering
from justmem_eval.models import Cap, CapReached, KeptModel
from justmem_eval.records import (
    CORRECTED,
    Built,
    Files,
    Lines,
    PeerCannotStart,
    PeerFailed,
    Predicted,
    Record,
    Reply,
    Retrieved,
    Verdict,
)
from justmem_eval.settings import BATCH, Settings, parse, pin
from justmem_eval.systems import Answer, Retrieve, System
from justmem_eval.systems.justmem import JustMem, build_embedder
from justmem_eval.systems.peer import Peer, server_of
from justmem_eval.systems.plain import NaiveRag, Plain, nothing, read, whole_history

T = TypeVar("T", bound=Record)
M = TypeVar("M")  # an opened memory
OnProgress = Callable[[str, int, int], None]  # stage, done, of


async def run(
    given: Settings,
    folder: Path,
    cache: Path,
    progress: OnProgress = lambda *_: None,
    *,
    ledger: Path | None = None,
) -> None:
    """`cache` keeps vectors and replies that other runs may share; runs that share a `ledger`
    share one cap."""
    cap = Cap(given.cap, ledger or folder / "spent.txt")
    model, judge = (_model(spec, cache, cap) for spec in (given.model, given.judge))
    by = judges(given.benchmark.name, judge) if judge is not None else []
    pin(given, {each.name: each.instruction for each in by}, folder)
    try:
        with _system(given, model, folder, cache, cap) as system:
            await _Run(system, model, given, by, Files(folder), progress)()
    finally:
        for each in (model, judge):
            if isinstance(each, BatchModel):
                await each.close()


def _model(spec: str, cache: Path, cap: Cap) -> KeptModel | None:
    replies = cache / "replies.jsonl"
    if spec.startswith(BATCH):
        return BatchModel(spec, Lines(replies, Reply), cap, cache / "batches.jsonl")
    return None if spec == "rules" else models.model(spec, replies, cap)


@contextmanager
def _system(
    given: Settings, model: KeptModel | None, folder: Path, cache: Path, cap: Cap
) -> Iterator[System]:
    if given.is_peer:
        with metering(server_of(given), cap) as meter:
            yield Peer(given, folder, meter)
    elif given.system == "justmem":
        yield JustMem(given, model, folder / "memories", cache)
    elif given.system == "naive_rag":
        yield NaiveRag(build_embedder(parse(given.switches), cache))
    else:
        yield Plain(whole_history if given.system == "fulltext" else nothing)


@dataclass(frozen=True, slots=True)
class _Run:
    """The first judge also judges by the corrected key."""

    system: System
    reader: KeptModel | None  # of the plain reader
    given: Settings
    judges: Sequence[Judging]
    files: Files
    progress: OnProgress

    @property
    def benchmark(self) -> Benchmark:
        return self.given.benchmark

    async def __call__(self) -> None:
        memory, evidence = self.files.memory, self.files.evidence
        await self._each("memory", self.benchmark.histories, memory, self._build)
        lost = {
            case.question.id: f"no memory: {memory[case.history].error}"
            for case in self.benchmark.cases
            if memory[case.history].error
        }
        await self._each_opened("evidence", self.system.opened, evidence, _retrieve, lost)
        lost = {e.id: f"no evidence: {e.error}" for e in evidence.items() if e.error}
        for number in range(1, self.given.runs + 1):
            await self._answer(number, lost)
            if self.judges:
                await self._judge(number)
        for judge in self.judges:
            await self._plant(judge)

    async def _build(self, id: str) -> Built:
        return await self.system.build(self.benchmark.history(id))

    async def _answer(self, number: int, lost: Mapping[str, str]) -> None:
        async def one(answer: Answer, case: Case) -> Predicted:
            return await answer(case.question, self.files.evidence[case.question.id])

        answering = self.system.answering if isinstance(self.system, JustMem) else self._reading
        open, predictions = partial(answering, sample=number), self.files.predictions(number)
        await self._each_opened(f"answers {number}", open, predictions, one, lost)

    @asynccontextmanager
    async def _reading(self, history: History, sample: int) -> AsyncIterator[Answer]:
        yield partial(read, self.reader, sample)

    async def _judge(self, number: int) -> None:
        cases = [case for case in self.benchmark.cases if case.gold.judged]
        answers = self.files.predictions(number)
        wanted = [(judge, judge.name, cases) for judge in self.judges]
        changed = [other for case in cases if (other := corrected(case))]
        for judge, name, asked in [*wanted, (self.judges[0], CORRECTED, changed)]:
            by_id = {case.question.id: case for case in asked}
            one = partial(_verdict, judge, by_id, answers, number)
            await self._each(f"{name} {number}", by_id, self.files.verdicts(number, name), one)

    async def _plant(self, judge: Judging) -> None:
        sure = {each.id: each for each in planted(self.benchmark.cases, self.given.planted)}

        async def one(id: str) -> Verdict:
            verdict = await judge.judge(sure[id].case, sure[id].text, sample=0)
            return verdict.model_copy(update={"id": id})

        await self._each(f"planted {judge.name}", sure, self.files.planted(judge.name), one)

    # ------------------------------------------------------------ doing many things

    async def _each(
        self,
        stage: str,
        ids: Iterable[str],
        done: Lines[T],
        one: Callable[[str], Awaitable[T]],
        among: Sequence[str] = (),
    ) -> None:
        """`among`: what the progress counts, if these are a part of it. The failure of one item is
        its own: named and counted, and the run continues."""
        wanted = list(ids)
        whole = among or wanted

        def progress() -> None:
            self.progress(stage, sum(map(done.done, whole)), len(whole))

        async def kept(id: str) -> None:
            try:
                done.add(await one(id))
            except (CapReached, PeerCannotStart):
                raise
            except JustMemError as error:
                usage = error.usage if isinstance(error, PeerFailed) else None
                done.add(done.kind(id=id, error=str(error), calls=error.calls, usage=usage))
            progress()

        progress()
        await self._parallel([id for id in wanted if not done.done(id)], kept)

    async def _each_opened(
        self,
        stage: str,
        open: Callable[[History], AbstractAsyncContextManager[M]],
        done: Lines[T],
        one: Callable[[M, Case], Awaitable[T]],
        lost: Mapping[str, str],
    ) -> None:
        """Each question with its history opened. `lost`: why a question cannot be asked."""
        left: dict[str, dict[str, Case]] = {}
        for case in self.benchmark.cases:
            if case.question.id in lost:
                done.add(done.kind(id=case.question.id, error=lost[case.question.id]))
            elif not done.done(case.question.id):
                left.setdefault(case.history, {})[case.question.id] = case
        among = [case.question.id for case in self.benchmark.cases]

        async def one_history(id: str) -> None:
            asked = left[id]
            try:
                async with open(self.benchmark.history(id)) as opened:
                    await self._each(stage, asked, done, lambda q: one(opened, asked[q]), among)
            except (ModelError, InputError) as error:  # it cannot be opened
                for question in asked:
                    done.add(done.kind(id=question, error=str(error)))

        await self._parallel(left, one_history)

    async def _parallel(self, ids: Iterable[str], one: Callable[[str], Awaitable[None]]) -> None:
        slots = asyncio.Semaphore(self.given.at_once)

        async def held(id: str) -> None:
            async with slots:
                await one(id)

        tasks = [asyncio.create_task(held(id)) for id in ids]
        try:
            await asyncio.gather(*tasks)
        finally:  # the cap, or an interruption: nothing is left running
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _retrieve(retrieve: Retrieve, case: Case) -> Retrieved:
    return await retrieve(case.question)


async def _verdict(
    judge: Judging, cases: Mapping[str, Case], answers: Lines[Predicted], sample: int, id: str
) -> Verdict:
    if answers[id].error:
        return Verdict(id=id, error=f"no answer: {answers[id].error}")
    return await judge.judge(cases[id], answers[id].answer, sample=sample)
