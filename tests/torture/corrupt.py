"""Files that a disk, a copy or a program has damaged."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from justmem import AsyncMemory
from justmem.domain import Session, dump
from justmem.errors import JustMemError, NotInMemory, StoreDamaged, StoreError
from justmem.store.files import side_files
from justmem.store.sqlite import open_store
from torture._children import Child, Say
from torture._places import folder
from torture._talk import memory, session

PROMISE = (
    "A damaged file is reported as damaged. It never causes a crash or a hang, and it never "
    "returns wrong words as yours."
)
COUNT = 500
SAMPLE = 8

SPACE = "hurt"
SESSIONS = 24
PAGE = 4096

Hurt = Callable[[random.Random, bytearray], bytearray]

# ---------------------------------------------------------------- what happens to files


def _flip(chance: random.Random, data: bytearray) -> bytearray:
    for _ in range(chance.choice([1, 1, 4, 40])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def _cut(chance: random.Random, data: bytearray) -> bytearray:
    return data[: chance.randrange(len(data))]


def _blank(chance: random.Random, data: bytearray) -> bytearray:
    for _ in range(chance.choice([1, 1, 3])):
        page = chance.randrange(max(1, len(data) // PAGE))
        data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    return data


def _scribble(chance: random.Random, data: bytearray) -> bytearray:
    page = chance.randrange(max(1, len(data) // PAGE))
    data[page * PAGE : (page + 1) * PAGE] = chance.randbytes(PAGE)
    return data


def _swap(chance: random.Random, data: bytearray) -> bytearray:
    one, other = (PAGE * chance.randrange(max(1, len(data) // PAGE)) for _ in range(2))
    data[one : one + PAGE], data[other : other + PAGE] = (
        data[other : other + PAGE],
        data[one : one + PAGE],
    )
    return data


def _header(chance: random.Random, data: bytearray) -> bytearray:
    data[:100] = chance.choice([bytes(100), chance.randbytes(100), b"PK\3\4" + bytes(96)])
    return data


def _double(chance: random.Random, data: bytearray) -> bytearray:
    return data + data[chance.randrange(len(data)) :]


HURTS: dict[str, Hurt] = {
    "flip": _flip,
    "cut": _cut,
    "blank": _blank,
    "scribble": _scribble,
    "swap": _swap,
    "header": _header,
    "double": _double,
}

# ---------------------------------------------------------------- the check


def run(count: int, *, seed: int = 7) -> str:
    told: Counter[str] = Counter()
    with folder() as place:
        asyncio.run(_sound(place))
        for number in range(count):
            chance = random.Random(f"{seed} {number}")
            home = place / "home"
            what = _hurt(chance, place, home)
            try:
                told += Counter(Child(_use, str(home)).finish())
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, case {number} ({what}): {error}") from error
            shutil.rmtree(home)
    return (
        f"{count:,} damaged files: {told['refused']:,} not opened, {told['found']:,} found "
        f"damaged, {told['whole']:,} unharmed"
    )


def _said() -> list[Session]:
    return [session(f"s{n}", turns=60 if n % 8 == 0 else 2) for n in range(SESSIONS)]


def _versions() -> dict[str, list[Session]]:
    """All words that a session ever had. One that loses its log has the earlier ones again."""
    versions = {each.id: [each] for each in _said()}
    versions["s2"].append(session("s2", 1))
    return versions


async def _sound(place: Path) -> None:
    """Two files that are as they should be: one closed, one as a killed process leaves it."""
    async with memory(await open_store(place, SPACE)) as mine:
        await mine.remember_many(_said()[:-2])
        (card, *_) = await mine.cards(session="s1")
        await mine.forget(card=card.id)
        await mine.remember(session("s2", 1))
        for name in ("closed", "killed"):
            if name == "killed":
                await mine.keep(_said()[-2])
                await mine.remember(_said()[-1])
                shutil.copytree(place, place / name, ignore=shutil.ignore_patterns("*ed"))
    shutil.copytree(place, place / "closed", ignore=shutil.ignore_patterns("*ed"))


def _hurt(chance: random.Random, place: Path, home: Path) -> str:
    left = chance.choice(["closed", "killed"])
    shutil.copytree(place / left, home)
    path = home / f"{SPACE}.db"
    log, index = side_files(path)
    index.unlink(missing_ok=True)
    if log.exists() and chance.random() < 0.2:
        log.unlink()
        return f"{left}, without its log"
    name = chance.choice(sorted(HURTS))
    hurt = log if log.exists() and chance.random() < 0.4 else path
    hurt.write_bytes(HURTS[name](chance, bytearray(hurt.read_bytes())))
    return f"{left}, {name} of {hurt.suffix}"


# ---------------------------------------------------------------- in a process of its own


def _use(say: Say, home: str) -> None:
    asyncio.run(asyncio.wait_for(_used(say, Path(home)), 50))


async def _used(say: Say, home: Path) -> None:
    try:
        store = await open_store(home, SPACE)
    except StoreError:
        say("refused")
        return
    try:
        async with memory(store) as mine:
            found = await _tried(mine.check())
            sound = found is not None and found.sound
            right = await _right(mine, sound=sound)
            say("whole" if sound and right else "found")
            await _go_on(mine)
    except StoreError:
        say("found")


async def _tried(work: Awaitable[Any]) -> Any:
    """None where the store says that it cannot."""
    try:
        return await work
    except StoreError:
        return None


async def _right(mine: AsyncMemory, *, sound: bool) -> bool:
    """Words are right, or refused. If `check` finds nothing, all else is right too."""
    right = True
    expected = _versions()
    current: dict[str, Session] = {}
    for id, versions in expected.items():
        try:
            current[id] = await mine.session(id)
            assert current[id] in versions, f"other words for {id}"
        except NotInMemory:
            right = False
        except StoreDamaged:
            assert not sound, f"check did not see that {id} is damaged"
            right = False
    cards = await _tried(mine.cards())
    if sound:
        assert cards is not None
        for card in cards:
            told = _told(card, current[card.session_id])
            assert told, f"a card that was not made: {dump(card)}"
    return right


def _told(card: Any, words: Session) -> bool:
    """As the model of `_talk` makes them."""
    turn = words.turn(card.turns[0])
    whole = (card.status, card.kind, str(card.event_date), card.said_at)
    return turn.text == f"I {card.fact.replace('keeps', 'keep', 1)}." and whole == (
        "ongoing",
        "state",
        "unknown",
        words.at,
    )


async def _go_on(mine: AsyncMemory) -> None:
    """It may work or refuse, not more."""
    for work in (
        mine.ask("Which cat do I keep in Porto?"),
        mine.waiting(),
        mine.stats(),
        mine.remember(session("new")),
        mine.remember(session("s4", 1)),
        mine.forget(session="s6"),
        mine.retry(),
    ):
        try:
            await work
        except JustMemError:
            continue
