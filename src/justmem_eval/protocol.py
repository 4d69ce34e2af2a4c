"""A run: build once, retrieve once, answer and judge several times over fixed evidence.

    run.json               what is pinned
    memory.jsonl           one line per history
    evidence.jsonl         one line per question
    predictions.N.jsonl    one line per question, for each of the runs
    strict.N.jsonl         verdicts of the strict judge
    lenient.N.jsonl        verdicts of the lenient judge
    corrected.N.jsonl      verdicts by the corrected key, where it differs from the official one
    planted.NAME.jsonl     a judge's verdicts on answers that are right or wrong for sure

Each stage does what its file does not hold yet, so a killed run goes on where it was; each
model call is in replies.jsonl before its result is used, so none is made twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from justmem.errors import InputError, JustMemError, ModelError
from justmem_eval.benchmarks import Benchmark, Case
from justmem_eval.calls import CapReached
from justmem_eval.judging import Judging, Verdict, corrected, planted
from justmem_eval.lines import Lines
from justmem_eval.rows import Row
from justmem_eval.systems.types import (
    Built,
    PeerCannotStart,
    PeerFailed,
    Predicted,
    Retrieved,
    Spent,
    System,
)

T = TypeVar("T")
OnProgress = Callable[[str, int, int], None]  # stage, done, of
CORRECTED = "corrected"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done: `runs` of answering and judging, at most `parallel` things at once."""

    runs: int = 5
    parallel: int = 4
    planted: int = 50


class Files:
    """The stage files of a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory = Lines(folder / "memory.jsonl", Built)
        self.evidence = Lines(folder / "evidence.jsonl", Retrieved)

    def predictions(self, run: int) -> Lines[Predicted]:
        return Lines(self.folder / f"predictions.{run}.jsonl", Predicted)

    def verdicts(self, run: int, judge: str = "strict") -> Lines[Verdict]:
        return Lines(self.folder / f"{judge}.{run}.jsonl", Verdict)

    def planted(self, judge: str = "strict") -> Lines[Verdict]:
        return Lines(self.folder / f"planted.{judge}.jsonl", Verdict)


async def run(
    system: System,
    benchmark: Benchmark,
    judges: Sequence[Judging],
    files: Files,
    plan: Plan,
    progress: OnProgress,
    phase: Callable[[str], None] = lambda _: None,
) -> None:
    """The first judge also judges by the corrected key. `phase` is told what the meter counts
    for: construction, inference or judging."""
    phase("construction")
    await _build(system, benchmark, files, plan, progress)
    phase("inference")
    await _retrieve(system, benchmark, files, plan, progress)
    for number in range(1, plan.runs + 1):
        phase("inference")
        await _answer(system, benchmark, files, plan, number, progress)
        if judges:
            phase("judging")
            await _judge_all(judges, benchmark, files, plan, number, progress)
    for judge in judges:
        await _plant(judge, benchmark, files, plan, progress)


async def _build(
    system: System, benchmark: Benchmark, files: Files, plan: Plan, progress: OnProgress
) -> None:
    async def one(id: str) -> None:
        files.memory.add(await _isolated(lambda: system.build(benchmark.history(id)), Built(id=id)))

    ids = dict.fromkeys(case.history for case in benchmark.cases)
    await _each("memory", ids, files.memory, one, plan.parallel, progress)


async def _retrieve(
    system: System, benchmark: Benchmark, files: Files, plan: Plan, progress: OnProgress
) -> None:
    groups = dict(benchmark.by_history())
    left = {
        id: wanted
        for id, cases in groups.items()
        if (wanted := [c for c in cases if not files.evidence.done(c.question.id)])
    }
    total = len(benchmark.cases)

    def lost(id: str, error: str) -> None:
        """Nothing can be asked of this history: all of its questions fail."""
        for case in left[id]:
            row = Row(id=case.question.id, history=id)
            files.evidence.add(Retrieved(id=case.question.id, row=row, error=error))

    async def one(id: str) -> None:
        if error := files.memory[id].error:
            lost(id, f"no memory: {error}")
            return
        history = benchmark.history(id)
        try:
            async with system.opened(history) as opened:
                asked = {case.question.id: case.question for case in left[id]}

                async def ask(name: str) -> None:
                    empty = Retrieved(id=name, row=Row(id=name, history=id))
                    retrieve = partial(opened.retrieve, asked[name])
                    files.evidence.add(await _isolated(retrieve, empty))
                    progress("evidence", len(files.evidence), total)

                await _parallel(asked, ask, plan.parallel)
        except (ModelError, InputError) as error:
            lost(id, str(error))

    progress("evidence", total - sum(map(len, left.values())), total)
    await _parallel(left, one, plan.parallel)


async def _answer(
    system: System,
    benchmark: Benchmark,
    files: Files,
    plan: Plan,
    number: int,
    progress: OnProgress,
) -> None:
    told = files.predictions(number)
    cases = {case.question.id: case for case in benchmark.cases}

    async def one(id: str) -> None:
        case, found = cases[id], files.evidence[id]
        if found.error:
            told.add(Predicted(id=id, error=f"no evidence: {found.error}"))
            return
        history = benchmark.history(case.history)
        told.add(
            await _isolated(
                lambda: system.answer(history, case.question, found, number),
                Predicted(id=id),
            )
        )

    await _each(f"answers {number}", cases, told, one, plan.parallel, progress)


async def _judge_all(
    judges: Sequence[Judging],
    benchmark: Benchmark,
    files: Files,
    plan: Plan,
    number: int,
    progress: OnProgress,
) -> None:
    told = files.predictions(number)
    cases = [case for case in benchmark.cases if judged(case)]
    for judge in judges:
        verdicts = files.verdicts(number, judge.name)
        await _judge(judge, cases, told, verdicts, plan, progress, f"{judge.name} {number}")
    changed = [other for case in cases if (other := corrected(case))]
    verdicts = files.verdicts(number, CORRECTED)
    await _judge(judges[0], changed, told, verdicts, plan, progress, f"{CORRECTED} {number}")


async def _judge(
    judge: Judging,
    asked: Sequence[Case],
    told: Lines[Predicted],
    verdicts: Lines[Verdict],
    plan: Plan,
    progress: OnProgress,
    stage: str,
) -> None:
    cases = {case.question.id: case for case in asked}
    number = int(stage.split()[-1])

    async def one(id: str) -> None:
        if told[id].error:
            verdicts.add(Verdict(id=id, error=f"no answer: {told[id].error}"))
            return
        answer = told[id].answer
        verdicts.add(
            await _isolated(lambda: judge.judge(cases[id], answer, sample=number), Verdict(id=id))
        )

    await _each(stage, cases, verdicts, one, plan.parallel, progress)


def judged(case: Case) -> bool:
    """LoCoMo's category 5 has no gold answer: its refusals are counted, not judged."""
    return bool(case.gold.answer or case.gold.cue or case.gold.rubric)


async def _plant(
    judge: Judging, benchmark: Benchmark, files: Files, plan: Plan, progress: OnProgress
) -> None:
    sure = {each.id: each for each in planted(list(benchmark.cases), plan.planted)}
    told = files.planted(judge.name)

    async def one(id: str) -> None:
        case, text = sure[id].case, sure[id].text
        verdict = await _isolated(lambda: judge.judge(case, text, sample=0), Verdict(id=id))
        told.add(verdict.model_copy(update={"id": id}))

    await _each(f"planted {judge.name}", sure, told, one, plan.parallel, progress)


# ---------------------------------------------------------------- doing many things

Kept = TypeVar("Kept", bound=Spent)


async def _isolated(work: Callable[[], Awaitable[Kept]], otherwise: Kept) -> Kept:
    """One question's failure is its own: named and counted, and the run goes on."""
    try:
        return await work()
    except (CapReached, PeerCannotStart):
        raise
    except JustMemError as error:
        seen = error.seen if isinstance(error, PeerFailed) else None
        update = {"error": str(error), "calls": error.calls, "seen": seen}
        return otherwise.model_copy(update=update)


async def _each(
    stage: str,
    ids: Iterable[str],
    done: Lines[Kept],
    one: Callable[[str], Awaitable[None]],
    parallel: int,
    progress: OnProgress,
) -> None:
    wanted = list(ids)
    left = [id for id in wanted if not done.done(id)]
    finished = len(wanted) - len(left)
    progress(stage, finished, len(wanted))

    async def counted(id: str) -> None:
        nonlocal finished
        await one(id)
        finished += 1
        progress(stage, finished, len(wanted))

    await _parallel(left, counted, parallel)


async def _parallel(
    ids: Iterable[str], one: Callable[[str], Awaitable[None]], parallel: int
) -> None:
    slots = asyncio.Semaphore(parallel)

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


def rows(files: Files, cases: Sequence[Case]) -> list[tuple[Case, Row]]:
    """Evidence of the questions that have some."""
    return [
        (case, files.evidence[case.question.id].row)
        for case in cases
        if files.evidence.done(case.question.id)
    ]
