"""Files that a disk, a copy or a program has damaged."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from justmem import AsyncMemory
from justmem.domain import Session
from justmem.errors import JustMemError, NotInMemory, StoreDamaged, StoreError
from torture._children import Child, Report
from torture._fixtures import fact_of, folder, memory, session

PROMISE = (
    "A damaged file is reported as damaged. It never causes a crash or a hang, and it never "
    "returns wrong words as yours."
)
COUNT = 500
SAMPLE = 8

SPACE = "shared"
SESSIONS = [session(f"s{n}", turns=60 if n % 8 == 0 else 2) for n in range(24)]
# All words that a session ever had. One that loses its log has the earlier ones again.
VERSIONS = {each.id: [each] for each in SESSIONS} | {"s2": [SESSIONS[2], session("s2", 1)]}
PAGE = 4096
HURTS = ("flip", "cut", "blank", "scribble", "swap", "header", "double")


def run(count: int, *, seed: int = 7) -> str:
    found: Counter[str] = Counter()
    with folder() as place:
        asyncio.run(_make_whole(place))
        for number in range(count):
            home = place / "home"
            what = _damage(random.Random(f"{seed} {number}"), place, home)
            try:
                found += Counter(Child(_use, str(home)).finish())
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, case {number} ({what}): {error}") from error
            shutil.rmtree(home)
    return (
        f"{count:,} damaged files: {found['refused']:,} not opened, {found['damaged']:,} found "
        f"damaged, {found['whole']:,} unharmed"
    )


async def _make_whole(place: Path) -> None:
    """Two undamaged files: one that was closed, one as a killed process leaves it."""
    work = place / "work"
    async with memory(work) as mine:
        await mine.remember_many(SESSIONS[:-2])
        (card, other, *_) = await mine.cards(session="s1")
        await mine.forget(card=card.id)
        await mine.pin(other.id)
        await mine.remember(session("s2", 1))
        await mine.note("Shelf 1 is blue.", key="k1", value={"a": 1})
        await mine.keep(SESSIONS[-2])
        await mine.remember(SESSIONS[-1])
        shutil.copytree(work, place / "killed")
    shutil.copytree(work, place / "closed")


def _damage(chance: random.Random, place: Path, home: Path) -> str:
    source = chance.choice(["closed", "killed"])
    shutil.copytree(place / source, home)
    path, log = home / f"{SPACE}.db", home / f"{SPACE}.db-wal"
    (home / f"{SPACE}.db-shm").unlink(missing_ok=True)
    if log.exists() and chance.random() < 0.2:
        log.unlink()
        return f"{source}, without its log"
    hurt = chance.choice(HURTS)
    target = log if log.exists() and chance.random() < 0.4 else path
    target.write_bytes(_hurt(hurt, chance, bytearray(target.read_bytes())))
    return f"{source}, {hurt} of {target.suffix}"


def _hurt(hurt: str, chance: random.Random, data: bytearray) -> bytearray:
    one, other = (PAGE * chance.randrange(max(1, len(data) // PAGE)) for _ in range(2))
    first, second = slice(one, one + PAGE), slice(other, other + PAGE)
    match hurt:
        case "flip":
            for _ in range(chance.choice([1, 1, 4, 40])):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case "cut":
            del data[chance.randrange(len(data)) :]
        case "blank":
            data[first] = data[second] = bytes(PAGE)
        case "scribble":
            data[first] = chance.randbytes(PAGE)
        case "swap":
            data[first], data[second] = data[second], data[first]
        case "header":
            data[:100] = chance.choice([bytes(100), chance.randbytes(100), b"PK\3\4" + bytes(96)])
        case "double":
            data += data[chance.randrange(len(data)) :]
    return data


# ---------------------------------------------------------------- in a child process


async def _use(report: Report, home: str) -> None:
    await asyncio.wait_for(_open_and_use(report, home), 50)


async def _open_and_use(report: Report, home: str) -> None:
    try:
        opened = await memory(home)
    except StoreError:
        report("refused")
        return
    try:
        async with opened as mine:
            health = await _or_none(mine.check())
            sound = health is not None and health.sound
            report("whole" if await _words_are_right(mine, sound=sound) and sound else "damaged")
            await _go_on(mine)
    except StoreError:
        report("damaged")


async def _or_none(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except StoreError:
        return None


async def _words_are_right(mine: AsyncMemory, *, sound: bool) -> bool:
    """Words are right or refused. If `check` finds no damage, the cards are right too."""
    complete = True
    current: dict[str, Session] = {}
    for id, versions in VERSIONS.items():
        try:
            current[id] = await mine.session(id)
            assert current[id] in versions, f"other words for {id}"
        except NotInMemory:
            complete = False
        except StoreDamaged:
            assert not sound, f"check did not see that {id} is damaged"
            complete = False
    if sound:
        for card in await mine.cards(limit=10_000):
            if card.kind != "note":
                words = current[card.session_id]
                assert fact_of(words.turn(card.turns[0]).text) == card.fact, f"wrong card: {card}"
                assert (card.status, card.said_at) == ("ongoing", words.at), f"wrong card: {card}"
    return complete


async def _go_on(mine: AsyncMemory) -> None:
    """Every operation works or raises one of our errors."""
    for work in (
        lambda: mine.ask("Which cat do I keep in Porto?"),
        mine.waiting,
        mine.stats,
        mine.notes,
        mine.corrections,
        lambda: mine.remember(session("new")),
        lambda: mine.remember(session("s4", 1)),
        lambda: mine.note("Shelf 2 is red.", key="k1"),
        lambda: mine.forget(session="s6"),
        mine.retry,
    ):
        try:
            await work()
        except JustMemError:
            continue
