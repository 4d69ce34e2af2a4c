"""Many appends to one session at once, from several processes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from justmem.errors import StoreBusy
from torture._children import Child, Report
from torture._fixtures import database, folder, has_postgres, memory

PROMISE = (
    "Several processes append turns to one session at the same time. Each turn is stored once, "
    "even if a program sends it twice."
)
COUNT = 1000
SAMPLE = 60

PROCESSES = 4
AT_ONCE = 5  # in each process


def run(count: int, *, seed: int = 7) -> str:
    chance = random.Random(seed)
    kinds = ["folder", *(["postgres"] if has_postgres() else [])]
    each = max(1, count // len(kinds) // PROCESSES)
    reports: Counter[str] = Counter()
    for kind in kinds:
        with folder() as place:
            where = str(place) if kind == "folder" else database("appends")
            seeds = [chance.random() for _ in range(PROCESSES)]
            children = [Child(_work, where, n, each, seeds[n]) for n in range(PROCESSES)]
            for child in children:
                reports.update(child.finish())
            asyncio.run(_look(where, each, f"seed {seed}, {kind}"))
    return f"{count:,} appends of {PROCESSES} processes, {reports['again']} of them repeated"


async def _work(report: Report, where: str, number: int, each: int, seed: float) -> None:
    chance, slots = random.Random(seed), asyncio.Semaphore(AT_ONCE)
    async with memory(where) as mine:

        async def append(n: int) -> None:
            turn = {"speaker": "User", "text": _text(number, n), "key": f"{number}.{n}"}
            times = 2 if chance.random() < 0.3 else 1  # a client that was not sure sends it again
            async with slots:
                while times:
                    try:
                        await mine.append([turn], id="chat", at="2024-05-01")
                        times -= 1
                        report("again" if times else "done")
                    except StoreBusy:
                        report("busy")

        await asyncio.gather(*(append(n) for n in range(each)))


def _text(number: int, n: int) -> str:
    return f"I keep shelf {number}-{n}."


async def _look(where: str, each: int, case: str) -> None:
    async with memory(where) as mine:
        await mine.retry()
        found = Counter(turn.text for turn in (await mine.session("chat")).turns)
        expected = Counter(_text(p, n) for p in range(PROCESSES) for n in range(each))
        assert found == expected, f"{case}: {(found - expected) or (expected - found)}"
        cards = await mine.cards(session="chat", limit=10**6)
        supported = {turn for card in cards for turn in card.turns}
        assert supported == set(range(1, len(expected) + 1)), f"{case}: turns without cards"
        health = await mine.check()
        assert health.sound, f"{case}: {health.damage}"
