"""Encrypted spaces whose key is changed by a process that is killed."""

from __future__ import annotations

import asyncio
import random
import secrets
from pathlib import Path

from pydantic import SecretStr

from justmem.errors import StoreLocked, StoreNotLocked
from justmem.store.files import Keyring
from justmem.store.sqlite import rekey
from torture._children import Child, Pace, Report
from torture._fixtures import folder, memory, session
from torture._life import Life, observed, perform

PROMISE = (
    "An encrypted space contains no plain text, and no other key opens it. If a change of the key "
    "is killed, exactly one key opens the space."
)
COUNT = 200
SAMPLE = 12

SPACE = "shared"


def run(count: int, *, seed: int = 7) -> str:
    changed, pace = 0, Pace()
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        try:
            with folder() as place:
                changed += (_rotate if number % 2 else _fill)(chance, place, pace)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, kill {number}: {error}") from error
    return f"{count:,} kills ({changed:,} after the change was done), one key each, no plain text"


def _rotate(chance: random.Random, place: Path, pace: Pace) -> bool:
    old, new = _key(), _key()
    life = Life()
    asyncio.run(_live(place, old, life, chance))
    Child(_rekey, str(place), old, new).kill_after(1, pace, chance, None)
    _no_plain_text(place)
    changed = _opens(place, new)
    assert changed != _opens(place, old), "not exactly one key opens the space"
    for wrong in (_key(), None):
        assert not _opens(place, wrong), "a wrong key opens the space"
    if not changed:
        asyncio.run(_rekey(lambda _: None, str(place), old, new))
    assert asyncio.run(_look(place, new)) == life.expected(), "something is missing"
    _no_plain_text(place)
    return changed


async def _live(place: Path, key: str, life: Life, chance: random.Random) -> None:
    async with memory(place, key=key) as mine:
        for _ in range(chance.randint(4, 12)):
            step = life.draw(chance)
            await perform(mine, step)
            life.apply(step)
        await mine.retry()


async def _rekey(report: Report, place: str, old: str, new: str) -> None:
    report("begun")
    keys = [Keyring(SecretStr(key)) for key in (old, new)]
    await asyncio.to_thread(rekey, Path(place), SPACE, *keys)


def _fill(chance: random.Random, place: Path, pace: Pace) -> bool:
    """A space that is being filled: what was acknowledged is there."""
    key = _key()
    done = Child(_remember, str(place), key).kill_after(chance.randrange(6), pace, chance, None)
    _no_plain_text(place)
    assert len(asyncio.run(_look(place, key))) >= len(done), "an acknowledged session is lost"
    return bool(done)


async def _remember(report: Report, place: str, key: str) -> None:
    async with memory(place, key=key) as mine:
        for number in range(9):
            await mine.remember(session(f"s{number}"))
            report(number)


async def _look(place: Path, key: str) -> dict[str, object]:
    async with memory(place, key=key) as mine:
        return await observed(mine)


def _opens(place: Path, key: str | None) -> bool:
    async def opened() -> None:
        async with memory(place, key=key):
            pass

    try:
        asyncio.run(opened())
    except (StoreLocked, StoreNotLocked):
        return False
    return True


def _no_plain_text(place: Path) -> None:
    for path in place.rglob("*"):
        stored = path.read_bytes().lower() if path.is_file() else b""
        for word in (b"i keep", b"keeps a", b"how is", b" called ", b"shelf"):
            assert word not in stored, f"{path.name} contains {word!r}"


def _key() -> str:
    return secrets.token_hex(32)
