"""Kill -9 at any moment of remember, re-remember, forget, create and copy."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from justmem import transfer
from justmem.cli.app import app
from justmem.domain import SessionState
from justmem.ports import Store
from justmem.store.storage import storage
from justmem.transfer.lines import session_line
from postgres import Server, rows
from torture._children import Child, Pace, Say
from torture._life import Life, Step
from torture._places import database, folder, has_postgres, server
from torture._talk import memory, session

PROMISE = (
    "A process can be killed at any moment. No acknowledged session is lost, each card has its "
    "turns, and nothing is half written."
)
COUNT = 500
SAMPLE = 10

LIVES = 25  # kills that a space goes through before the next one begins
SPACE = "version-1"  # the name in that file; the others may have it too


def run(count: int, *, seed: int = 7) -> str:
    """Shares of all kills: half of them on SQLite at work, the rest on what is done less often."""
    kinds: list[Any] = [_work_sqlite] * 5 + [_create, _copy_sqlite]
    if has_postgres():
        kinds += [_work_postgres, _copy_to_postgres, _copy_from_postgres]
    done = 0
    for place, kind in enumerate(kinds):
        share = count * (place + 1) // len(kinds) - count * place // len(kinds)
        if share:
            with folder() as made:
                try:
                    kind(random.Random(f"{seed} {place}"), share, made)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, {kind.__name__}: {error}") from error
        done += share
    where = "SQLite and PostgreSQL" if has_postgres() else "SQLite"
    return f"{done:,} kills on {where}, nothing lost"


# ---------------------------------------------------------------- at work


def _work_sqlite(chance: random.Random, kills: int, place: Path) -> None:
    for start in range(0, kills, LIVES):
        home = place / str(start)
        _live(chance, min(LIVES, kills - start), str(home))
        _doctor(home)


def _work_postgres(chance: random.Random, kills: int, place: Path) -> None:
    for start in range(0, kills, LIVES):
        _live(chance, min(LIVES, kills - start), database("torture_kills"), server())


def _live(
    chance: random.Random, kills: int, where: str, database_server: Server | None = None
) -> None:
    life, pace = Life(), Pace(0.01)
    for _ in range(kills):
        planned, steps = life.copy(), []
        for _ in range(8):
            steps.append(planned.draw(chance))
            planned.apply(steps[-1])
        words = chance.randrange(len(steps))
        start = time.perf_counter()
        # Now and then the server dies before its client does, with all of its processes.
        crash = database_server if chance.random() < 0.1 else None
        child = Child(_work, where, steps)
        first = crash.kill if crash else None
        done = len(child.kill_after(words, pace.draw(chance), first=first))
        if crash:
            crash.start()
        if done:
            pace.learn((time.perf_counter() - start) / (done + 1))
        life.born = planned.born
        for step in steps[:done]:
            life.apply(step)
        asyncio.run(_look(where, life, steps[done] if done < len(steps) else None))


def _work(say: Say, where: str, steps: Sequence[Step]) -> None:
    asyncio.run(_do(say, where, steps))


async def _do(say: Say, where: str, steps: Sequence[Step]) -> None:
    place = storage(where)
    async with memory(await place.open(SPACE)) as mine:
        for step in steps:
            match step.verb:
                case "remember":
                    done = await mine.remember(session(step.id, step.version))
                    assert done.state == SessionState.STORED, done.reason
                case "keep":
                    await mine.keep(session(step.id, step.version))
                case "forget":
                    await mine.forget(session=step.id)
                case "forget card":
                    await mine.forget(card=step.card)
            say(step.id)
    await place.close()


async def _look(where: str, life: Life, under_way: Step | None) -> None:
    place = storage(where)
    store = await place.open(SPACE)
    await _sound(store)
    async with memory(store) as mine:
        await life.seen(mine, under_way)
        log = await mine.check_log()
        assert log.whole, log.problem
        if where.startswith("postgresql"):  # as if the dead one's lease had run out
            await rows_of(where, "UPDATE justmem.queue SET due = 0 RETURNING 1")
        await life.finished(mine)
        await _sound(store)
        await life.seen(mine, None)
    await place.close()


async def rows_of(url: str, sql: str) -> None:
    await rows(url, sql, space=SPACE)


async def _sound(store: Store) -> None:
    checked = await store.check()
    assert checked.sound, checked.damage


def _doctor(home: Path) -> None:
    """The command says the same as the library."""
    arguments = ["--folder", str(home), "--space", SPACE, "doctor", "--deep", "--offline", "--json"]
    said = CliRunner().invoke(app, arguments)
    assert "the stored words are unchanged" in said.output, said.output


# ---------------------------------------------------------------- create


def _create(chance: random.Random, kills: int, place: Path) -> None:
    home, pace = place / "home", Pace(0.02)
    for _ in range(kills):
        shutil.rmtree(home, ignore_errors=True)
        child = Child(_open, str(home))
        assert child.hear()  # it is about to
        start = time.perf_counter()
        if child.kill_after(1, pace.draw(chance)) == ["begun", "open"]:
            pace.learn((time.perf_counter() - start) / 2)
        else:
            pace.learn((time.perf_counter() - start) * 1.5)
        asyncio.run(_created(str(home)))


def _open(say: Say, where: str) -> None:
    async def work() -> None:
        say("begun")
        store = await storage(where).open(SPACE)
        say("open")
        await store.close()

    asyncio.run(work())


async def _created(where: str) -> None:
    store = await storage(where).open(SPACE)
    await _sound(store)
    assert await store.sessions() == []
    await store.close()


# ---------------------------------------------------------------- copy


def _copy_sqlite(chance: random.Random, kills: int, place: Path) -> None:
    _copies(chance, kills, str(place / "one"), [str(place / f"to-{n}") for n in range(kills)])


def _copy_to_postgres(chance: random.Random, kills: int, place: Path) -> None:
    _copies(chance, kills, str(place / "one"), [database("torture_to")])


def _copy_from_postgres(chance: random.Random, kills: int, place: Path) -> None:
    targets = [str(place / f"to-{n}") for n in range(kills)]
    _copies(chance, kills, database("torture_from"), targets)


def _copies(chance: random.Random, kills: int, source: str, targets: list[str]) -> None:
    """Into each target in turn; one that a copy has filled is emptied."""
    asyncio.run(_fill(source))
    pace = Pace(0.02)
    for number in range(kills):
        target = targets[number // 3 % len(targets)]
        start = time.perf_counter()
        child = Child(_copy, source, target)
        said = child.kill_after(chance.randrange(6), pace.draw(chance))
        if said:
            pace.learn((time.perf_counter() - start) / (len(said) + 1))
        asyncio.run(_arrived(source, target, said[-1] if said else 0, last=number % 3 == 2))


async def _fill(where: str) -> None:
    place = storage(where)
    async with memory(await place.open(SPACE)) as mine:
        await mine.remember_many(session(f"s{n}") for n in range(12))
        await mine.keep(session("s3", 1))
        await mine.keep(session("late"))
        await mine.forget(session="s5")
        (card, *_) = await mine.cards(session="s6")
        await mine.forget(card=card.id)
    await place.close()


def _copy(say: Say, source: str, target: str) -> None:
    transfer.BATCH = 2

    async def work() -> None:
        one, other = storage(source), storage(target)
        left, right = await one.open(SPACE), await other.open(SPACE)
        await transfer.copy(left, right, lambda done, _: say(done))
        await left.close()
        await right.close()
        await one.close()
        await other.close()

    asyncio.run(work())


async def _arrived(source: str, target: str, told: int, *, last: bool) -> None:
    """What was told to be there is, and the copy can be finished."""
    one, other = storage(source), storage(target)
    left, right = await one.open(SPACE), await other.open(SPACE)
    await _sound(right)
    ids = [record.id for record in await left.sessions()]
    there = {whole.session.id: whole for whole in await right.wholes(ids)}
    same = [
        whole
        for whole in await left.wholes(ids)
        if (copied := there.get(whole.session.id))
        and session_line(copied, vectors=True) == session_line(whole, vectors=True)
    ]
    assert len(same) >= told, f"{told} sessions were said to be copied, {len(same)} are there"
    if last:
        done = await transfer.copy(left, right)
        assert done.sessions == len(ids)
        await _sound(right)
        await right.forget(everything=True)
    await left.close()
    await right.close()
    await one.close()
    await other.close()
