"""Several processes at once on one space."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from justmem.domain import SessionState
from justmem.errors import NotInMemory, StoreBusy
from justmem.store.storage import storage
from torture._children import Child, Say
from torture._life import Step
from torture._places import database, folder, has_postgres
from torture._talk import card_ids, memory, session

PROMISE = (
    "Several processes can use one space at the same time. Each acknowledged change is there "
    "once. A process that waits too long gets an error."
)
COUNT = 1200
SAMPLE = 80

PROCESSES = 4
STEPS = 10  # of each process before all is looked at
SPACE = "shared"
CONTENDED = ["x", "y"]  # sessions that everybody writes; the others are one process's alone
VERBS = ["remember", "remember", "remember", "keep", "forget", "ask", "cards"]


def run(count: int, *, seed: int = 7) -> str:
    rounds = max(1, count // (PROCESSES * STEPS))
    told: Counter[str] = Counter()
    for number in range(rounds):
        chance = random.Random(f"{seed} {number}")
        with folder() as place:
            # Every fourth on a server, beginning with the second.
            where = database("torture_shared") if number % 4 == 1 and has_postgres() else str(place)
            told += _round(chance, where, f"seed {seed}, round {number}")
    done = told.total() - told["StoreBusy"]
    return f"{done:,} steps of {PROCESSES} processes, {told['StoreBusy']} told to wait"


def _round(chance: random.Random, where: str, case: str) -> Counter[str]:
    plans = [_plan(chance, f"p{number}") for number in range(PROCESSES)]
    asyncio.run(_make(where))
    children = [Child(_work, where, plan) for plan in plans]
    said = [child.finish() for child in children]
    for plan, results in zip(plans, said, strict=True):
        assert len(plan) == len(results), f"{case}: a process stopped half way"
    asyncio.run(_look(where, plans, said, case))
    return Counter(result for results in said for result in results)


def _plan(chance: random.Random, name: str) -> list[Step]:
    """Versions are drawn so that every text is one process's own."""
    steps: list[Step] = []
    for number in range(STEPS):
        id = chance.choice([*CONTENDED, f"{name}-a", f"{name}-b"])
        verb: Any = chance.choice(VERBS)
        steps.append(Step(verb, id, version=1000 * int(name[1:]) + number))
    return steps


async def _make(where: str) -> None:
    place = storage(where)
    async with memory(await place.open(SPACE)) as mine:
        await mine.remember(session("first"))
    await place.close()


def _work(say: Say, where: str, steps: Sequence[Step]) -> None:
    asyncio.run(_do(say, where, steps))


async def _do(say: Say, where: str, steps: Sequence[Step]) -> None:
    place = storage(where)
    async with memory(await place.open(SPACE)) as mine:
        for step in steps:
            try:
                await _step(mine, step)
                say("done")
            except (StoreBusy, NotInMemory) as error:  # anything else ends the process, and the run
                say(type(error).__name__)
    await place.close()


async def _step(mine: Any, step: Step) -> None:
    match step.verb:
        case "remember":
            await mine.remember(session(step.id, step.version))
        case "keep":
            await mine.keep(session(step.id, step.version))
        case "forget":
            await mine.forget(session=step.id)
        case "ask":
            assert (await mine.ask("Which cat do I keep?")).text
        case "cards":
            for card in await mine.cards():
                assert card.turns


async def _look(
    where: str, plans: Sequence[Sequence[Step]], said: Sequence[Sequence[str]], case: str
) -> None:
    place = storage(where)
    async with memory(await place.open(SPACE)) as mine:
        newest = {each.id: each for each in await mine.waiting()}
        there = [record.id for record in await mine.sessions()]
        assert len(there) == len(set(there)), f"{case}: a session is there twice"
        versions = {}
        for id in {step.id for plan in plans for step in plan} | {"first"}:
            found = newest.get(id) or (await mine.session(id) if id in there else None)
            allowed = _allowed(id, plans, said)
            matching = [v for v in allowed if found == (None if v is None else session(id, v))]
            assert matching, f"{case}: session {id} is as no order of the steps would leave it"
            versions[id] = matching[0]
        for done in await mine.retry():
            assert done.state == SessionState.STORED, f"{case}: {done.reason}"
        for id, version in versions.items():
            cards = [card.id for card in await mine.cards(session=id)]
            expected = [] if version is None else card_ids(session(id, version))
            assert cards == expected, f"{case}: the cards of {id} are not those of its words"
        checked = await mine.check()
        assert checked.sound, f"{case}: {checked.damage}"
    await place.close()


def _allowed(
    id: str, plans: Sequence[Sequence[Step]], said: Sequence[Sequence[str]]
) -> set[int | None]:
    """What the session may be at the end: the last step on it, in any order of the processes'
    steps, is the last one of some process. One that ended in an error may have happened."""
    allowed: set[int | None] = set()
    written = False
    for plan, results in zip(plans, said, strict=True):
        for step, result in reversed(list(zip(plan, results, strict=True))):
            if step.id != id or step.verb not in ("remember", "keep", "forget"):
                continue
            allowed.add(None if step.verb == "forget" else step.version)
            if result == "done":
                written = True
                break
    if not written:
        allowed.add(0 if id == "first" else None)
    return allowed
