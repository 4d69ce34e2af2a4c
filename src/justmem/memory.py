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
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import numpy as np

from justmem import tokens
from justmem.ask import Asked, Asking
from justmem.budget.ledger import Ledger, Tally
from justmem.domain import (
    About,
    Answer,
    Budget,
    Card,
    Checked,
    Entry,
    Evidence,
    Expiring,
    Forgotten,
    Health,
    Loaded,
    Plan,
    Preview,
    Quarantined,
    Remembered,
    Retention,
    Session,
    SessionRecord,
    SessionState,
    Source,
    Stats,
    quote,
    quoted,
)
from justmem.errors import InputError, InvalidSession, NotInMemory, StoreBusy
from justmem.extract.passages import OPENING
from justmem.forget import expiry
from justmem.forget.forgetting import Forgetting, Target
from justmem.intake.redaction import Redact, Redacted, Redaction
from justmem.intake.sessions import SessionLike, as_session, as_time
from justmem.language.citing import cite
from justmem.ports import (
    INDEXES,
    Answerer,
    CardFilter,
    Closes,
    Embedder,
    Extractor,
    Index,
    Language,
    Planner,
    Reranker,
    Store,
    Vectors,
)
from justmem.rank import Profile
from justmem.remember import Remembering
from justmem.retrieve import Retrieval
from justmem.runtime.forks import Origin
from justmem.store.log import check, entries, logged
from justmem.subjects import about
from justmem.subjects.names import Names, cards_of, names
from justmem.transfer import exporting
from justmem.transfer.loading import Loading, OnLoaded
from justmem.validation import as_count, as_flag, as_id, as_path, as_text, shown

_SETTLED = (SessionState.STORED, SessionState.EMPTY)
_ANY_TIME = datetime(2000, 1, 1)  # where only the turns are read
OnDone = Callable[[Remembered], None]
T = TypeVar("T")


class AsyncMemory:
    """The memory of one space. Make one with `justmem.open_async`, or from parts of your own.

    `clock` tells which day a token was spent on and when something was done, for the log, and
    nothing else. `redact` takes out what must not be kept, before anything is stored or sent to a
    model. `actor` is the name in the change log, and `log_reads` whether it has reads too.
    `closing` are the parts to close with the memory, besides its store.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        extractor: Extractor,
        planner: Planner,
        answerer: Answerer,
        language: Language,
        reranker: Reranker | None = None,
        budget: Budget | None = None,
        profile: Profile | None = None,
        retention: Retention | None = None,
        redact: Redact | None = None,
        concurrency: int = 4,
        clock: Callable[[], datetime] = datetime.now,
        actor: str = "program",
        log_reads: bool = False,
        closing: Sequence[Closes] = (),
    ) -> None:
        self._origin = Origin()
        self._closing = closing
        self.budget = budget or Budget()
        self.profile = profile or Profile()
        self.retention = retention or Retention()
        self._redaction = Redaction(redact)
        self._clock = clock
        self._store = store = logged(store, actor, clock, reads=log_reads)
        self._embedder = embedder
        self._language = language
        self.ledger = Ledger(store, self.budget.day_tokens, clock)
        self._remembering = Remembering(
            store, embedder, extractor, self.budget, self.ledger, concurrency, language
        )
        retrieval = Retrieval(
            store, embedder, reranker, self.budget, self.profile, self.retention, language
        )
        self._asking = Asking(
            store,
            planner,
            retrieval,
            answerer,
            self.budget,
            self.ledger,
            self._redaction,
            self.retention,
            language,
        )
        self._forgetting = Forgetting(store, (extractor, planner, answerer), clock, language)
        self._bound: set[str] = set()  # shared by all who use this memory, under whatever name

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
        return await self._remember(await self._redacted(as_session(session, at=at, id=id)))

    async def keep(
        self, session: SessionLike, *, at: datetime | str | None = None, id: str | None = None
    ) -> SessionRecord:
        """Keeps the session's words and leaves its cards for a later `remember` or `retry`."""
        known = await self._redacted(as_session(session, at=at, id=id))
        await self._bind()
        return await self._store.keep(known.session)

    async def append(
        self,
        turns: SessionLike,
        *,
        id: str,
        at: datetime | str | None = None,
        cards: bool = True,
    ) -> Remembered:
        """Adds turns to a session and makes cards of them. Only the new turns cost extraction;
        earlier ones are context. A turn with a `key` that the session has already is left out.
        `at` is when the session takes place, if it is not there yet. With `cards=False` only the
        words are kept, and `retry` makes the cards."""
        session_id = as_id(id, "session")
        when = None if at is None else as_time(at)
        told = as_session(turns, at=when or _ANY_TIME, id=session_id)
        redacted = await self._redaction.session(told, rename=False)
        await self._bind()
        record = await self._store.append(session_id, redacted.session.turns, at=when)
        if not as_flag(cards, "cards"):
            return self._remembering.kept(record, redacted.notes)
        return await self._settled(await self._remembering.grown(record, redacted.notes))

    async def remember_many(
        self, sessions: Iterable[SessionLike], *, on_done: OnDone | None = None
    ) -> list[Remembered]:
        """Several at once, as many as `concurrency` allows. Results in the order given."""
        if not isinstance(sessions, Iterable):
            raise InvalidSession(f"remember_many takes several sessions, not {shown(sessions)}.")
        known = [await self._redacted(as_session(session)) for session in sessions]
        texts = {(each.session.id, each.session.digest) for each in known}
        if twice := [id for id, n in Counter(id for id, _ in texts).items() if n > 1]:
            raise InvalidSession(
                f"Different sessions share the id {twice[0]!r}: the later would replace the "
                "earlier. Give each session an id of its own. Nothing was stored."
            )
        return await self._each(known, self._remember, on_done)

    async def retry(self, *, on_done: OnDone | None = None) -> list[Remembered]:
        """Takes up every session that is pending or failed."""

        async def again(session: Session) -> Remembered | None:
            with suppress(NotInMemory):  # it was forgotten meanwhile
                return await self.finish(session.id)
            return None

        return await self._each(await self._store.waiting(), again, on_done)

    async def finish(self, session_id: str) -> Remembered:
        """Makes the cards of a session that is pending or failed. Turns that others append
        meanwhile are kept."""
        session_id = as_id(session_id, "session")
        await self._bind()
        newest = (await self._store.sessions_at([session_id], newest=True)).get(session_id)
        if newest is None:
            raise NotInMemory(f"There is no session {session_id!r}.")
        # Again: the words may have been kept before there was anything to redact them.
        redacted = await self._redaction.session(newest, rename=False)
        if redacted.session != newest:
            return await self._remember(redacted)
        return await self._settled(await self._remembering.finish(session_id, redacted.notes))

    async def _each(
        self,
        sessions: Iterable[T],
        do: Callable[[T], Awaitable[Remembered | None]],
        on_done: OnDone | None,
    ) -> list[Remembered]:
        if on_done is not None and not callable(on_done):
            raise InputError(f"on_done must be callable, not {shown(on_done)}.")

        async def one(session: T) -> Remembered | None:
            result = await do(session)
            if on_done and result:
                on_done(result)
            return result

        tasks = [asyncio.create_task(one(session)) for session in sessions]
        try:
            return [done for done in await asyncio.gather(*tasks) if done]
        finally:  # after a store error the rest would fail alike: stop, and leave nothing running
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _redacted(self, session: Session) -> Redacted:
        return await self._redaction.session(session)

    async def _remember(self, redacted: Redacted) -> Remembered:
        await self._bind()
        done = await self._remembering.remember(redacted.session, redacted.notes)
        return await self._settled(done)

    async def _settled(self, done: Remembered) -> Remembered:
        """Drops the words whose cards are made, if words are kept for no days."""
        if self.retention.source_days == 0 and done.state in _SETTLED and not done.unchanged:
            with suppress(StoreBusy):  # `expire` does it later
                await self._store.forget(words=[done.session_id])
        return done

    async def _bind(self) -> None:
        """Vectors of two embedders cannot be compared: said before anything is written or
        searched."""
        self._origin.check()
        if self._embedder.name not in self._bound:
            await self._store.bind(self._embedder.name, self._embedder.dim)
            self._bound.add(self._embedder.name)

    # ------------------------------------------------------------ ask

    async def recall(
        self,
        question: str,
        *,
        at: datetime | str | None = None,
        speaker: str | None = None,
        plan: Plan | Mapping[str, Any] | None = None,
    ) -> Evidence:
        """The evidence that memory holds for a question, or for a remark you are about to reply
        to, without the answer call.

        `at` is when it is asked: "last week" counts from there, and what was said on later days
        is left out. Without it, the time of the latest session.

        `speaker` is who says it: "my" is theirs. Without it, the one person whom most cards are
        about, if there is one.

        `plan` is the caller's plan: a Plan, or a mapping with some of its parts, such as
        `{"rewrites": ["Mira adopted a dog"], "period": "2023-05"}`. Rules fill in the rest, and
        no model is called for it."""
        await self._bind()
        return await self._asking.recall(Asked(question, at, speaker, plan))

    async def ask(
        self,
        question: str,
        *,
        at: datetime | str | None = None,
        speaker: str | None = None,
        plan: Plan | Mapping[str, Any] | None = None,
    ) -> Answer:
        """An answer from memory alone, with the exact words it rests on. `at`, `speaker` and
        `plan` as for `recall`. A remark that asks nothing gets a reply that uses what is
        remembered."""
        await self._bind()
        asked = Asked(question, at, speaker, plan)
        async with aclosing(self._asking.steps(asked, streaming=False)) as steps:
            *_, answer = [step async for step in steps]
        assert isinstance(answer, Answer)
        return answer

    async def follow(
        self,
        question: str,
        *,
        at: datetime | str | None = None,
        speaker: str | None = None,
        plan: Plan | Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Plan | Evidence | str | Answer]:
        """`ask`, step by step: the plan, the evidence, the answer's text piece by piece as the
        model writes it, and the answer itself, which alone is checked and cited."""
        await self._bind()
        asked = Asked(question, at, speaker, plan)
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
        named = {"subject": subject, "kind": kind, "status": status, "text": text}
        where = CardFilter(
            **{name: as_text(value, name) for name, value in named.items() if value is not None},
            session_id=None if session is None else as_id(session, "session"),
            limit=as_count(limit, "limit"),
            offset=as_count(offset, "offset"),
        )
        return await cards_of(self._store, where, await self._names())

    async def card(self, card_id: str) -> Card:
        """A card by its id, or a quote by its own, which is as in `s12#3`."""
        found = await self._card(card_id)
        return (await self._names()).card(found)

    async def _names(self) -> Names:
        return await names(self._store, self._language)

    async def _card(self, card_id: str) -> Card:
        card_id = as_id(card_id, "card")
        if (place := quoted(card_id)) is None:
            return await self._store.card(card_id)
        session = await self._store.session(place[0])
        if not 1 <= place[1] <= len(session.turns):
            raise NotInMemory(f"Session {place[0]!r} has {len(session.turns)} turns.")
        if session.turn(place[1]).forgotten:
            raise NotInMemory(f"Turn {card_id} was forgotten.")
        return quote(session, place[1])

    async def source(self, card_id: str) -> Source:
        """The turns a card rests on, with one turn around them, and its exact words cited."""
        card = await self._card(card_id)
        session = await self._store.session(card.session_id)
        source = await asyncio.to_thread(_source, card, session)
        return (await self._names()).source(source)

    async def session(self, session_id: str) -> Session:
        return await self._store.session(as_id(session_id, "session"))

    async def sessions(self) -> list[SessionRecord]:
        return list(await self._store.sessions())

    async def waiting(self) -> list[Session]:
        """The sessions that `retry` would take up, each with its newest text."""
        return list(await self._store.waiting())

    async def quarantined(self, session_id: str) -> list[Quarantined]:
        """Cards of a session that no turn supports: never used, kept to be looked at."""
        session_id = as_id(session_id, "session")
        return [
            each
            for whole in await self._store.wholes([session_id])
            for each in whole.digested.quarantined
        ]

    async def about(self, subject: str, *, limit: int = 100, offset: int = 0) -> About:
        """Everything that memory holds on a subject, by its words and without a model: the cards
        about it or naming it, what holds now first, and the turns that name it."""
        subject = as_text(subject, "subject")
        limit, offset = as_count(limit, "limit"), as_count(offset, "offset")
        return await about.about(self._store, subject, await self._names(), limit, offset)

    async def stats(self) -> Stats:
        return await self._store.stats()

    async def check(self) -> Health:
        """Reads everything in the space and names what cannot be right. Changes nothing; takes
        about as long as the file takes to read."""
        return await self._store.check()

    async def backup(self, path: str | Path) -> None:
        """Writes the whole space to a new file, also while others write to it. The file of an
        encrypted space has the same key. A file that exists is left alone: InvalidFile."""
        await self._store.backup(as_path(path))

    async def forget(
        self,
        *,
        card: str | None = None,
        turn: str | None = None,
        session: str | None = None,
        subject: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        everything: bool = False,
        turns: bool | None = None,
        verify: bool = False,
    ) -> Forgotten:
        """Forgets one card, one turn (`s12#3`), one session, the sessions of a period (both days
        included), a subject, or the whole space, on disk too. With a turn go the cards that rest
        on it; with a subject, its cards and the turns they rest on, unless `turns` is False; with
        a card its turns only if `turns` is True. What was forgotten on its own does not come back
        with its session.

        `verify` then looks for it everywhere and adds a certificate; NotForgotten if anything of
        it is left."""
        what = Target(card, turn, session, subject, since, until, everything, turns)
        return await self._forgetting.forget(what, verify=as_flag(verify, "verify"))

    async def preview_forget(
        self,
        *,
        card: str | None = None,
        turn: str | None = None,
        session: str | None = None,
        subject: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        everything: bool = False,
        turns: bool | None = None,
    ) -> Preview:
        """What `forget` would take with it. Nothing changes."""
        what = Target(card, turn, session, subject, since, until, everything, turns)
        preview = await self._forgetting.preview(what)
        shown = (await self._names()).cards(preview.cards)
        return preview.model_copy(update={"cards": tuple(shown)})

    async def expiring(self, *, at: datetime | str) -> Expiring:
        """What `expire` would forget at that moment. Nothing goes yet."""
        return await expiry.expiring(self._store, self.retention, as_time(at))

    async def expire(self, *, at: datetime | str) -> Forgotten:
        """Forgets what is older than `retention` allows at that moment, on disk too. Questions
        leave it out before: this takes it away."""
        forget = self._forgetting.expire
        return await expiry.expire(self._store, self.retention, as_time(at), forget)

    async def reembed(self) -> int:
        """Makes all vectors anew with the present embedder, and returns how many. The old ones
        serve until the new ones are complete."""
        replaced: dict[Index, tuple[list[int], Vectors]] = {}
        for index in INDEXES:
            keys: list[int] = []
            parts: list[Vectors] = []
            while batch := await self._store.texts(index, after=keys[-1] if keys else 0):
                passage = index == "passages"
                searched = self._language.search_text
                texts = [text[:OPENING] if passage else searched(text) for _, text in batch]
                keys += [key for key, _ in batch]
                parts.append(await Tally().embed(self._embedder, texts))
            if keys:
                replaced[index] = keys, np.concatenate(parts)
        await self._store.replace_vectors(self._embedder.name, self._embedder.dim, replaced)
        self._bound.add(self._embedder.name)
        return sum(len(keys) for keys, _ in replaced.values())

    # ------------------------------------------------------------ take along, and look back

    async def export(
        self,
        *,
        format: Literal["jsonl", "markdown"] = "jsonl",
        vectors: bool = False,
    ) -> AsyncGenerator[str]:
        """All of the memory as lines of text: JSON Lines that `load` takes, or Markdown to read.
        `vectors` adds them to the JSON Lines, so that loading need not embed."""
        if format not in ("jsonl", "markdown"):
            raise InputError(f"{shown(format)} is no format: choose jsonl or markdown.")
        vectors = as_flag(vectors, "vectors")
        made = self._clock().astimezone(UTC)
        store = self._store
        lines = (
            exporting.json_lines(store, made=made, vectors=vectors)
            if format == "jsonl"
            else exporting.markdown(store, made=made)
        )
        async with aclosing(lines):
            async for line in lines:
                yield line

    async def load(self, file: str | Path, *, on_loaded: OnLoaded | None = None) -> Loaded:
        """Takes in an export, of this or another store. The whole file is checked first: what is
        damaged, cut short or too new stores nothing, and no session that is here is replaced by
        another. Interrupted, load it again: it goes on where it was."""
        path = as_path(file)
        if on_loaded is not None and not callable(on_loaded):
            raise InputError(f"on_loaded is called as it goes on; {shown(on_loaded)} cannot be.")
        await self._bind()
        loading = Loading(self._store, self._embedder, self._redaction, self._language)
        return await loading.load(path, on_loaded)

    async def log(
        self,
        *,
        since: datetime | None = None,
        of: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Entry]:
        """The latest entries of the change log, in order: who did what, when, to how much. `of`
        is the id of a card or a session: entries that name it. `before` is a number, for the page
        before."""
        if since is not None and not isinstance(since, datetime):
            raise InputError(f"since is a datetime, not {shown(since)}.")
        return await entries(
            self._store,
            since=since,
            of=None if of is None else as_id(of, "card or session"),
            before=None if before is None else as_count(before, "before"),
            limit=as_count(limit, "limit"),
        )

    async def check_log(self, *, last: str | None = None) -> Checked:
        """Whether every entry is as it was written and none is missing. `last` is the hash of an
        entry that was kept elsewhere: without one, what was cut off at the end cannot be seen."""
        return await check(self._store, None if last is None else as_id(last, "entry"))

    async def close(self) -> None:
        """Closes the store, and the models if this memory was made with them. A forked process
        leaves them to the one that opened them."""
        if not self._origin.here:
            return
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


def _source(card: Card, session: Session) -> Source:
    """The turns of a card with one turn around them."""
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
