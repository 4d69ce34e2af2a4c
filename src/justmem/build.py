"""Builder: stores a session and makes its cards, with limits, claims and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import replace
from typing import TypeVar
from weakref import WeakValueDictionary

from justmem import embed
from justmem.budget import Ledger, Tally
from justmem.domain import (
    NOTE,
    Card,
    Receipt,
    Remembered,
    Session,
    SessionRecord,
    SessionState,
    merge_repeated,
)
from justmem.edits import corrections
from justmem.edits.notes import note_extraction
from justmem.errors import (
    BudgetExceeded,
    InputError,
    JustMemError,
    ModelError,
    NotInMemory,
    StoreBusy,
    StoreError,
    TimeLimitExceeded,
)
from justmem.extract import with_replies
from justmem.intake.redaction import Redaction
from justmem.parts import Parts
from justmem.ports import (
    CardFilter,
    Derived,
    Extraction,
    Extractor,
    Store,
    StoredSession,
    spends_tokens,
)
from justmem.runtime import tokens
from justmem.runtime.validation import check_callable

OnDone = Callable[[Remembered], None]
T = TypeVar("T")

_ATTEMPTS = 20  # at the cards of a session that others add to


class Builder:
    def __init__(self, store: Store, parts: Parts, redaction: Redaction, ledger: Ledger) -> None:
        self._store = store
        self._parts = parts
        self._redaction = redaction
        self._ledger = ledger
        self._slots = asyncio.Semaphore(parts.concurrency)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def using(self, extractor: Extractor) -> Builder:
        made = copy(self)
        made._parts = replace(self._parts, extractor=extractor)
        return made

    async def remember(self, session: Session, notes: Sequence[str]) -> Remembered:
        """Stores the words of a session, always first, and makes its cards."""
        async with self._lock(session.id):
            record = await self._store.keep(session)
            if record.state.settled:
                return await self._as_stored(record, notes)
            return await self._make_cards(session.id, notes)

    async def keep(self, session: Session, notes: Sequence[str]) -> Remembered:
        """Stores the words alone."""
        return await self._as_stored(await self._store.keep(session), notes)

    async def append(self, turns: Session, notes: Sequence[str], *, cards: bool) -> Remembered:
        """Stores the turns in the session with the same id. Makes cards of them, or not."""
        record = await self._store.append(turns.id, turns.turns, at=turns.at)
        if record.state.settled or not cards:
            return await self._as_stored(record, notes)
        async with self._lock(turns.id):
            return await self._make_cards(turns.id, notes)

    async def finish(self, session_id: str) -> Remembered:
        """Makes the cards of a stored session."""
        newest = await self._newest(session_id)
        # The words may have been stored before redaction was set.
        session, notes = await self._redaction.session(newest, rename=False)
        if session != newest:
            return await self.remember(session, notes)
        async with self._lock(session_id):
            return await self._make_cards(session_id, notes)

    async def finish_each(self, ids: Iterable[str], on_done: OnDone | None) -> list[Remembered]:
        async def one(id: str) -> Remembered | None:
            with suppress(NotInMemory):  # it was forgotten meanwhile
                return await self.finish(id)
            return None

        return await run_each(ids, one, on_done)

    @asynccontextmanager
    async def _lock(self, session_id: str) -> AsyncIterator[None]:
        """One at a time for each session: the same session twice at once would be paid twice."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with self._slots, lock:
            yield

    async def _as_stored(self, record: SessionRecord, notes: Sequence[str]) -> Remembered:
        """What is stored of a session for which no cards were made now."""
        settled = record.state.settled
        return Remembered(
            session_id=record.id,
            state=record.state,
            reason=record.reason,
            cards=await self._cards(record.id) if settled else (),
            unchanged=settled,
            receipt=Receipt(notes=tuple(notes)),
        )

    async def _make_cards(self, session_id: str, notes: Sequence[str]) -> Remembered:
        """Makes the cards of a session's newest text, unless they are made or another process
        makes them. The text is read again at each attempt, because others may add to it."""
        for _ in range(_ATTEMPTS):
            async with self._store.claim(session_id) as mine:
                if not mine:
                    return await self._made_elsewhere(session_id, notes)
                with suppress(NotInMemory):  # the text was changed or forgotten meanwhile
                    done = await self._build(await self._newest(session_id), notes)
                    break
        else:
            return _pending(session_id, "others kept adding to it while its cards were made")
        note = session_id.startswith(NOTE)  # its words are the memory itself
        if self._parts.retention.source_days == 0 and done.state.settled and not note:
            with suppress(StoreBusy):  # `expire` drops the words later
                await self._store.forget(words=[session_id])
        return done

    async def _made_elsewhere(self, session_id: str, notes: Sequence[str]) -> Remembered:
        for record in await self._store.sessions():
            if record.id == session_id and record.state.settled:
                return await self._as_stored(record, notes)
        return _pending(session_id, "another process is making its cards")

    async def _cards(self, session_id: str) -> tuple[Card, ...]:
        return tuple(await self._store.cards(CardFilter(session_id=session_id)))

    async def _newest(self, session_id: str) -> Session:
        found = await self._store.texts([session_id], newest=True)
        if session_id not in found:
            raise NotInMemory(f"There is no session {session_id!r}.")
        return found[session_id]

    async def _build(self, session: Session, notes: Sequence[str]) -> Remembered:
        """Makes cards and vectors of the turns, and stores them in one transaction."""
        tally = Tally(notes=list(notes))
        tally.history_tokens = await asyncio.to_thread(tokens.count_session, session)
        before = next(iter(await self._store.whole_sessions([session.id])), None)
        try:
            extraction = await self._extract(session, before, tally)
            with tally.stage("embed"):
                derived = await embed.derive(session, extraction, before, self._parts, tally)
        except (ModelError, BudgetExceeded, TimeLimitExceeded) as error:
            # The turns are safe. Only the cards are missing, and `retry` makes them.
            await self._fail(session, str(error))
            return Remembered(
                session_id=session.id,
                state=SessionState.FAILED,
                reason=str(error),
                receipt=tally.receipt(),
            )
        except (StoreError, InputError):
            raise
        except Exception as error:
            # Unforeseen. Without this entry a server would try again at each start.
            what = error if isinstance(error, JustMemError) else type(error).__name__
            await self._fail(session, f"its cards could not be made: {what}")
            raise
        with tally.stage("store"):
            await self._store.settle(session, derived)
        return Remembered(
            session_id=session.id,
            state=derived.state,
            cards=await self._cards(session.id),  # forgotten ones are not stored again
            quarantined=tuple(extraction.quarantined),
            receipt=tally.receipt(),
        )

    async def _fail(self, session: Session, reason: str) -> None:
        await self._store.settle(session, Derived(SessionState.FAILED, reason))

    async def _extract(
        self, session: Session, before: StoredSession | None, tally: Tally
    ) -> Extraction:
        if session.is_note:
            return note_extraction(session)
        after = await asyncio.to_thread(settled_turns, before, session)
        if after:
            tally.notes.append(f"turns 1 to {after} have their cards already")
        limit = self._session_tokens(before, tally)
        extractor = self._parts.extractor
        async with self._ledger.allow(limit, tally, session=session.id) as allowed:
            with tally.stage("extract"):
                extraction = await extractor.extract(session, limit=allowed, after=after)
            tally.calls += extraction.calls
            tally.notes += extraction.notes
        extraction = with_kept(session, extraction, before, after)
        known = before.derived.corrections if before else ()
        cards = corrections.applied(merge_repeated(extraction.cards), known, session)
        return replace(extraction, cards=cards)

    def _session_tokens(self, before: StoredSession | None, tally: Tally) -> int | None:
        """What is left of the session's limit, which holds over all attempts at its cards."""
        limit = self._parts.budget.session_tokens
        if limit is None or not spends_tokens(self._parts.extractor):
            return None
        spent = before.spent if before else 0
        if spent:
            tally.notes.append(f"earlier attempts used {spent} tokens of the limit")
        return max(0, limit - spent)


def settled_turns(before: StoredSession | None, session: Session) -> int:
    """How many of the first turns have their cards, if the session only grew; else 0. The same
    text again is rebuilt."""
    if before is None or not before.derived.state.settled:
        return 0
    if len(session.turns) == len(before.session.turns):
        return 0
    return session.grown_from(before.session)


def with_kept(
    session: Session, extraction: Extraction, before: StoredSession | None, after: int
) -> Extraction:
    """A session that grew keeps its cards. In a changed one new cards replace the old ones. Cards
    whose turns were all forgotten stay, because they cannot be extracted again."""
    if before is None:
        return extraction
    made = before.derived
    if after:
        cards = [*kept_cards(made.cards, session), *extraction.cards]
        held = [*made.quarantined, *extraction.quarantined]
        return replace(extraction, cards=merge_repeated(cards), quarantined=held)
    gone = {number for number, turn in enumerate(session.turns, 1) if turn.forgotten}
    kept = [card for card in made.cards if gone.issuperset(card.turns)] if gone else []
    return replace(extraction, cards=[*kept, *extraction.cards])


def kept_cards(cards: Iterable[Card], session: Session) -> list[Card]:
    """The cards of the earlier turns. An interaction is anchored to a reply that came later."""
    return [
        card.model_copy(update={"turns": with_replies(card.turns, session)})
        if card.kind == "interaction"
        else card
        for card in cards
    ]


def _pending(session_id: str, reason: str) -> Remembered:
    return Remembered(
        session_id=session_id, state=SessionState.PENDING, reason=reason, unchanged=True
    )


async def run_each(
    items: Iterable[T], do: Callable[[T], Awaitable[Remembered | None]], on_done: OnDone | None
) -> list[Remembered]:
    """All at once. Returns the results in the order of the items."""
    check_callable(on_done, "on_done")

    async def one(item: T) -> Remembered | None:
        result = await do(item)
        if on_done and result:
            on_done(result)
        return result

    tasks = [asyncio.create_task(one(item)) for item in items]
    try:
        return [done for done in await asyncio.gather(*tasks) if done]
    finally:  # after a store error the others would fail too: stop them
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
