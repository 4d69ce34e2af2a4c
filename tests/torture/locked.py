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

from justmem.errors import NotInMemory, StoreLocked, StoreNotLocked
from justmem.stores import locks
from justmem.stores.keyring import KeyFolder, Keyring
from justmem.stores.opening import open_store
from justmem.stores.relocking import relock
from store_contract import remember, session

PROMISE = (
    "A locked space holds no word in plain text, no other key opens it, and whatever moment a "
    "change of its key is killed at, exactly one key opens all of it."
)
COUNT = 400
SAMPLE = 12

SPACE = "ana"
History = dict[str, str]  # session -> what was said


def run(count: int, *, seed: int = 7) -> str:
    kinds = (_rotate_own, _rotate_given, _lock, _erase, _make)
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


def _rotate_own(chance: random.Random, place: Path) -> bool:
    """The keys are JustMem's own: the folder alone opens the space, whichever key it came to."""
    keys = KeyFolder(place / "keys")
    kept, words = _history(chance, place, keys)
    before = keys.find(SPACE)
    _killed(chance, lambda: relock(place, SPACE, keys, keys))
    _no_words(place, words)
    candidates = keys.find(SPACE)
    fitting = [key for key in candidates if _opens(place, Keyring(key))]
    assert len(fitting) == 1, f"{len(fitting)} of {len(candidates)} keys open the space"
    _whole(place, keys, kept)
    assert list(keys.find(SPACE)) == fitting, "the folder kept another key"
    _no_words(place, words)
    return fitting != list(before)


def _rotate_given(chance: random.Random, place: Path) -> bool:
    old, new = _key(), _key()
    kept, words = _history(chance, place, old)
    _killed(chance, lambda: relock(place, SPACE, old, new))
    _no_words(place, words)
    moved = _opens(place, new)
    assert moved != _opens(place, old), "not exactly one key opens the space"
    _whole(place, new if moved else old, kept)
    relock(place, SPACE, old, new)  # once more: done, or nothing left to do
    _whole(place, new, kept)
    _no_words(place, words)
    return moved


def _lock(chance: random.Random, place: Path) -> bool:
    key = _key()
    kept, words = _history(chance, place, None)
    _killed(chance, lambda: relock(place, SPACE, None, key))
    moved = locks.is_locked(place, SPACE)
    _whole(place, key if moved else None, kept)
    relock(place, SPACE, None, key)
    _whole(place, key, kept)
    _no_words(place, words)
    return moved


def _erase(chance: random.Random, place: Path) -> bool:
    """Nothing, or everything: the key, and then the space."""
    keys = KeyFolder(place / "keys")
    kept, words = _history(chance, place, keys)
    copy = (place / f"{SPACE}.db").read_bytes()
    (key,) = keys.find(SPACE)
    _killed(chance, lambda: locks.erase(place / f"{SPACE}.db", keys))
    _no_words(place, words)
    try:
        _whole(place, keys, kept)
    except NotInMemory:
        assert not list(place.glob("*.db*")), "something of the space is left"
        assert not list((place / "keys").iterdir()), "its key is left"
        (place / f"{SPACE}.db").write_bytes(copy)
        assert not _opens(place, keys), "a copy still opens"
        assert _opens(place, Keyring(key)), "the copy was none"
        return True
    return False


def _make(chance: random.Random, place: Path) -> bool:
    """A space and its key at their first breath: what was acknowledged is there."""
    keys = KeyFolder(place / "keys")
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
            said = [await store.session(record.id) for record in records]
            return {each.id: each.turns[0].text for each in said}
        finally:
            await store.close()

    assert asyncio.run(looked()) == kept, "sessions are missing"
    for wrong in (_key(), None) if keys is not None else (_key(),):
        assert not _opens(place, wrong), "a wrong key opens the space"


def _opens(place: Path, keys: Keyring | None) -> bool:
    """By what a stranger may try: the file itself, with no folder of keys to help."""

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
