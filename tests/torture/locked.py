"""Random histories in locked spaces, whose keys are changed by processes that are killed."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from justmem.errors import StoreLocked, StoreNotLocked
from justmem.ports import session_in
from justmem.store.files import Keyring
from justmem.store.sqlite import open_store, rekey
from store_contract import remember, session

PROMISE = (
    "A locked space contains no plain text, and no other key opens it. If a change of the key "
    "is killed, exactly one key opens the space."
)
COUNT = 200
SAMPLE = 12

SPACE = "ana"
History = dict[str, str]  # session -> what was said


def run(count: int, *, seed: int = 7) -> str:
    kinds = (_rotate, _make)
    moved = 0
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        try:
            with tempfile.TemporaryDirectory() as place:
                moved += kinds[number % len(kinds)](chance, Path(place))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, kill {number}: {error}") from error
    return f"{count:,} kills ({moved:,} after the change was done), one key each, nothing in plain"


# ---------------------------------------------------------------- what is killed


def _rotate(chance: random.Random, place: Path) -> bool:
    old, new = _key(), _key()
    kept, words = _history(chance, place, old)
    _killed(chance, lambda: rekey(place, SPACE, old, new))
    _no_words(place, words)
    moved = _opens(place, new)
    assert moved != _opens(place, old), "not exactly one key opens the space"
    _whole(place, new if moved else old, kept)
    if not moved:
        rekey(place, SPACE, old, new)
    _whole(place, new, kept)
    _no_words(place, words)
    return moved


def _make(chance: random.Random, place: Path) -> bool:
    """A space that is being made: what was acknowledged is there."""
    keys = _key()
    reader, writer = os.pipe()

    async def lived() -> None:
        store = await open_store(place, SPACE, keys=keys)
        for number in range(9):
            await remember(store, session(f"s{number}", f"I met markermade{number} today."))
            os.write(writer, b".")

    _killed(chance, lambda: asyncio.run(lived()))
    os.close(writer)
    done = len(os.read(reader, 99))
    os.close(reader)
    _no_words(place, ["markermade"])

    async def looked() -> int:
        store = await open_store(place, SPACE, keys=keys)
        records = await store.sessions()
        await store.close()
        return len(records)

    assert asyncio.run(looked()) >= done, "an acknowledged session is lost"
    return bool(done)


def _killed(chance: random.Random, work: Callable[[], object]) -> None:
    """A process that begins the work and is killed somewhere in it."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, b".")
            work()
            os.write(writer, b".")
        finally:
            os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    # Most of the work is over in some hundredths of a second: early moments are the likely ones.
    time.sleep(0.08 * chance.random() ** 2)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)


# ---------------------------------------------------------------- what must hold


def _history(chance: random.Random, place: Path, keys: Keyring | None) -> tuple[History, list[str]]:
    """Some sessions said, changed and forgotten: those that stay, and every word that was said."""
    kept: History = {}
    words: list[str] = []

    async def lived() -> None:
        store = await open_store(place, SPACE, keys=keys)
        for _ in range(chance.randint(4, 16)):
            id = f"s{chance.randrange(6)}"
            if id in kept and chance.random() < 0.3:
                await store.forget(sessions=[id])
                del kept[id]
                continue
            word = f"marker{chance.getrandbits(64):016x}"
            words.append(word)
            kept[id] = f"I met {word} today."
            await remember(store, session(id, kept[id]), f"met {word}")
        await store.close()

    asyncio.run(lived())
    return kept, words


def _whole(place: Path, keys: Keyring | None, kept: History) -> None:
    async def looked() -> History:
        store = await open_store(place, SPACE, keys=keys, create=False)
        try:
            records = await store.sessions()
            said = [await session_in(store, record.id) for record in records]
            return {each.id: each.turns[0].text for each in said}
        finally:
            await store.close()

    assert asyncio.run(looked()) == kept, "sessions are missing"
    for wrong in (_key(), None) if keys is not None else (_key(),):
        assert not _opens(place, wrong), "a wrong key opens the space"


def _opens(place: Path, keys: Keyring | None) -> bool:
    """Whether a key opens the file."""

    async def tried() -> None:
        await (await open_store(place, SPACE, keys=keys, create=False)).close()

    try:
        asyncio.run(tried())
    except (StoreLocked, StoreNotLocked):
        return False
    return True


def _no_words(place: Path, words: list[str]) -> None:
    for path in place.rglob("*"):
        held = path.read_bytes().lower() if path.is_file() else b""
        found = [word for word in words if word.encode() in held]
        assert not found, f"{path.name} holds {found[0]}"


def _key() -> Keyring:
    return Keyring(SecretStr(secrets.token_hex(32)))
