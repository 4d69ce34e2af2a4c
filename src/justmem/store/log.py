"""The change log: who did what to which sessions and cards, as one wrapper around any store.

The wrapper writes an entry after each change, and after each read if it is told to. An entry holds
ids and counts, never a word of a conversation. Each holds the hash of the one before, so that an
entry that was changed or taken out is noticed.

The store underneath only keeps numbered texts: `log` adds some, `logged` reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import wraps
from typing import Any, cast

from pydantic import ValidationError

from justmem.domain import Checked, Entry, Forgotten, Session, SessionRecord, Turn
from justmem.errors import StoreError
from justmem.ports import Digested, Index, Store, Vectors, Whole

_MOST_TARGETS = 100  # of one entry: what touches more says how many
_PAGE = 1000
_ATTEMPTS = 20  # at a number that other processes take at the same moment
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


def logged(
    store: Store, actor: str, clock: Callable[[], datetime], *, reads: bool = False
) -> Store:
    """The same store, with a log. `actor` is the name outside of `acting_as`."""
    return cast(Store, _Logged(store, _Log(store, actor, clock), reads))


# ---------------------------------------------------------------- writing


class _Log:
    def __init__(self, store: Store, actor: str, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._default = actor
        self._clock = clock
        self._last: Entry | None = None  # as far as this process knows
        self._lock = asyncio.Lock()

    async def add(self, verb: str, targets: Sequence[str] = (), **counts: int) -> Entry:
        async with self._lock:
            for _ in range(_ATTEMPTS):
                entry = await self.next(verb, targets, **counts)
                if await self._added(entry):
                    self._last = entry
                    return entry
                self._last = None
        raise StoreError("Too many processes write to the log of this space: try again.")

    async def next(self, verb: str, targets: Sequence[str] = (), **counts: int) -> Entry:
        """The entry that would follow the last one."""
        if self._last is None:
            found = await self._store.logged(latest=True, limit=1)
            self._last = _entry(*found[0]) if found else None
        named = tuple(dict.fromkeys(targets))
        at = self._clock().astimezone(UTC)
        entry = Entry(
            number=self._last.number + 1 if self._last else 1,
            at=at.replace(microsecond=at.microsecond // 1000 * 1000),
            actor=_actor.get() or self._default,
            verb=verb,
            targets=named if len(named) <= _MOST_TARGETS else (),
            counts=counts,
            before=self._last.hash if self._last else "",
        )
        return entry.model_copy(update={"hash": entry.digest})

    async def _added(self, entry: Entry) -> bool:
        """False if another process took the number."""
        row = entry.number, entry.at.isoformat(), entry.model_dump_json()
        try:
            await self._store.log([row])
        except StoreError:
            there = await self._store.logged(after=entry.number - 1, limit=1)
            if not there:
                raise
            # A commit whose confirmation was lost is there, and is ours.
            return there[0][2] == row[2]
        return True


class _Logged:
    """Forwards to the store, and writes down what was changed. See `Store`."""

    def __init__(self, store: Store, log: _Log, reads: bool) -> None:
        self._store = store
        self._log = log
        self._reads = reads
        self._kept: dict[str, str] = {}  # digests of sessions whose cards are still to be made

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not self._reads or name not in _READS:
            return method
        return _noted(method, self._log, _READS[name])

    async def keep(self, session: Session) -> SessionRecord:
        record = await self._store.keep(session)
        if not record.state.settled and self._kept.get(session.id) != record.digest:
            self._kept[session.id] = record.digest
            await self._log.add("keep", [session.id], turns=len(session.turns))
        return record

    async def settle(self, session: Session, digested: Digested) -> None:
        await self._store.settle(session, digested)
        self._kept.pop(session.id, None)
        cards = [card.id for card in digested.cards]
        await self._log.add("settle", [session.id, *cards], cards=len(cards))

    async def fail(self, session_id: str, reason: str) -> None:
        await self._store.fail(session_id, reason)
        await self._log.add("fail", [session_id])

    async def forget(self, **what: Any) -> Forgotten:
        gone = await self._store.forget(**what)
        if gone == Forgotten():
            return gone
        self._kept.clear()
        turns = [f"{id}#{number}" for id, number in what.get("turns", ())]
        ids = [id for kind in ("cards", "sessions", "words") for id in what.get(kind, ())]
        entry = await self._log.add("forget", [*ids, *turns], **_counts(gone))
        return gone.model_copy(update={"entry": entry})

    async def erase(self) -> Forgotten:
        """The log goes with the space: the entry that is returned is all that is left of it."""
        last = await self._log.next("erase")
        gone = await self._store.erase()
        last = last.model_copy(update={"counts": _counts(gone)})
        return gone.model_copy(update={"entry": last.model_copy(update={"hash": last.digest})})

    async def replace_vectors(
        self, embedder: str, dim: int, replaced: Mapping[Index, tuple[Sequence[int], Vectors]]
    ) -> None:
        await self._store.replace_vectors(embedder, dim, replaced)
        await self._log.add("reembed", texts=sum(len(keys) for keys, _ in replaced.values()))

    async def append(self, session_id: str, turns: Sequence[Turn], **given: Any) -> SessionRecord:
        record = await self._store.append(session_id, turns, **given)
        await self._log.add("append", [session_id], turns=len(turns))
        return record

    async def take(self, wholes: Sequence[Whole], forgotten: Sequence[str] = ()) -> None:
        await self._store.take(wholes, forgotten)
        if wholes:
            cards = sum(len(whole.digested.cards) for whole in wholes)
            await self._log.add("load", _whole_ids(wholes), sessions=len(wholes), cards=cards)


def _counts(gone: Forgotten) -> dict[str, int]:
    counted = ("cards", "sessions", "turns", "quarantined")
    return {name: getattr(gone, name) for name in counted if getattr(gone, name)}


# ---------------------------------------------------------------- reads

Ids = Callable[[Any], Sequence[str]]


def _whole_ids(wholes: Sequence[Whole]) -> list[str]:
    return [whole.session.id for whole in wholes]


def _own_ids(found: Sequence[Any]) -> list[str]:
    return [each.id for each in found]


_READS: dict[str, Ids] = {
    "card": lambda card: [card.id],
    "cards": _own_ids,
    "cards_at": lambda found: _own_ids(list(found.values())),
    "session": lambda session: [session.id],
    "sessions_at": list,
    "waiting": _own_ids,
    "find": lambda found: [*_own_ids(list(found.cards.values())), *found.sessions],
    "wholes": _whole_ids,
    "mentions": lambda found: [passage.session_id for passage in found],
}


def _noted(method: Callable[..., Any], log: _Log, ids: Ids) -> Callable[..., Any]:
    """A read whose entry is written before its result is handed out."""

    @wraps(method)
    async def read(*args: Any, **kwargs: Any) -> Any:
        found = await method(*args, **kwargs)
        named = list(dict.fromkeys(ids(found)))
        if named:
            await log.add("read", named, items=len(named))
        return found

    return read


# ---------------------------------------------------------------- reading the log


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
    while page := await store.logged(before=before, latest=True, limit=_PAGE):
        for row in reversed(page):
            entry = _entry(*row)
            if (of is None or of in entry.targets) and (since is None or entry.at >= _utc(since)):
                found.append(entry)
            if len(found) == limit:
                return found[::-1]
        before = page[0][0]
    return found[::-1]


def _utc(at: datetime) -> datetime:
    """A time without a zone is this machine's."""
    try:
        return at.astimezone(UTC)
    except OverflowError:  # at either end of the calendar
        return at.replace(tzinfo=UTC)


def _entry(number: int, _: str, text: str) -> Entry:
    """As the store has it, even if somebody changed it: its hash tells."""
    try:
        return Entry.model_validate_json(text).model_copy(update={"number": number})
    except ValidationError:
        return Entry(number=number, at=_NO_TIME, actor="", verb="unreadable", before="")


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
    while page := await store.logged(after=after, limit=_PAGE):
        for row in page:
            yield _entry(*row)
        after = page[-1][0]


def _problem(entry: Entry, number: int, before: str) -> str:
    if entry.number != number:
        missing = f"{number} to {entry.number - 1}" if entry.number > number + 1 else f"{number}"
        return f"missing: {missing}, before entry {entry.number}"
    if entry.digest != entry.hash:
        return f"entry {number} was changed"
    return "" if entry.before == before else f"entry {number} does not follow the one before it"
