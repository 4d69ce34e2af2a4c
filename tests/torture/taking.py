"""Random histories, exported and loaded elsewhere: the same memory, with a complete log."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from justmem import AsyncMemory
from justmem.errors import ModelUnavailable
from justmem.ports import Prompt
from justmem.testing import ScriptedModel
from torture._fixtures import database, folder, has_postgres, memory, reply
from torture._life import Life, observed, perform

PROMISE = "An export that is imported elsewhere is the same memory. Every change log is complete."
COUNT = 200
SAMPLE = 3

_NOISE = 0.001  # float32 sums depend on the order of the rows
QUESTIONS = ("Which cat do I keep?", "What do I keep in Porto?", "Which shelf is blue?")


def run(count: int, seed: int = 7) -> str:
    return asyncio.run(_run(count, seed))


async def _run(count: int, seed: int) -> str:
    sessions = 0
    with folder() as home:
        places = [str(home / "one"), str(home / "two")]
        places += [database("taking")] if has_postgres() else []
        for number in range(count):
            chance = random.Random(f"{seed}-{number}")
            here, there = chance.sample(places, 2)
            try:
                sessions += await _compare(chance, here, there, f"space {number}", home)
            except AssertionError as error:
                raise AssertionError(f"history {number} of seed {seed}: {error}") from error
    kinds = "both stores" if len(places) == 3 else "SQLite alone"
    return f"{count:,} histories, {sessions:,} sessions, on {kinds}: equal, logs complete"


async def _compare(chance: random.Random, here: str, there: str, name: str, home: Path) -> int:
    file, vectors = home / "export.jsonl", chance.random() < 0.5
    async with _opened(here, name, chance) as mine, _opened(there, f"{name} b", chance) as other:
        await _live(mine, chance)
        lines = [line async for line in mine.export(vectors=vectors)]
        file.write_text("".join(lines), "utf-8")
        done = await other.load(file)
        assert await observed(other) == await observed(mine), "sessions, cards or notes differ"
        assert await _view(other) == await _view(mine), "the memories differ"
        for question in QUESTIONS:
            pairs = zip(await _scores(other, question), await _scores(mine, question), strict=True)
            assert all(abs(a - b) < _NOISE for a, b in pairs), "a search finds something else"
        assert done.embedded == 0 or not vectors, "vectors were made anew"
        assert (await other.load(file)).brought == 0, "loading again added something"
        for side in (mine, other):
            log = await side.check_log()
            assert log.whole, log.problem
            await side.forget(everything=True)
        return int(done.sessions)


def _opened(where: str, space: str, chance: random.Random) -> Any:
    """The model fails sometimes."""

    def unreliable(prompt: Prompt) -> Any:
        failed = prompt.stage == "extract" and chance.random() < 0.15
        return ModelUnavailable("The model is away.") if failed else reply(prompt)

    return memory(where, space, model=ScriptedModel(unreliable), actor="torture")


async def _live(mine: AsyncMemory, chance: random.Random) -> None:
    life = Life()
    for _ in range(chance.randint(2, 10)):
        step = life.draw(chance)
        if step.verb == "remember":
            step = step._replace(verb="keep")  # `remember` may fail here: `retry` repeats it
        await perform(mine, step)
        life.apply(step)
        while step.verb in ("append", "rebuild") or chance.random() < 0.7:
            if not await mine.retry():
                break
        for each in life.sessions.values():
            each.pending = bool(await mine.waiting())


async def _view(mine: AsyncMemory) -> list[Any]:
    """What else a user sees: states, waiting texts and corrections."""
    changes = [(each.before, each.after, each.pinned) for each in await mine.corrections()]
    return [await mine.sessions(), await mine.waiting(), changes]


async def _scores(mine: AsyncMemory, question: str) -> list[float]:
    found = await mine.recall(question, plan={"rewrites": []})
    return sorted(each.score for each in found.chosen)
