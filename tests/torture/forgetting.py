"""Markers planted wherever words can lie, forgotten by every kind of target, looked for in every
byte. What looks for them here shares nothing with what `verify` does."""

from __future__ import annotations

import asyncio
import os
import random
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from justmem import AsyncMemory
from justmem.answer import RulesAnswerer
from justmem.domain import Session, Turn
from justmem.errors import StoreError
from justmem.extract.model import ModelExtractor
from justmem.language.languages import LANGUAGES
from justmem.plan import RulesPlanner
from justmem.ports import Prompt, Store
from justmem.store import sqlite
from justmem.store.files import Keyring
from justmem.testing import HashEmbedder, ScriptedModel
from torture import _places

PROMISE = (
    "Forgotten text is removed from every table and file: turns, cards, vectors, quarantined "
    "cards, texts that wait."
)
COUNT = 200  # markers in each store
SAMPLE = 18

_PLANTED = 6  # markers in a session
_START = datetime(2024, 1, 1, 9, 0)
_KINDS = ("turn", "card", "subject", "session", "period")


def run(count: int, *, seed: int = 7) -> str:
    return asyncio.run(_run(count, seed))


async def _run(count: int, seed: int) -> str:
    told = []
    for name, opened in _PLACES.items():
        if name == "PostgreSQL" and not _places.has_postgres():
            continue
        chance = random.Random(f"{seed} {name}")
        async with opened() as place:
            try:
                planted = await _tried(place, count, chance)
                if place.url is not None:
                    await _refused(place, place.url, chance)
            except AssertionError as error:
                raise AssertionError(f"{name}, seed {seed}, {count} markers: {error}") from error
        told.append(f"{name}: 0 of {planted} markers left")
    return "; ".join(told)


# ---------------------------------------------------------------- stores


@dataclass
class Place:
    """A kind of store: how to open a space of it, and all bytes that it has on disk."""

    open: Callable[[str], Any]
    data: Callable[[], Awaitable[bytes]]
    url: str | None = None  # of the database


@asynccontextmanager
async def _in_files(keys: Keyring | None = None) -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory(prefix="jm-forget-") as made:
        folder = Path(made)

        def opened(space: str) -> Any:
            return sqlite.open_store(folder / "home", space, keys=keys)

        async def data() -> bytes:
            home = [path.read_bytes() for path in (folder / "home").rglob("*") if path.is_file()]
            if keys is not None:  # in plain there must be nothing of it: read what the key opens
                assert not re.search(rb"mk[0-9a-f]{16}", b"".join(home)), "words in plain text"
                there = [
                    name for name in ("ana", "ben") if (folder / "home" / f"{name}.db").exists()
                ]
                home = [await _read(await opened(name)) for name in there]
            return b"\n".join(home)

        yield Place(opened, data)


async def _read(store: Any) -> bytes:
    """Every value in every table."""

    def values(db: Any) -> bytes:
        names = db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        rows = [row for (name,) in names for row in db.rows(f'SELECT * FROM "{name}"')]
        flat = (value for row in rows for value in row if isinstance(value, str | bytes))
        return b"\n".join(v.encode() if isinstance(v, str) else v for v in flat)

    try:
        return await store.engine.read(values)
    finally:
        await store.close()


@asynccontextmanager
async def _in_postgres() -> AsyncIterator[Place]:
    from justmem.store.postgres import open_store

    server = _places.server()
    url = _places.database(f"forgetting_{os.getpid()}")

    async def data() -> bytes:
        """The tables' files as they are on disk. The log is recycled, not rewritten: it keeps
        its old pages for a while (docs/forgetting.md)."""
        with psycopg.connect(_administrator(url), autocommit=True) as db:
            db.execute("ANALYZE")  # the planner's samples are a place to look in too
            db.execute("CHECKPOINT")
        files = [path for path in (server.data / "base").rglob("*") if path.is_file()]
        return b"\n".join(path.read_bytes() for path in files)

    yield Place(lambda space: open_store(url, space), data, url)


def _administrator(url: str) -> str:
    return make_conninfo(_places.server().url(), dbname=conninfo_to_dict(url)["dbname"])


_PLACES: dict[str, Callable[[], AbstractAsyncContextManager[Place]]] = {
    "SQLite": _in_files,
    "locked SQLite": lambda: _in_files(Keyring(SecretStr(secrets.token_hex(32)))),
    "PostgreSQL": _in_postgres,
}


# ---------------------------------------------------------------- planting


@dataclass
class Told:
    """A session and the markers in it: of its three turns, its card, its quarantined card and the
    text that waits in its place."""

    session: Session
    changed: Session
    subject: str
    kind: str
    markers: list[str] = field(default_factory=list)


def _derived(marker: str, kind: str) -> str:
    """What a model makes of a marker: nothing that it could say without having seen it."""
    return f"mk{kind}{marker[:2:-1]}"


def _tell(number: int, kind: str, chance: random.Random) -> Told:
    one, two, three, four = (f"mk{chance.getrandbits(64):016x}" for _ in range(4))
    subject, id = f"Mira{number:04}", f"s{number}"
    at = _START + timedelta(days=number)
    turns = (
        Turn(speaker=subject, text=f"My kite is called {one}, a fine name for a kite."),
        Turn(speaker="Assistant", role="assistant", text=f"Then I shall fly {two}. " * 40),
        Turn(speaker=subject, text=f'It hangs "beside" {three}\nin the hall.'),
    )
    session = Session(id=id, at=at, turns=turns)
    more = Turn(speaker=subject, text=f"And a second one called {four}.")
    changed = session.model_copy(update={"turns": (*turns, more)})
    markers = [one, two, three, four, _derived(one, "c"), _derived(one, "q")]
    return Told(session, changed, subject, kind, markers)


_SAID = re.compile(r"(Mira\d+): My kite is called (mk\w+)")


def _extract(prompt: Prompt) -> dict[str, Any]:
    found = _SAID.search(prompt.user)
    if found is None:
        return {"cards": []}
    subject, marker = found.groups()
    named = f"calls the kite {marker}, also {_derived(marker, 'c')}"
    unsaid = f"hears zithers named {_derived(marker, 'q')}"
    tail = "2024-01-01 | stable | fact"
    return {"cards": [f"{subject} | {named} | {tail} | 1", f"{subject} | {unsaid} | {tail} |"]}


async def _memory(place: Place, space: str) -> AsyncMemory:
    store: Store = await place.open(space)
    return AsyncMemory(
        store,
        HashEmbedder(64),
        extractor=ModelExtractor(ScriptedModel(_extract), LANGUAGES),
        planner=RulesPlanner(LANGUAGES),
        answerer=RulesAnswerer(LANGUAGES),
        language=LANGUAGES,
    )


async def _plant(memory: AsyncMemory, told: list[Told]) -> None:
    for each in told:
        await memory.remember(each.session)
        await memory.keep(each.changed)


# ---------------------------------------------------------------- forgetting


async def _tried(place: Place, count: int, chance: random.Random) -> int:
    sessions = max(len(_KINDS) + 1, -(-count // _PLANTED))
    told = [_tell(n, _KINDS[n % len(_KINDS)], chance) for n in range(sessions)]
    erased = [told.pop()]  # the last of them in a space that goes as a whole
    memory, other = await _memory(place, "ana"), await _memory(place, "ben")
    await _plant(memory, told)
    await _plant(other, erased)
    everything = [marker for each in (*told, *erased) for marker in each.markers]
    missing = set(everything) - _found(await place.data(), everything)
    assert not missing, f"{len(missing)} markers were never planted: nothing is shown by this"
    chance.shuffle(told)
    try:
        gone: list[str] = []
        for number, each in enumerate(told):
            gone += await _forget(memory, each)
            if number in (0, len(told) // 2):
                await _nothing_left(place, gone)
        await other.forget(everything=True, verify=True)
        gone += erased[0].markers
        assert sorted(gone) == sorted(everything), "not every marker was forgotten"
        await _nothing_left(place, gone)
        return len(gone)
    finally:
        await memory.close()
        await other.close()


async def _refused(place: Place, url: str, chance: random.Random) -> None:
    """There is no certificate while the server keeps the rows."""
    from justmem.store.postgres import open_store
    from justmem.store.vacuum import sweep

    for number, hindered in enumerate((_old_snapshot, _role_without_vacuum)):
        told = _tell(number, "session", chance)
        memory = await _memory(place, "cleo")
        await _plant(memory, [told])
        await memory.close()
        with hindered(url) as address:
            weaker = replace(place, open=partial(open_store, address))
            memory = await _memory(weaker, "cleo")
            try:
                await memory.forget(session=told.session.id, verify=True)
            except StoreError:
                left = _found(await place.data(), told.markers)
                assert left, f"{hindered.__name__}: refused, though nothing is left"
            else:
                raise AssertionError(f"{hindered.__name__}: there is a certificate")
            finally:
                await memory.close()
        store = await open_store(url, "cleo")
        await sweep(store.engine.database, rewrite=True)
        await store.close()
        await _nothing_left(place, told.markers)


@contextmanager
def _old_snapshot(url: str) -> Iterator[str]:
    """Another program's transaction began before the forgetting and is still open."""
    with psycopg.connect(_administrator(url), autocommit=True) as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1 FROM pg_class")
        yield url


@contextmanager
def _role_without_vacuum(url: str) -> Iterator[str]:
    """The application's role, as docs/postgresql.md recommends it."""
    page = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text("utf-8")
    (grants,) = re.findall(r"```sql\n(GRANT USAGE.*?)```", page, re.DOTALL)
    owner = str(conninfo_to_dict(url)["user"])
    with psycopg.connect(_administrator(url), autocommit=True) as db:
        db.execute("CREATE ROLE app LOGIN")
        try:
            db.execute(grants.replace("ROLE owner", f"ROLE {owner}"))
            yield url.replace(f"//{owner}@", "//app@")
        finally:
            db.execute("DROP OWNED BY app")
            db.execute("DROP ROLE app")


async def _forget(memory: AsyncMemory, told: Told) -> list[str]:
    """By its kind, then by whatever takes the rest of it. The markers that went."""
    assert await _known(memory, told) == set(told.markers), "a marker is not where it was planted"
    one, two, three, four, card, held = told.markers
    id, day = told.session.id, told.session.at.date()
    if told.kind == "turn":
        await _gone(memory, told, [one, card, held], turn=f"{id}#1")
        await _gone(memory, told, [two], turn=f"{id}#2")
        await _gone(memory, told, [three], card=f"{id}#3")
        await _gone(memory, told, [four], turn=f"{id}#4")  # only in the text that waits
    elif told.kind == "card":
        (known,) = await memory.cards(session=id)
        await _gone(memory, told, [card], card=known.id)
        await _gone(memory, told, [one, two, three, four, held], session=id, again=False)
    elif told.kind == "subject":
        await _gone(memory, told, [one, card, held], subject=told.subject.upper())
        await _gone(memory, told, [two, three, four], until=day, since=day, again=False)
    elif told.kind == "session":
        await _gone(memory, told, told.markers, session=id, again=False)
    else:
        await _gone(memory, told, told.markers, since=day, until=day, again=False)
    return told.markers


async def _gone(
    memory: AsyncMemory, told: Told, markers: list[str], *, again: bool = True, **what: Any
) -> None:
    """Forgets, and sees that these are gone and no others; `again` remembers the session anew."""
    before = await _known(memory, told)
    proof = (await memory.forget(**what, verify=True)).certificate
    assert proof is not None
    assert proof.remains == 0
    assert before - await _known(memory, told) == before & set(markers), what
    if again:
        for text in (told.session, told.changed, told.session):
            await memory.remember(text)
            came_back = await _known(memory, told) & set(markers)
            assert not came_back, f"{what}: {came_back} came back"
        await memory.keep(told.changed)


async def _known(memory: AsyncMemory, told: Told) -> set[str]:
    """The markers of a session that memory shows."""
    held: list[Any] = [each for each in await memory.sessions() if each.id == told.session.id]
    if held:
        held += [await memory.session(told.session.id), *await memory.waiting()]
        held += await memory.cards(session=told.session.id)
        held += await memory.quarantined(told.session.id)
    text = "\n".join(each.model_dump_json() for each in held)
    return {marker for marker in told.markers if marker in text}


async def _nothing_left(place: Place, markers: list[str]) -> None:
    left = _found(await place.data(), markers)
    assert not left, f"{len(left)} of {len(markers)} markers are still on disk, such as {min(left)}"


def _found(data: bytes, markers: list[str]) -> set[str]:
    """By their middles: an index of words shares beginnings and cuts endings off."""
    runs = b"\n".join(re.findall(rb"[0-9a-f]{9,}", data.lower()))
    return {marker for marker in markers if marker[5:14].encode() in runs}
