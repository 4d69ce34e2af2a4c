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
    session_in,
    whole_session_in,
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
        stored = await session_in(self._store, session_id)
        # The words may have been stored before redaction was set.
        session, notes = await self._redaction.session(stored, rename=False)
        if session != stored:
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
        """Makes the cards of a session, unless they are made or another process makes them. The
        text is read again at each attempt, because others may add to it."""
        for _ in range(_ATTEMPTS):
            async with self._store.claim(session_id) as mine:
                if not mine:
                    return await self._made_elsewhere(session_id, notes)
                with suppress(NotInMemory):  # the text was changed or forgotten meanwhile
                    done = await self._build(session_id, notes)
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

    async def _build(self, session_id: str, notes: Sequence[str]) -> Remembered:
        """Makes cards and vectors of the turns, and stores them in one transaction."""
        whole = await whole_session_in(self._store, session_id)
        session, tally = whole.session, Tally(notes=list(notes))
        tally.history_tokens = await asyncio.to_thread(tokens.count_session, session)
        try:
            extraction = await self._extract(whole, tally)
            with tally.stage("embed"):
                derived = await embed.derive(whole, extraction, self._parts, tally)
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

    async def _extract(self, whole: StoredSession, tally: Tally) -> Extraction:
        session = whole.session
        if session.is_note:
            return note_extraction(session)
        after = whole.done if whole.done < len(session.turns) else 0  # a rebuild
        if after:
            tally.notes.append(f"turns 1 to {after} have their cards already")
        limit = self._session_tokens(whole.spent, tally)
        extractor = self._parts.extractor
        async with self._ledger.allow(limit, tally, session=session.id) as allowed:
            with tally.stage("extract"):
                extraction = await extractor.extract(session, limit=allowed, after=after)
            tally.calls += extraction.calls
            tally.notes += extraction.notes
        extraction = _with_kept(whole, extraction, after)
        known = whole.derived.corrections
        cards = corrections.applied(merge_repeated(extraction.cards), known, session)
        return replace(extraction, cards=cards)

    def _session_tokens(self, spent: int, tally: Tally) -> int | None:
        """What is left of the session's limit, which holds over all attempts at its cards."""
        limit = self._parts.budget.session_tokens
        if limit is None or not getattr(self._parts.extractor, "spends", True):
            return None
        if spent:
            tally.notes.append(f"earlier attempts used {spent} tokens of the limit")
        return max(0, limit - spent)


def _with_kept(whole: StoredSession, extraction: Extraction, after: int) -> Extraction:
    """The extraction of the turns after `after` with the cards that the session keeps. If all its
    cards are made again, it keeps those whose turns were all forgotten."""
    session, made = whole.session, whole.derived
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
