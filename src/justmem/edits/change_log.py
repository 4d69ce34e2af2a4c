"""Reads the change log of a store: its entries, and whether any is missing or changed."""

from __future__ import annotations

from datetime import UTC, datetime

from justmem.domain import Checked, Entry
from justmem.ports import Store

_PAGE = 1000


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
    """`last`: the hash of an entry, kept elsewhere. Without one, a log
    that was cut off at the end or written again from the start cannot be detected."""
    count, before, seen = 0, "", last is None
    while page := await store.log(after=count, limit=_PAGE):
        for entry in page:
            if problem := _problem(entry, count + 1, before):
                return Checked(entries=count, last=before, problem=problem)
            count, before = entry.number, entry.hash
            seen = seen or entry.hash == last
    problem = "" if seen else f"no entry has the hash {last}: entries were cut off or written anew"
    return Checked(entries=count, last=before, problem=problem)


def _problem(entry: Entry, number: int, before: str) -> str:
    if entry.number != number:
        missing = f"{number} to {entry.number - 1}" if entry.number > number + 1 else f"{number}"
        return f"missing: {missing}, before entry {entry.number}"
    if entry.digest != entry.hash:
        return f"entry {number} was changed"
    return "" if entry.before == before else f"entry {number} does not follow the one before it"
