"""Marked words in every place that holds words, forgotten by every kind of target, then searched
in every byte on disk. The search shares no code with `verify`."""

from __future__ import annotations

import asyncio
import random
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from justmem import AsyncMemory
from justmem.errors import NotInMemory, StoreError
from justmem.ports import Prompt
from justmem.testing import ScriptedModel
from torture._fixtures import database, folder, has_postgres, memory, server

PROMISE = (
    "Forgotten text is removed from every table and file: turns, cards, corrections, notes, "
    "labels, vectors, quarantined cards."
)
COUNT = 200  # markers in each store
SAMPLE = 18

_KINDS = ("turn", "card", "subject", "session", "period", "note")


def run(count: int, *, seed: int = 7) -> str:
    return asyncio.run(_run(count, seed))


async def _run(count: int, seed: int) -> str:
    results = []
    places: dict[str, Any] = {
        "SQLite": lambda: _in_files(None),
        "locked SQLite": lambda: _in_files(secrets.token_hex(32)),
        **({"PostgreSQL": _in_postgres} if has_postgres() else {}),
    }
    for name, open_place in places.items():
        chance = random.Random(f"{seed} {name}")
        async with open_place() as place:
            try:
                planted = await _forget_all(place, count, chance)
                if place.url is not None:
                    await _no_certificate(place, place.url, chance)
            except AssertionError as error:
                raise AssertionError(f"{name}, seed {seed}, {count} markers: {error}") from error
        results.append(f"{name}: 0 of {planted} markers left")
    return "; ".join(results)


# ---------------------------------------------------------------- stores


@dataclass
class Place:
    """A kind of store: how to open a space, and all bytes that it has on disk."""

    open: Callable[..., Any]
    data: Callable[[], Awaitable[bytes]]
    url: str | None = None  # of the database


@asynccontextmanager
async def _in_files(key: str | None) -> AsyncIterator[Place]:
    with folder() as home:

        def opened(space: str) -> Any:
            return memory(home, space, key=key, model=ScriptedModel(_reply))

        async def data() -> bytes:
            files = b"\n".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
            if key is None:
                return files
            assert not re.search(rb"mk[0-9a-f]{16}", files), "plain text in an encrypted space"
            return b"\n".join([await _decrypted(opened(path.stem)) for path in home.glob("*.db")])

        yield Place(opened, data)


async def _decrypted(opening: Any) -> bytes:
    """Every value in every table."""

    def values(db: Any) -> bytes:
        names = db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        found = [row for (name,) in names for row in db.rows(f'SELECT * FROM "{name}"')]
        flat = (value for row in found for value in row if isinstance(value, str | bytes))
        return b"\n".join(v.encode() if isinstance(v, str) else v for v in flat)

    async with opening as mine:
        return bytes(await mine._store._read(values))


@asynccontextmanager
async def _in_postgres() -> AsyncIterator[Place]:
    url = database("forgetting")

    def opened(space: str, address: str = url) -> Any:
        return memory(address, space, model=ScriptedModel(_reply))

    async def data() -> bytes:
        """The files of the tables. The log keeps old pages for a while (docs/forgetting.md)."""
        with psycopg.connect(_administrator(url), autocommit=True) as db:
            db.execute("ANALYZE")  # the planner's samples hold words too
            db.execute("CHECKPOINT")
        files = [path for path in (server().data / "base").rglob("*") if path.is_file()]
        return b"\n".join(path.read_bytes() for path in files)

    yield Place(opened, data, url)


def _administrator(url: str) -> str:
    return make_conninfo(server().url(), dbname=conninfo_to_dict(url)["dbname"])


# ---------------------------------------------------------------- planting


@dataclass
class Planted:
    """A session, or a note, with its markers: three turns, a turn that waits, the label, the
    extracted card, its correction, the quarantined card, a title that names the subject."""

    id: str
    kind: str
    day: str
    subject: str
    markers: list[str] = field(default_factory=list)

    def session(self, *, changed: bool) -> dict[str, Any]:
        one, two, three, four, label, *_ = self.markers
        turns = [
            {"speaker": self.subject, "text": f"My kite is called {one}, a fine name for a kite."},
            {"role": "assistant", "text": f"Then I shall fly {two}. " * 40},
            {"speaker": self.subject, "text": f'It hangs "beside" {three}\nin the hall.'},
            {"speaker": self.subject, "text": f"And a second one called {four}."},
        ]
        labels = {"topic": label, "title": f"{self.subject} and {self.markers[-1]}"}
        turns = turns if changed else turns[:3]
        return {"id": self.id, "at": self.day, "turns": turns, "labels": labels}


def _plan(number: int, kind: str, chance: random.Random) -> Planted:
    markers = [f"mk{chance.getrandbits(64):016x}" for _ in range(6)]
    made = [_derived(markers[0], "c"), _derived(markers[0], "q")]
    titled = f"mk{chance.getrandbits(64):016x}"
    day = f"2024-{1 + number // 28 % 12:02}-{1 + number % 28:02}"
    planted = Planted(f"s{number}", kind, day, f"Mira{number:04}", [*markers, *made, titled])
    if kind == "note":
        planted.markers = markers[:4]
    return planted


def _derived(marker: str, kind: str) -> str:
    """What a model makes of a marker."""
    return f"mk{kind}{marker[:2:-1]}"


def _reply(prompt: Prompt) -> dict[str, Any]:
    found = re.search(r"(Mira\d+): My kite is called (mk\w+)", prompt.user)
    if found is None:
        return {"cards": []}
    subject, marker = found.groups()
    named = f"calls the kite {marker}, also {_derived(marker, 'c')}"
    unsupported = f"hears zithers named {_derived(marker, 'q')}"
    rest = "2024-01-01 | stable | fact"
    rows = [f"{subject} | {named} | {rest} | 1", f"{subject} | {unsupported} | {rest} |"]
    return {"cards": rows}


async def _plant(mine: AsyncMemory, planted: Planted) -> None:
    one, two, three, four, *_ = planted.markers
    if planted.kind == "note":
        note = {"key": planted.id, "value": {"kite": three}, "labels": {"topic": four}}
        await mine.note(f"The kite is called {one}.", **note)
        await mine.note(f"The kite is called {two}.", **note)  # replaces the first one
        return
    await mine.remember(planted.session(changed=False))
    (card,) = await mine.cards(session=planted.id)
    await mine.correct(card.id, fact=f"{card.fact}, or {planted.markers[5]}")
    await mine.keep(planted.session(changed=True))


# ---------------------------------------------------------------- forgetting


async def _forget_all(place: Place, count: int, chance: random.Random) -> int:
    sessions = max(len(_KINDS), -(-count // 8))
    planted = [_plan(n, _KINDS[n % len(_KINDS)], chance) for n in range(sessions)]
    erased = _plan(sessions, "session", chance)  # in a space that is forgotten as a whole
    everything = [marker for each in (*planted, erased) for marker in each.markers]
    async with place.open("ana") as mine, place.open("ben") as other:
        for each in planted:
            await _plant(mine, each)
        await _plant(other, erased)
        replaced = {each.markers[0] for each in planted if each.kind == "note"}
        missing = set(everything) - replaced - _found(await place.data(), everything)
        assert not missing, f"{len(missing)} markers were never planted: this shows nothing"
        chance.shuffle(planted)
        gone: list[str] = []
        for number, each in enumerate(planted):
            await _forget(mine, each)
            gone += each.markers
            if number in (0, len(planted) // 2):
                await _nothing_left(place, gone)
        await other.forget(everything=True, verify=True)
        await _nothing_left(place, everything)
    return len(everything)


async def _forget(mine: AsyncMemory, planted: Planted) -> None:
    """By its kind, then by a target that includes the rest."""
    id, whole = planted.id, set(planted.markers)
    period = {"since": planted.day, "until": planted.day}
    if planted.kind == "note":
        await _forgotten(mine, planted, whole, again=False, key=id)
        return
    one, two, three, four, label, fixed, card, held, titled = planted.markers
    match planted.kind:
        case "turn":
            await _forgotten(mine, planted, {one, fixed, card, held}, turn=f"{id}#1")
            await _forgotten(mine, planted, {two}, turn=f"{id}#2")
            await _forgotten(mine, planted, {three}, turn=f"{id}#3")
            await _forgotten(mine, planted, {four}, turn=f"{id}#4")  # only in the text that waits
            await _forgotten(mine, planted, {label, titled}, session=id, again=False)
        case "card":
            (known,) = await mine.cards(session=id)
            await _forgotten(mine, planted, {fixed, card}, card=known.id)
            await _forgotten(mine, planted, whole, session=id, again=False)
        case "subject":
            about = {one, fixed, card, held, titled}
            await _forgotten(mine, planted, about, subject=planted.subject.upper())
            await _forgotten(mine, planted, whole, again=False, **period)
        case "session":
            await _forgotten(mine, planted, whole, session=id, again=False)
        case "period":
            await _forgotten(mine, planted, whole, again=False, **period)


async def _forgotten(
    mine: AsyncMemory, planted: Planted, markers: set[str], *, again: bool = True, **what: Any
) -> None:
    """Exactly these markers are gone. `again` remembers the session anew: they stay away."""
    before = await _shown(mine, planted)
    certificate = (await mine.forget(**what, verify=True)).certificate
    assert certificate is not None
    assert certificate.remains == 0
    gone = before - await _shown(mine, planted)
    assert gone == before & markers, f"{what}: {gone ^ (before & markers)}"
    if again:
        for changed in (False, True, False):
            await mine.remember(planted.session(changed=changed))
            back = await _shown(mine, planted) & markers
            assert not back, f"{what}: {back} came back"
        await mine.keep(planted.session(changed=True))


async def _shown(mine: AsyncMemory, planted: Planted) -> set[str]:
    """The markers of a session or note that memory shows."""
    values: list[Any] = [each for each in await mine.notes() if each.key == planted.id]
    values += [each for each in await mine.sessions() if each.id == planted.id]
    try:
        values += [await mine.session(planted.id), *await mine.waiting()]
        values += await mine.cards(session=planted.id)
        values += await mine.quarantined(planted.id)
    except NotInMemory:
        pass
    text = "\n".join(each.model_dump_json() for each in values)
    return {marker for marker in planted.markers if marker in text}


async def _nothing_left(place: Place, markers: list[str]) -> None:
    left = _found(await place.data(), markers)
    assert not left, f"{len(left)} of {len(markers)} markers are still on disk, such as {min(left)}"


def _found(data: bytes, markers: list[str]) -> set[str]:
    """By their middles: an index of words shares beginnings and cuts off endings."""
    parts = b"\n".join(re.findall(rb"[0-9a-f]{9,}", data.lower()))
    return {marker for marker in markers if marker[5:14].encode() in parts}


# ---------------------------------------------------------------- no false certificate


async def _no_certificate(place: Place, url: str, chance: random.Random) -> None:
    """PostgreSQL cannot remove the rows now, so there is no certificate."""
    for number, hindered in enumerate((_old_snapshot, _role_without_vacuum)):
        planted = _plan(number, "session", chance)
        async with place.open("cleo") as mine:
            await _plant(mine, planted)
        with hindered(url) as address:
            async with place.open("cleo", address) as mine:
                try:
                    await mine.forget(session=planted.id, verify=True)
                except StoreError:
                    left = _found(await place.data(), planted.markers)
                    assert left, f"{hindered.__name__}: refused, though nothing is left"
                else:
                    raise AssertionError(f"{hindered.__name__}: there is a certificate")
        async with place.open("cleo") as mine:
            await mine.remember(planted.session(changed=False) | {"id": "other"})
            await mine.forget(everything=True, verify=True)
        await _nothing_left(place, planted.markers)


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
