"""Session -> memory: raw turns first, then cards and vectors, settled in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from weakref import WeakValueDictionary

import numpy as np

from justmem import tokens
from justmem.budget.ledger import Ledger, Tally
from justmem.domain import (
    Budget,
    Card,
    Passage,
    Receipt,
    Remembered,
    Session,
    SessionRecord,
    SessionState,
)
from justmem.errors import (
    BudgetExceeded,
    InputError,
    JustMemError,
    ModelError,
    NotInMemory,
    StoreError,
    TimeLimitExceeded,
)
from justmem.extract.growth import grown_from, kept_cards
from justmem.extract.passages import opening, passages
from justmem.ports import (
    CardFilter,
    Digested,
    Embedder,
    Extraction,
    Extractor,
    Language,
    Store,
    Vectors,
    Whole,
)

_ATTEMPTS = 20  # at the cards of a session that others add to
_ELSEWHERE = "another process is making its cards"
_SETTLED = (SessionState.STORED, SessionState.EMPTY)


class Remembering:
    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        extractor: Extractor,
        budget: Budget,
        ledger: Ledger,
        concurrency: int,
        language: Language,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._extractor = extractor
        self._budget = budget
        self._ledger = ledger
        self._language = language
        self._slots = asyncio.Semaphore(concurrency)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def remember(self, session: Session, notes: Sequence[str] = ()) -> Remembered:
        """`notes` of what happened to it before go onto its receipt."""
        # The same session twice at once would be paid for twice.
        lock = self._locks.setdefault(session.id, asyncio.Lock())
        async with self._slots, lock:
            record = await self._store.keep(session)
            if record.state in _SETTLED:
                return await self._known(record, notes)
            if record.digest != session.digest:  # turns of it were forgotten: no model sees them
                kept = await self._store.sessions_at([session.id], newest=True)
                session = kept.get(session.id, session)
            return await self._claimed(session, notes)

    async def grown(self, record: SessionRecord, notes: Sequence[str] = ()) -> Remembered:
        """Makes the cards of a session that was just added to."""
        if record.state in _SETTLED:
            return await self._known(record, notes)
        return await self.finish(record.id, notes)

    def kept(self, record: SessionRecord, notes: Sequence[str] = ()) -> Remembered:
        """The words are kept, and no cards are made now."""
        return Remembered(
            session_id=record.id,
            state=record.state,
            reason=record.reason,
            unchanged=record.state in _SETTLED,
            receipt=Receipt(notes=tuple(notes)),
        )

    async def finish(self, session_id: str, notes: Sequence[str] = ()) -> Remembered:
        """Makes the cards of a session's newest text. The text is read again each time and never
        stored: others may add to it meanwhile."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with self._slots, lock:
            for _ in range(_ATTEMPTS):
                newest = await self._store.sessions_at([session_id], newest=True)
                if session_id not in newest:
                    break
                async with self._store.claim(session_id) as mine:
                    if mine:
                        with suppress(NotInMemory):  # another program added to it meanwhile
                            return await self._digest(newest[session_id], notes)
                if not mine:
                    break
        return Remembered(
            session_id=session_id, state=SessionState.PENDING, reason=_ELSEWHERE, unchanged=True
        )

    async def _known(self, record: SessionRecord, notes: Sequence[str]) -> Remembered:
        return Remembered(
            session_id=record.id,
            state=record.state,
            reason=record.reason,
            cards=tuple(await self._store.cards(CardFilter(session_id=record.id))),
            unchanged=True,
            receipt=Receipt(notes=tuple(notes)),
        )

    async def _claimed(self, session: Session, notes: Sequence[str]) -> Remembered:
        async with self._store.claim(session.id) as mine:
            if mine:
                return await self._digest(session, notes)
        record = await self._store.keep(session)
        if record.state in _SETTLED:  # made by another process since
            return await self._known(record, notes)
        return Remembered(
            session_id=session.id, state=SessionState.PENDING, reason=_ELSEWHERE, unchanged=True
        )

    async def _digest(self, session: Session, notes: Sequence[str]) -> Remembered:
        tally = Tally(notes=list(notes))
        said = await asyncio.to_thread(tokens.said, session)
        own = await self._left(session, tally)
        before = next(iter(await self._store.wholes([session.id])), None)
        after = await asyncio.to_thread(_unchanged_turns, before, session)
        if after:
            tally.notes.append(f"turns 1 to {after} have their cards already")
        try:
            async with self._ledger.allow(own, tally, session=session.id) as limit:
                with tally.stage("extract"):
                    extraction = await self._extractor.extract(session, limit=limit, after=after)
                extraction = _with_kept(session, extraction, before, after)
                tally.calls += extraction.calls
                tally.notes += extraction.notes
            with tally.stage("embed"):
                digested = await self._digested(session, extraction, before, said, tally)
        except (ModelError, BudgetExceeded, TimeLimitExceeded) as error:
            # The turns are safe; only the cards are missing, and `retry` makes them.
            await self._store.fail(session.id, str(error))
            return Remembered(
                session_id=session.id,
                state=SessionState.FAILED,
                reason=str(error),
                receipt=tally.receipt(said),
            )
        except (StoreError, InputError):
            raise
        except Exception as error:
            # Nobody foresaw it, and it would happen again at each start of a server.
            told = error if isinstance(error, JustMemError) else type(error).__name__
            await self._store.fail(session.id, f"its cards could not be made: {told}")
            raise
        with tally.stage("store"):
            await self._store.settle(session, digested)
        return Remembered(
            session_id=session.id,
            state=digested.state,
            cards=tuple(extraction.cards),
            quarantined=tuple(extraction.quarantined),
            receipt=tally.receipt(said),
        )

    async def _left(self, session: Session, tally: Tally) -> int | None:
        """A session's limit holds over all attempts at its cards: one that fails again and again
        is not paid for again and again."""
        if self._budget.session_tokens is None or not getattr(self._extractor, "spends", True):
            return None
        spent = await self._store.spent_on(session.id)
        if spent:
            tally.notes.append(f"{spent} tokens of the limit went into earlier attempts")
        return max(0, self._budget.session_tokens - spent)

    async def _digested(
        self,
        session: Session,
        extraction: Extraction,
        before: Whole | None,
        said: int,
        tally: Tally,
    ) -> Digested:
        cards, stretches = extraction.cards, await asyncio.to_thread(passages, session)
        texts = self._embedded_texts(session, cards, stretches)
        vectors = await self._vectors(texts, self._known_vectors(before), tally)
        return Digested(
            state=SessionState.STORED if cards else SessionState.EMPTY,
            cards=cards,
            card_vectors=vectors[: len(cards)],
            passages=stretches,
            passage_vectors=vectors[len(cards) :],
            quarantined=extraction.quarantined,
            tokens=said,
            card_tokens=tokens.count("\n".join(card.text for card in cards)),
        )

    def _embedded_texts(
        self, session: Session, cards: Sequence[Card], stretches: Sequence[Passage]
    ) -> list[str]:
        texts = [self._language.search_text(card.dated) for card in cards]
        return texts + [opening(session, passage) for passage in stretches]

    def _known_vectors(self, before: Whole | None) -> dict[str, Vectors]:
        """By text: what stays of a changed session is not embedded again."""
        if before is None:
            return {}
        made = before.digested
        if not len(made.passage_vectors) or len(made.card_vectors) != len(made.cards):
            return {}
        texts = self._embedded_texts(before.session, made.cards, made.passages)
        return dict(zip(texts, [*made.card_vectors, *made.passage_vectors], strict=True))

    async def _vectors(
        self, texts: Sequence[str], known: Mapping[str, Vectors], tally: Tally
    ) -> Vectors:
        fresh = list(dict.fromkeys(text for text in texts if text not in known))
        made = await tally.embed(self._embedder, fresh)
        if not known and len(fresh) == len(texts):
            return made
        found = {**known, **dict(zip(fresh, made, strict=True))}
        return np.stack([found[text] for text in texts]) if texts else made


def _unchanged_turns(before: Whole | None, session: Session) -> int:
    """How many of the first turns have their cards, if the session only grew; else 0."""
    if before is None or before.digested.state not in _SETTLED:
        return 0
    return grown_from(before.session, session)


def _with_kept(
    session: Session, extraction: Extraction, before: Whole | None, after: int
) -> Extraction:
    """A session that grew keeps its cards. A changed one replaces them, except those whose words
    are gone, because nothing could make them again."""
    if before is None:
        return extraction
    made = before.digested
    if after:
        cards = {card.id: card for card in kept_cards(made.cards, session)}
        cards |= {card.id: card for card in extraction.cards if card.id not in cards}
        held = [*made.quarantined, *extraction.quarantined]
        return replace(extraction, cards=list(cards.values()), quarantined=held)
    gone = {number for number, turn in enumerate(session.turns, 1) if turn.forgotten}
    kept = [card for card in made.cards if gone.issuperset(card.turns)] if gone else []
    return replace(extraction, cards=[*kept, *extraction.cards])
