"""Signal 9 at a random moment of every operation that writes."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from justmem import transfer
from justmem.cli.app import app
from justmem.store.engine import storage
from postgres import rows
from torture._children import Child, Pace, Report
from torture._fixtures import database, folder, has_postgres, memory, server, session
from torture._life import Life, Step, observed, perform

PROMISE = (
    "A process can be killed at any moment. No acknowledged change is lost, each card has its "
    "turns, and nothing is half written."
)
COUNT = 500
SAMPLE = 10

KILLS = 25  # that one space goes through
SPACE = "shared"


def run(count: int, *, seed: int = 7) -> str:
    """Half of all kills hit SQLite at work. The others hit rarer operations."""
    kinds: list[Any] = [_work_sqlite] * 5 + [_create, _copy_sqlite]
    if has_postgres():
        kinds += [_work_postgres, _copy_to_postgres, _copy_from_postgres]
    for place, kind in enumerate(kinds):
        share = count * (place + 1) // len(kinds) - count * place // len(kinds)
        if share:
            with folder() as home:
                try:
                    kind(random.Random(f"{seed} {place}"), share, home)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, {kind.__name__}: {error}") from error
    where = "SQLite and PostgreSQL" if has_postgres() else "SQLite"
    return f"{count:,} kills on {where}, nothing lost"


# ---------------------------------------------------------------- at work


def _work_sqlite(chance: random.Random, kills: int, home: Path) -> None:
    for start in range(0, kills, KILLS):
        place = home / str(start)
        _live(chance, min(KILLS, kills - start), str(place))
        options = ["--folder", str(place), "--space", SPACE]
        checked = CliRunner().invoke(app, [*options, "check"])
        assert checked.exit_code == 0, checked.output


def _work_postgres(chance: random.Random, kills: int, home: Path) -> None:
    for start in range(0, kills, KILLS):
        _live(chance, min(KILLS, kills - start), database("kills"))


def _live(chance: random.Random, kills: int, where: str) -> None:
    life, pace = Life(), Pace()
    for _ in range(kills):
        planned, steps = life.copy(), []
        for _ in range(8):
            steps.append(planned.draw(chance))
            planned.apply(steps[-1])
        # Sometimes PostgreSQL is killed too, with all of its processes.
        crash = server() if where.startswith("postgresql") and chance.random() < 0.1 else None
        child = Child(_work, where, steps)
        reports = child.kill_after(
            chance.randrange(len(steps)), pace, chance, crash.kill if crash else None
        )
        if crash:
            crash.start()
        life.count = planned.count
        for step in steps[: len(reports)]:
            life.apply(step)
        life = asyncio.run(_look(where, life, steps[len(reports) :]))


async def _work(report: Report, where: str, steps: Sequence[Step]) -> None:
    async with memory(where) as mine:
        for step in steps:
            await perform(mine, step)
            report(step.verb)


async def _look(where: str, life: Life, left: Sequence[Step]) -> Life:
    """The space is as acknowledged, or one step further. Returns the state that it is in."""
    async with memory(where) as mine:
        health = await mine.check()
        assert health.sound, health.damage
        log = await mine.check_log()
        assert log.whole, log.problem
        if where.startswith("postgresql"):  # as if the dead process's lease had run out
            await rows(where, "UPDATE justmem.sessions SET due = 0 RETURNING 1", space=SPACE)
        for done in await mine.retry():
            assert done.state == "stored", f"{done.session_id}: {done.reason}"
        found = await observed(mine)
    further = life.copy()
    for step in left[:1]:
        further.apply(step)
    for state in (life, further):
        if state.expected() == found:
            for each in state.sessions.values():
                each.pending = False
            return state
    expected = life.expected()
    wrong = [id for id in expected | found if expected.get(id) != found.get(id)]
    shown = [(expected.get(id), found.get(id)) for id in wrong[:2]]
    raise AssertionError(f"after {left[:1]}: {wrong} are not as acknowledged: {shown}")


# ---------------------------------------------------------------- create


def _create(chance: random.Random, kills: int, home: Path) -> None:
    place, pace = home / "new", Pace()
    for _ in range(kills):
        shutil.rmtree(place, ignore_errors=True)
        Child(_open, str(place)).kill_after(1, pace, chance, None)
        assert asyncio.run(_look(str(place), Life(), ())).expected() == {}


async def _open(report: Report, where: str) -> None:
    report("begun")
    async with memory(where):
        report("open")


# ---------------------------------------------------------------- copy


def _copy_sqlite(chance: random.Random, kills: int, home: Path) -> None:
    _copies(chance, kills, str(home / "one"), [str(home / f"to-{n}") for n in range(kills)])


def _copy_to_postgres(chance: random.Random, kills: int, home: Path) -> None:
    _copies(chance, kills, str(home / "one"), [database("to")])


def _copy_from_postgres(chance: random.Random, kills: int, home: Path) -> None:
    _copies(chance, kills, database("from"), [str(home / f"to-{n}") for n in range(kills)])


def _copies(chance: random.Random, kills: int, source: str, targets: list[str]) -> None:
    """Each target gets three copies. The third one is finished, compared and emptied."""
    asyncio.run(_fill(source))
    pace = Pace()
    for number in range(kills):
        target = targets[number // 3 % len(targets)]
        child = Child(_copy, source, target)
        reports = child.kill_after(chance.randrange(6), pace, chance, None)
        asyncio.run(_arrived(source, target, [0, *reports][-1], last=number % 3 == 2))


async def _fill(where: str) -> None:
    async with memory(where) as mine:
        await mine.remember_many(session(f"s{n}") for n in range(12))
        await mine.keep(session("s3", 1))
        await mine.forget(session="s5")
        (card, other, *_) = await mine.cards(session="s6")
        await mine.forget(card=card.id)
        await mine.correct(other.id, fact="keeps a mule called Fix in Cork")
        await mine.note("Shelf 1 is blue.", key="k1", value={"a": 1}, labels={"topic": "shelf"})


async def _copy(report: Report, source: str, target: str) -> None:
    transfer.BATCH = 2
    one, other = storage(source), storage(target)
    left, right = await one.open(SPACE), await other.open(SPACE)
    await transfer.copy(left, right, lambda done, _: report(done))
    for each in (left, right, one, other):
        await each.close()


async def _arrived(source: str, target: str, copied: int, *, last: bool) -> None:
    """What was reported as copied is there, and a further copy completes the target."""
    async with memory(source) as left, memory(target) as right:
        health = await right.check()
        assert health.sound, health.damage
        there, all_of_it = await observed(right), await observed(left)
        assert len(there) >= copied, f"{copied} sessions were reported, {len(there)} are there"
        assert there.items() <= all_of_it.items(), "a copied session is not the same"
        if last:
            await _copy(lambda _: None, source, target)
            assert await observed(right) == all_of_it
            await right.forget(everything=True)
