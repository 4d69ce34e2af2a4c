"""Remember and ask: the whole product, top to bottom.

remember(session)                     ask(question)
  keep     the raw turns, first         plan      what evidence does it need?
  extract  atomic cards                 discover  question and rewrites -> candidates
  embed    cards and passages           select    the best cards within the budget
  settle   in one transaction           recover   REPLAY only: the original turns
                                        answer    from that evidence only
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from types import TracebackType
from typing import Self

import numpy as np

from justmem import tokens
from justmem.answering.citing import cite
from justmem.asking import Asked, Asking
from justmem.domain import (
    Answer,
    Budget,
    Card,
    Evidence,
    Forgotten,
    Plan,
    Profile,
    Quarantined,
    Remembered,
    Session,
    SessionRecord,
    Source,
    Stats,
)
from justmem.errors import InputError, InvalidSession, NotInMemory
from justmem.passages import OPENING
from justmem.ports import (
    INDEXES,
    Answerer,
    CardFilter,
    Closes,
    Embedder,
    Extractor,
    Index,
    Planner,
    Reranker,
    Store,
    Vectors,
)
from justmem.quotes import quote, quoted
from justmem.receipts import Ledger
from justmem.remembering import Remembering
from justmem.retrieval import Retrieval
from justmem.sessions import SessionLike, as_session

OnDone = Callable[[Remembered], None]


class AsyncMemory:
    """The memory of one space. Make one with `justmem.open_async`, or from parts of your own.

    `clock` tells which day a token was spent on, and nothing else. `closing` are the parts to
    close with the memory, besides its store.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        extractor: Extractor,
        planner: Planner,
        answerer: Answerer,
        reranker: Reranker | None = None,
        budget: Budget | None = None,
        profile: Profile | None = None,
        concurrency: int = 4,
        clock: Callable[[], datetime] = datetime.now,
        closing: Sequence[Closes] = (),
    ) -> None:
        self._closing = closing
        self.budget = budget or Budget()
        self.profile = profile or Profile()
        self._store = store
        self._embedder = embedder
        self._ledger = Ledger(store, self.budget.day_tokens, clock)
        self._remembering = Remembering(
            store, embedder, extractor, self.budget, self._ledger, concurrency
        )
        retrieval = Retrieval(store, embedder, reranker, self.budget, self.profile)
        self._asking = Asking(store, planner, retrieval, answerer, self.budget, self._ledger)
        self._bound = False

    @property
    def space(self) -> str:
        return self._store.space

    # ------------------------------------------------------------ remember

    async def remember(
        self, session: SessionLike, *, at: datetime | str | None = None, id: str | None = None
    ) -> Remembered:
        """Keeps the session's words, then makes its cards. A session that is known word for word
        costs nothing; a changed one replaces what was remembered of it.

        What a model cannot do now is not lost: the result says `failed` and why, and `retry`
        takes it up again."""
        return await self._remember(as_session(session, at=at, id=id))

    async def keep(
        self, session: SessionLike, *, at: datetime | str | None = None, id: str | None = None
    ) -> SessionRecord:
        """Keeps the session's words and leaves its cards for a later `remember` or `retry`."""
        known = as_session(session, at=at, id=id)
        await self._bind()
        return await self._store.keep(known)

    async def remember_many(
        self, sessions: Iterable[SessionLike], *, on_done: OnDone | None = None
    ) -> list[Remembered]:
        """Several at once, as many as `concurrency` allows. Results in the order given."""
        known = [as_session(session) for session in sessions]
        texts = {(session.id, session.digest) for session in known}
        if twice := [id for id, n in Counter(id for id, _ in texts).items() if n > 1]:
            raise InvalidSession(
                f"Different sessions share the id {twice[0]!r}: the later would replace the "
                "earlier. Give each session an id of its own. Nothing was stored."
            )
        return await self._each(known, on_done)

    async def retry(self, *, on_done: OnDone | None = None) -> list[Remembered]:
        """Takes up every session that is pending or failed."""
        return await self._each(await self._store.waiting(), on_done)

    async def _each(self, sessions: Iterable[Session], on_done: OnDone | None) -> list[Remembered]:
        async def one(session: Session) -> Remembered:
            result = await self._remember(session)
            if on_done:
                on_done(result)
            return result

        tasks = [asyncio.create_task(one(session)) for session in sessions]
        try:
            return await asyncio.gather(*tasks)
        finally:  # after a store error the rest would fail alike: stop, and leave nothing running
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _remember(self, session: Session) -> Remembered:
        await self._bind()
        return await self._remembering.remember(session)

    async def _bind(self) -> None:
        """Vectors of two embedders cannot be compared: the store says so before anything is
        written or searched."""
        if not self._bound:
            await self._store.bind(self._embedder.name, self._embedder.dim)
            self._bound = True

    # ------------------------------------------------------------ ask

    async def recall(
        self, question: str, *, at: datetime | str | None = None, speaker: str | None = None
    ) -> Evidence:
        """The evidence that memory holds for a question, or for a remark you are about to reply
        to, without the answer call.

        `at` is when it is asked: "last week" counts from there, and what was said on later days
        is left out. Without it, the time of the latest session.

        `speaker` is who says it: "my" is theirs. Without it, the one person whom most cards are
        about, if there is one."""
        await self._bind()
        return await self._asking.recall(Asked(question, at, speaker))

    async def ask(
        self, question: str, *, at: datetime | str | None = None, speaker: str | None = None
    ) -> Answer:
        """An answer from memory alone, with the exact words it rests on. `at` and `speaker` as
        for `recall`. A remark that asks nothing gets a reply that bears what is remembered in
        mind."""
        await self._bind()
        asked = Asked(question, at, speaker)
        async with aclosing(self._asking.steps(asked, streaming=False)) as steps:
            *_, answer = [step async for step in steps]
        assert isinstance(answer, Answer)
        return answer

    async def follow(
        self, question: str, *, at: datetime | str | None = None, speaker: str | None = None
    ) -> AsyncGenerator[Plan | Evidence | str | Answer]:
        """`ask`, step by step: the plan, the evidence, the answer's text piece by piece as the
        model writes it, and the answer itself, which alone is checked and cited."""
        await self._bind()
        asked = Asked(question, at, speaker)
        async with aclosing(self._asking.steps(asked, streaming=True)) as steps:
            async for step in steps:
                yield step

    # ------------------------------------------------------------ look and forget

    async def cards(
        self,
        *,
        subject: str | None = None,
        kind: str | None = None,
        status: str | None = None,
        session: str | None = None,
        text: str | None = None,
        limit: int = 1000,
        offset: int = 0,
    ) -> list[Card]:
        """The cards that match, in order of time."""
        where = CardFilter(subject, kind, status, session, text, limit, offset)
        return list(await self._store.cards(where))

    async def card(self, card_id: str) -> Card:
        """A card by its id, or a quote by its own, which is as in `s12#3`."""
        if (place := quoted(card_id)) is None:
            return await self._store.card(card_id)
        session = await self._store.session(place[0])
        if not 1 <= place[1] <= len(session.turns):
            raise NotInMemory(f"Session {place[0]!r} has {len(session.turns)} turns.")
        return quote(session, place[1])

    async def source(self, card_id: str) -> Source:
        """The turns a card rests on, with one turn around them, and its exact words cited."""
        card = await self.card(card_id)
        session = await self._store.session(card.session_id)
        first, last = max(1, min(card.turns) - 1), min(len(session.turns), max(card.turns) + 1)
        turns = tuple((n, session.turn(n)) for n in range(first, last + 1))
        return Source(
            session_id=session.id,
            at=session.at,
            turns=turns,
            whole=len(turns) == len(session.turns),
            tokens=sum(tokens.count(turn.text) for _, turn in turns),
            citations=cite(card, session),
        )

    async def session(self, session_id: str) -> Session:
        return await self._store.session(session_id)

    async def sessions(self) -> list[SessionRecord]:
        return list(await self._store.sessions())

    async def waiting(self) -> list[Session]:
        """The sessions that `retry` would take up, each with its newest text."""
        return list(await self._store.waiting())

    async def quarantined(self, session_id: str) -> list[Quarantined]:
        """Cards of a session that no turn supports: never used, kept to be looked at."""
        return list(await self._store.quarantined(session_id))

    async def stats(self) -> Stats:
        return await self._store.stats()

    async def forget(
        self,
        *,
        card: str | None = None,
        session: str | None = None,
        subject: str | None = None,
        everything: bool = False,
    ) -> Forgotten:
        """Forgets one card, one session, all cards about a subject, or the whole space, on disk
        too. A card that was forgotten on its own does not come back with its session."""
        if sum([card is not None, session is not None, subject is not None, everything]) != 1:
            raise InputError("Say what to forget: one of card=, session=, subject=, everything=.")
        if everything:
            return await self._store.erase()
        if session is not None:
            return await self._store.forget(sessions=[session])
        if card is not None:
            return await self._store.forget(cards=[card])
        about = await self._store.cards(CardFilter(subject=subject, limit=10**9))
        return await self._store.forget(cards=[each.id for each in about])

    async def reembed(self) -> int:
        """Makes all vectors anew with the present embedder, and returns how many. The old ones
        serve until the new ones are complete."""
        replaced: dict[Index, tuple[list[int], Vectors]] = {}
        for index in INDEXES:
            keys: list[int] = []
            parts: list[Vectors] = []
            while batch := await self._store.texts(index, after=keys[-1] if keys else 0):
                longest = OPENING if index == "passages" else None
                embedded = await self._embedder.embed([text[:longest] for _, text in batch])
                keys += [key for key, _ in batch]
                parts.append(embedded.vectors)
            if keys:
                replaced[index] = keys, np.concatenate(parts)
        await self._store.replace_vectors(self._embedder.name, self._embedder.dim, replaced)
        self._bound = True
        return sum(len(keys) for keys, _ in replaced.values())

    async def close(self) -> None:
        """Closes the store, and the models if this memory was made with them."""
        await self._store.close()
        for part in self._closing:
            await part.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
