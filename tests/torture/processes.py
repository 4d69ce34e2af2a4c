"""Several processes at once on one space."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

from justmem.errors import InputError, StoreBusy
from torture._children import Child, Report
from torture._fixtures import database, fact_of, folder, has_postgres, memory, statement
from torture._life import Life, Step, observed, perform

PROMISE = (
    "Several processes can use one space at the same time. Each acknowledged change is there "
    "once. A process that waits too long gets an error."
)
COUNT = 1200
SAMPLE = 80

PROCESSES = 4
STEPS = 10  # of each process in a round
SHARED = statement("shared")  # a card that all processes correct


def run(count: int, *, seed: int = 7) -> str:
    rounds = max(1, count // (PROCESSES * STEPS))
    reports: Counter[str] = Counter()
    for number in range(rounds):
        with folder() as place:
            on_server = number % 4 == 1 and has_postgres()
            where = database("shared") if on_server else str(place)
            try:
                reports += _round(random.Random(f"{seed} {number}"), where)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, round {number}: {error}") from error
    done = reports.total() - reports["StoreBusy"]
    return f"{done:,} steps of {PROCESSES} processes, {reports['StoreBusy']} told to wait"


def _round(chance: random.Random, where: str) -> Counter[str]:
    """Each process changes sessions and notes of its own, and some that all share."""
    asyncio.run(_begin(where))
    lives = [Life(f"p{number}") for number in range(PROCESSES)]
    plans: list[list[Step]] = []
    for life in lives:
        plans.append([])
        for _ in range(STEPS):
            plans[-1].append(life.draw(chance))
            life.apply(plans[-1][-1])
    children = [
        Child(_work, where, life.name, plan) for life, plan in zip(lives, plans, strict=True)
    ]
    reports = [report for child in children for report in child.finish()]
    asyncio.run(_look(where, lives))
    return Counter(reports)


async def _begin(where: str) -> None:
    async with memory(where) as mine:
        await mine.remember([{"speaker": "User", "text": SHARED}], id="all", at="2024-05-01")


async def _work(report: Report, where: str, name: str, steps: Sequence[Step]) -> None:
    async with memory(where) as mine:
        for number, step in enumerate(steps):
            await _until_done(report, mine, step)
            await _until_done(report, mine, Step("note", "shared key", version=number))
            if number % 3 == 0:
                assert (await mine.ask("Which cat do I keep?")).text
                await _correct(report, mine, f"keeps a mule called {name}-{number} in Cork")


async def _until_done(report: Report, mine: object, step: Step) -> None:
    while True:
        try:
            await perform(mine, step)  # type: ignore[arg-type]
        except StoreBusy:
            report("StoreBusy")
        else:
            report("done")
            return


async def _correct(report: Report, mine: object, fact: str) -> None:
    """Another process may have replaced the card meanwhile: that is an error, not a loss."""
    (card,) = await mine.cards(session="all")  # type: ignore[attr-defined]
    try:
        await mine.correct(card.id, fact=fact)  # type: ignore[attr-defined]
        report("done")
    except (InputError, StoreBusy) as error:
        report(type(error).__name__)


async def _look(where: str, lives: Sequence[Life]) -> None:
    async with memory(where) as mine:
        for done in await mine.retry():
            assert done.state == "stored", done.reason
        for life in lives:
            found, expected = await observed(mine, life.name), life.expected()
            wrong = [id for id in expected | found if expected.get(id) != found.get(id)]
            assert not wrong, [(expected.get(id), found.get(id)) for id in wrong[:2]]
        assert len([each for each in await mine.notes() if each.key == "shared key"]) == 1
        (card,) = await mine.cards(session="all")
        versions = [fact_of(SHARED), *(each.after.fact for each in await mine.corrections(card.id))]
        assert card.fact == versions[-1], "the last correction does not count"
        assert len(versions) == len(set(versions)), "a correction is there twice"
        health = await mine.check()
        assert health.sound, health.damage
