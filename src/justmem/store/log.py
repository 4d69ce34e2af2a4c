"""The change log: who did what to which sessions and cards.

Each change adds its entry in its own transaction; reads are logged only if the author asks for
it. An entry holds ids and counts, never a word of a conversation. Each holds the hash of the one
before, so that an entry that was changed or taken out is noticed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime

from pydantic import ValidationError

from justmem.domain import Checked, Entry, Forgotten
from justmem.ports import Author, Store
from justmem.store.engine import Connection, row

_MOST_TARGETS = 100  # of one entry: what touches more says how many
_PAGE = 1000
_NO_TIME = datetime(1, 1, 1, tzinfo=UTC)

_actor: ContextVar[str | None] = ContextVar("justmem_actor", default=None)


@contextmanager
def acting_as(actor: str | None) -> Iterator[None]:
    """What is done inside the block stands under this name in the log. None changes nothing."""
    before = _actor.get()
    _actor.set(before if actor is None else actor)
    try:
        yield
    finally:
        _actor.set(before)  # not `reset`: a generator may end in another context than it began in


def current(author: Author | None) -> Author | None:
    """The author under the name of `acting_as`. Called outside of the store's threads."""
    name = _actor.get()
    return author if author is None or name is None else replace(author, name=name)


# ---------------------------------------------------------------- writing


def add(db: Connection, verb: str, targets: Sequence[str] = (), **counts: int) -> Entry | None:
    """None if nothing is logged."""
    entry = following(db, verb, targets, counts)
    if entry is not None:
        db.run(
            "INSERT INTO log (space, number, at, entry) VALUES (?, ?, ?, ?)",
            *(db.space, entry.number, entry.at.isoformat(), entry.model_dump_json()),
        )
    return entry


def following(
    db: Connection, verb: str, targets: Sequence[str], counts: Mapping[str, int]
) -> Entry | None:
    """The entry that would come next."""
    if db.author is None:
        return None
    last = row(
        db,
        "SELECT number, entry FROM log WHERE space = ? ORDER BY number DESC LIMIT 1",
        db.space,
    )
    before = None if last is None else _entry(*last)
    named = tuple(dict.fromkeys(targets))
    at = db.author.clock().astimezone(UTC)
    entry = Entry(
        number=before.number + 1 if before else 1,
        at=at.replace(microsecond=at.microsecond // 1000 * 1000),
        actor=db.author.name,
        verb=verb,
        targets=named if len(named) <= _MOST_TARGETS else (),
        counts=counts,
        before=before.hash if before else "",
    )
    return entry.model_copy(update={"hash": entry.digest})


def forgotten(gone: Forgotten) -> dict[str, int]:
    counted = ("cards", "sessions", "turns", "quarantined")
    return {name: getattr(gone, name) for name in counted if getattr(gone, name)}


# ---------------------------------------------------------------- reading


def rows(
    db: Connection, *, after: int | None = None, before: int | None = None, limit: int = _PAGE
) -> list[Entry]:
    found = db.rows(
        "SELECT number, entry FROM log WHERE space = ? AND number > ? AND number < ? "
        f"ORDER BY number {'DESC' if after is None else ''} LIMIT ?",
        *(db.space, after or 0, before or 2**62, limit),
    )
    return [_entry(*each) for each in sorted(found)]


def _entry(number: int, text: str) -> Entry:
    """As the store has it, even if somebody changed it: its hash tells."""
    try:
        return Entry.model_validate_json(text).model_copy(update={"number": number})
    except ValidationError:
        return Entry(number=number, at=_NO_TIME, actor="", verb="unreadable", before="")


async def entries(
    store: Store,
    *,
    since: datetime | None = None,
    of: str | None = None,
    before: int | None = None,
    limit: int = _PAGE,
) -> list[Entry]:
    """The latest ones, in order. `of`: those that name this id."""
    found: list[Entry] = []
    while page := await store.log(before=before, limit=_PAGE):
        for entry in reversed(page):
            if (of is None or of in entry.targets) and (since is None or entry.at >= _utc(since)):
                found.append(entry)
            if len(found) == limit:
                return found[::-1]
        before = page[0].number
    return found[::-1]


def _utc(at: datetime) -> datetime:
    """A time without a zone is this machine's."""
    try:
        return at.astimezone(UTC)
    except OverflowError:  # at either end of the calendar
        return at.replace(tzinfo=UTC)


async def check(store: Store, last: str | None = None) -> Checked:
    """`last`: the hash of an entry, kept elsewhere. Without one, entries cut off at the end, or a
    log written anew from the start, cannot be told from the real one."""
    count, before, seen = 0, "", last is None
    async for entry in _all(store):
        if problem := _problem(entry, count + 1, before):
            return Checked(entries=count, last=before, problem=problem)
        count, before = entry.number, entry.hash
        seen = seen or entry.hash == last
    problem = "" if seen else f"no entry has the hash {last}: entries were cut off or written anew"
    return Checked(entries=count, last=before, problem=problem)


async def _all(store: Store) -> AsyncGenerator[Entry]:
    after = 0
    while page := await store.log(after=after, limit=_PAGE):
        for entry in page:
            yield entry
        after = page[-1].number


def _problem(entry: Entry, number: int, before: str) -> str:
    if entry.number != number:
        missing = f"{number} to {entry.number - 1}" if entry.number > number + 1 else f"{number}"
        return f"missing: {missing}, before entry {entry.number}"
    if entry.digest != entry.hash:
        return f"entry {number} was changed"
    return "" if entry.before == before else f"entry {number} does not follow the one before it"
