"""Builder: stores a session and makes its cards, with limits, claims and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeVar
from weakref import WeakValueDictionary

from justmem import vectors
from justmem.budget import Ledger, Tally
from justmem.domain import (
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
from justmem.extract import cards_by_rules, with_replies
from justmem.intake.redaction import Redaction
from justmem.memory_parts import Parts
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

    async def remember(
        self, session: Session, notes: Sequence[str], extractor: Extractor | None = None
    ) -> Remembered:
        """Stores the words of a session, always first, and makes its cards."""
        async with self._alone(session.id):
            record = await self._store.keep(session)
            if record.state.finished:
                return await self._as_stored(record, notes)
            return await self._make_cards(session.id, notes, extractor)

    async def keep(self, session: Session, notes: Sequence[str]) -> Remembered:
        """Stores the words alone."""
        return await self._as_stored(await self._store.keep(session), notes)

    async def append(self, turns: Session, notes: Sequence[str], *, cards: bool) -> Remembered:
        """Stores the turns in the session with the same id. Makes cards of them, or not."""
        record = await self._store.keep(turns, append=True)
        if record.state.finished or not cards:
            return await self._as_stored(record, notes)
        async with self._alone(turns.id):
            return await self._make_cards(turns.id, notes)

    async def finish(self, session_id: str, extractor: Extractor | None = None) -> Remembered:
        """Makes the cards of a stored session."""
        stored = await session_in(self._store, session_id)
        # The words may have been stored before redaction was set.
        session, notes = await self._redaction.session(stored, rename=False)
        if session != stored:
            return await self.remember(session, notes, extractor)
        async with self._alone(session_id):
            return await self._make_cards(session_id, notes, extractor)

    async def finish_each(
        self, ids: Iterable[str], on_done: OnDone | None, extractor: Extractor | None = None
    ) -> list[Remembered]:
        async def one(id: str) -> Remembered | None:
            with suppress(NotInMemory):  # it was forgotten meanwhile
                return await self.finish(id, extractor)
            return None

        return await run_each(ids, one, on_done)

    @asynccontextmanager
    async def _alone(self, session_id: str) -> AsyncIterator[None]:
        """Works on one session at a time: otherwise two calls could both pay for its cards."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with self._slots, lock:
            yield

    async def _as_stored(
        self, record: SessionRecord, notes: Sequence[str], reason: str = ""
    ) -> Remembered:
        """What is stored of a session for which no cards were made now."""
        finished = record.state.finished
        return Remembered(
            session_id=record.id,
            state=record.state,
            reason=record.reason if finished or not reason else reason,
            cards=await self._cards(record.id) if finished else (),
            unchanged=finished,
            receipt=Receipt(notes=tuple(notes)),
        )

    async def _cards(self, session_id: str) -> tuple[Card, ...]:
        return tuple(await self._store.cards(CardFilter(session_id=session_id)))

    # ------------------------------------------------------------ making cards

    async def _make_cards(
        self, session_id: str, notes: Sequence[str], extractor: Extractor | None = None
    ) -> Remembered:
        """Makes the cards of a session, unless they are made or another process makes them. The
        text is read again at each attempt, because others may add to it."""
        extractor = extractor or self._parts.extractor
        reason = "others kept adding to it while its cards were made"
        for _ in range(_ATTEMPTS):
            async with self._store.claim(session_id) as mine:
                if not mine:
                    reason = "another process is making its cards"
                    break
                with suppress(NotInMemory):  # the text was changed or forgotten meanwhile
                    stored = await whole_session_in(self._store, session_id)
                    done = await self._build(stored, Tally(notes=list(notes)), extractor)
                    await self._drop_words(stored.session, done.state)
                    return done
        for record in await self._store.sessions():
            if record.id == session_id:
                return await self._as_stored(record, notes, reason)
        raise NotInMemory(f"Session {session_id!r} was forgotten while its cards were made.")

    async def _drop_words(self, session: Session, state: SessionState) -> None:
        """Forgets the words of a session that has its cards, if the space keeps no words. A note's
        words are the memory itself."""
        keeps_none = self._parts.retention.source_days == 0
        if keeps_none and state.finished and not session.is_note:
            with suppress(StoreBusy):  # `expire` forgets them later
                await self._store.forget(words=[session.id])

    async def _build(
        self, stored: StoredSession, tally: Tally, extractor: Extractor | None
    ) -> Remembered:
        """Makes cards and vectors of the turns, and stores them in one transaction."""
        session = stored.session
        tally.history_tokens = await asyncio.to_thread(tokens.count_session, session)
        try:
            extraction = await self._extract(stored, tally, extractor)
            with tally.stage("embed"):
                derived = await vectors.derive(stored, extraction, self._parts, tally)
        except (ModelError, BudgetExceeded, TimeLimitExceeded) as error:
            # The turns are safe. Only the cards are missing, and `retry` makes them.
            return await self._failed(stored, str(error), tally)
        except (StoreError, InputError):
            raise
        except Exception as error:
            # An unexpected error. Without this entry a server would try again at each start.
            what = error if isinstance(error, JustMemError) else type(error).__name__
            await self._failed(stored, f"its cards could not be made: {what}", tally)
            raise
        with tally.stage("store"):
            if not await self._store.settle(stored, derived):
                raise NotInMemory(f"Session {session.id!r} was changed while its cards were made.")
        return Remembered(
            session_id=session.id,
            state=derived.state,
            cards=await self._cards(session.id),  # forgotten ones are not stored again
            quarantined=tuple(extraction.quarantined),
            receipt=tally.receipt(),
        )

    async def _failed(self, stored: StoredSession, reason: str, tally: Tally) -> Remembered:
        if stored.is_rebuild:
            reason = f"the earlier cards are still used, because a rebuild failed: {reason}"
        # This only enters the reason: the session still waits for its cards.
        await self._store.settle(stored, Derived(SessionState.FAILED, reason))
        state, receipt = SessionState.FAILED, tally.receipt()
        return Remembered(session_id=stored.session.id, state=state, reason=reason, receipt=receipt)

    async def _extract(
        self, stored: StoredSession, tally: Tally, extractor: Extractor | None
    ) -> Extraction:
        session = stored.session
        if session.is_note:
            return note_extraction(session)
        after = 0 if stored.is_rebuild else stored.done
        if after:
            tally.notes.append(f"turns 1 to {after} have their cards already")
        if extractor is None:
            with tally.stage("extract"):
                language = self._parts.language
                cards = await asyncio.to_thread(cards_by_rules, session, after, language)
            extraction = Extraction(cards)
        else:
            extraction = await self._by_model(stored, tally, extractor, after)
        extraction = _with_kept(stored, extraction, after)
        known = stored.derived.corrections
        cards = corrections.applied(merge_repeated(extraction.cards), known, session)
        return replace(extraction, cards=cards)

    async def _by_model(
        self, stored: StoredSession, tally: Tally, extractor: Extractor, after: int
    ) -> Extraction:
        limit = self._parts.budget.session_tokens
        if limit is not None:
            # It holds over all attempts at the cards of the session.
            limit = max(0, limit - stored.spent)
            if stored.spent:
                tally.notes.append(f"earlier attempts used {stored.spent} tokens of the limit")
        async with self._ledger.allow(limit, tally, session=stored.session.id) as allowed:
            with tally.stage("extract"):
                found = await extractor.extract(stored.session, limit=allowed, after=after)
            tally.calls += found.calls
            tally.notes += found.notes
        return found


def _with_kept(stored: StoredSession, extraction: Extraction, after: int) -> Extraction:
    """The extraction of the turns after `after` with the cards that the session keeps. If all its
    cards are made again, it keeps those whose turns were all forgotten."""
    session, made = stored.session, stored.derived
    if not after:
        gone = {number for number, turn in enumerate(session.turns, 1) if turn.forgotten}
        kept = [card for card in made.cards if gone.issuperset(card.turns)] if gone else []
        return replace(extraction, cards=[*kept, *extraction.cards])
    # An interaction is anchored to a reply, which may have come later.
    kept = [
        card.model_copy(update={"turns": with_replies(card.turns, session)})
        if card.kind == "interaction"
        else card
        for card in made.cards
    ]
    cards = merge_repeated([*kept, *extraction.cards])
    held = [*made.quarantined, *extraction.quarantined]
    return replace(extraction, cards=cards, quarantined=held)


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
