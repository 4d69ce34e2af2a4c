"""Many appends to one session at once, from several processes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from justmem.errors import StoreBusy
from justmem.store.storage import storage
from torture._children import Child, Say
from torture._places import database, folder, has_postgres
from torture._talk import memory

PROMISE = (
    "Several processes append turns to one session at the same time. Each turn is stored once, "
    "even if a program sends it twice."
)
COUNT = 1000
SAMPLE = 60

PROCESSES = 4
AT_ONCE = 5  # of each process
SPACE = "shared"


def run(count: int, *, seed: int = 7) -> str:
    chance = random.Random(seed)
    where_to = ["folder", *(["postgres"] if has_postgres() else [])]
    busy: Counter[str] = Counter()
    for kind in where_to:
        each = max(1, count // len(where_to) // PROCESSES)
        with folder() as place:
            where = str(place) if kind == "folder" else database("torture_appends")
            seeds = [chance.random() for _ in range(PROCESSES)]
            children = [Child(_work, where, n, each, seeds[n]) for n in range(PROCESSES)]
            for child in children:
                busy.update(child.finish())
            asyncio.run(_look(where, each, f"seed {seed}, {kind}"))
    return f"{count:,} appends of {PROCESSES} processes, {busy['again']} of them repeated"


def _work(say: Say, where: str, number: int, each: int, seed: float) -> None:
    asyncio.run(_append(say, where, number, each, random.Random(seed)))


async def _append(say: Say, where: str, number: int, each: int, chance: random.Random) -> None:
    place = storage(where)
    slots = asyncio.Semaphore(AT_ONCE)
    async with memory(await place.open(SPACE)) as mine:

        async def one(n: int) -> None:
            turn = {"speaker": "User", "text": _text(number, n), "key": f"{number}.{n}"}
            times = 2 if chance.random() < 0.3 else 1  # a client that was not sure sends it again
            async with slots:
                while times:
                    try:
                        await mine.append([turn], id="chat", at="2024-05-01")
                        times -= 1
                        say("again" if times else "done")
                    except StoreBusy:
                        say("busy")

        await asyncio.gather(*(one(n) for n in range(each)))
    await place.close()


def _text(number: int, n: int) -> str:
    return f"I keep shelf {number}-{n}."


async def _look(where: str, each: int, case: str) -> None:
    place = storage(where)
    async with memory(await place.open(SPACE)) as mine:
        await mine.retry()
        said = Counter(turn.text for turn in (await mine.session("chat")).turns)
        expected = Counter(_text(p, n) for p in range(PROCESSES) for n in range(each))
        assert said == expected, f"{case}: {(said - expected) or (expected - said)}"
        cards = await mine.cards(session="chat", limit=10**6)
        rest_on = {turn for card in cards for turn in card.turns}
        assert rest_on == set(range(1, len(expected) + 1)), f"{case}: turns without cards"
        checked = await mine.check()
        assert checked.sound, f"{case}: {checked.damage}"
    await place.close()
