"""Looking through the audit: is every entry as it was written, and is none missing?"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from justmem.domain import Checked, Entry
from justmem.ports import EntryFilter, Store

_PAGE = 1000


async def entries(store: Store) -> AsyncGenerator[Entry]:
    """All of them, in order, a page at a time."""
    after = 0
    while page := await store.entries(EntryFilter(after=after, limit=_PAGE)):
        for entry in page:
            yield entry
        after = page[-1].number


async def check(store: Store, last: str | None) -> Checked:
    """`last`: the hash of an entry, kept elsewhere. Without one, entries cut off at the end, or a
    log written anew from the start, cannot be told from the real one: the chain holds itself."""
    count, before, seen = 0, "", last is None
    async for entry in entries(store):
        problem = _problem(entry, count + 1, before)
        if problem:
            return Checked(entries=count, last=before, problem=problem)
        count, before = entry.number, entry.hash
        seen = seen or entry.hash == last
    problem = "" if seen else f"no entry has the hash {last}: entries were cut off or written anew"
    return Checked(entries=count, last=before, problem=problem)


def _problem(entry: Entry, number: int, before: str) -> str:
    if entry.number != number:
        missing = f"{number} to {entry.number - 1}" if entry.number > number + 1 else f"{number}"
        return f"missing: {missing}, before entry {entry.number}"
    if entry.before != before:
        return f"entry {number} does not follow the one before it"
    return "" if entry.digest == entry.hash else f"entry {number} was changed"
