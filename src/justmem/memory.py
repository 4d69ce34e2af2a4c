"""AsyncMemory: the method of the paper, top to bottom.

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
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from justmem import embed, notes, pending, tokens, transfer
from justmem.answer.pieces import LEAST_TOKENS, replies
from justmem.budget.ledger import Ledger, Tally
from justmem.build import Builder
from justmem.change_log import check, entries
from justmem.domain import (
    KINDS,
    STATUSES,
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
    HistoryEntry,
    Loaded,
    Note,
    Plan,
    Preview,
    Quarantined,
    Receipt,
    Remembered,
    Retention,
    Session,
    SessionRecord,
    Source,
    Stats,
    SubjectProfile,
    quote,
    quoted,
)
from justmem.errors import (
    InputError,
    InvalidSession,
    NotInMemory,
)
from justmem.forget import expiry
from justmem.forget.targets import Forgetting, Target
from justmem.intake.filters import as_filter
from justmem.intake.redaction import Redact, Redacted, Redaction
from justmem.intake.sessions import SessionLike, as_session, as_time, id_from_content
from justmem.language.citing import cite
from justmem.plan import PlanParts, planned, supplied
from justmem.ports import (
    Answerer,
    Author,
    CardFilter,
    Closes,
    Embedder,
    Extractor,
    Filter,
    Language,
    Planner,
    Reply,
    Reranker,
    Store,
    card_in,
    session_in,
)
from justmem.rank import Profile
from justmem.retrieve import NO_FILTER, UNRELATED, Retrieval
from justmem.runtime.forks import Origin
from justmem.subjects import about, history
from justmem.subjects.names import NO_NAMES, Names, cards_of, names
from justmem.text import SEGMENT, both_ends
from justmem.tracing import traced
from justmem.validation import (
    LONG_QUESTION,
    as_choice,
    as_count,
    as_flag,
    as_id,
    as_path,
    as_question,
    as_speaker,
    as_text,
    shown,
)

OnDone = Callable[[Remembered], None]
T = TypeVar("T")


class AsyncMemory:
    """The memory of one space. Make one with `justmem.open_async`, or from parts of your own.

    `clock` tells the present: the default of `at`, the day on which tokens are spent, the times in
    the change log. `redact` takes out what must not be kept, before anything is stored or sent to a
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
        self.budget = budget or Budget()
        self.ranking = profile or Profile()
        self.retention = retention or Retention()
        store.author = Author(actor, clock, log_reads)
        self._store = store
        self.ledger = Ledger(store, self.budget.day_tokens, clock)
        self._embedder = embedder
        self._planner = planner
        self._answerer = answerer
        self._language = language
        self._builder = Builder(
            store,
            embedder,
            extractor,
            language,
            self.budget,
            self.retention,
            self.ledger,
            concurrency,
        )
        self._retrieval = Retrieval(
            store, embedder, reranker, self.budget, self.ranking, self.retention, language
        )
        self._forgetting = Forgetting(store, (extractor, planner, answerer), clock, language)
        self._redaction = Redaction(redact)
        self._clock = clock
        self._closing = closing
        self._origin = Origin()
        self._bound: set[str] = set()  # embedders whose vectors the store is known to hold

    @property
    def space(self) -> str:
        return self._store.space

    # ------------------------------------------------------------ remember

    @traced("upsert_memory")
    async def remember(
        self, session: SessionLike, *, at: datetime | str | None = None, id: str | None = None
    ) -> Remembered:
        """Stores the session's words, then makes its cards. A session is a text, a list of
        messages or a mapping with `turns`. One that is known word for word costs nothing. A
        changed one replaces the old one and its cards.

        `at` is when it took place. Without it, the session's own time, else now.

        If a model fails, nothing is lost: the result says `failed` and why, and `retry` tries
        again."""
        return await self._remember(await self._given(session, at, id))

    async def _given(
        self, value: SessionLike, at: datetime | str | None = None, id: str | None = None
    ) -> Redacted:
        """The session as it may be stored. One without a time takes place now, unless it is known
        by its id: then it keeps its time."""
        now = self._now()
        session = as_session(value, at=at, id=id, otherwise=now)
        if at is None and session.at == now and session.id != id_from_content(session):
            known = await self._store.texts([session.id], newest=True)
            if session.id in known:
                session = session.model_copy(update={"at": known[session.id].at})
        return await self._redaction.session(session)

    def _now(self) -> datetime:
        return as_time(self._clock()).replace(microsecond=0)

    async def _remember(self, given: Redacted) -> Remembered:
        await self._bind()
        async with self._builder.alone(given.session.id):
            record = await self._store.keep(given.session)  # the raw turns, always first
            if record.state.settled:
                return await self._builder.unchanged(record, given.notes)
            return await self._builder.make_cards(record.id, given.notes)

    async def keep(
        self, session: SessionLike, *, at: datetime | str | None = None, id: str | None = None
    ) -> SessionRecord:
        """Stores the session's words and leaves its cards to a later `remember` or `retry`."""
        given = await self._given(session, at, id)
        await self._bind()
        return await self._store.keep(given.session)

    @traced("upsert_memory")
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
        `at` is when the session takes place, if it is new; default: now. With `cards=False` only
        the words are kept, and `retry` makes the cards."""
        session_id, cards = as_id(id, "session"), as_flag(cards, "cards")
        when = self._now() if at is None else as_time(at)
        given = await self._redaction.session(
            as_session(turns, at=when, id=session_id), rename=False
        )
        await self._bind()
        record = await self._store.append(session_id, given.session.turns, at=when)
        if record.state.settled:
            return await self._builder.unchanged(record, given.notes)
        if not cards:
            return Remembered(
                session_id=record.id,
                state=record.state,
                reason=record.reason,
                receipt=Receipt(notes=given.notes),
            )
        async with self._builder.alone(session_id):
            return await self._builder.make_cards(session_id, given.notes)

    async def remember_many(
        self, sessions: Iterable[SessionLike], *, on_done: OnDone | None = None
    ) -> list[Remembered]:
        """Several at once, as many as `concurrency` allows. Results in the order given."""
        if isinstance(sessions, str) or not isinstance(sessions, Iterable):
            raise InvalidSession(f"remember_many takes several sessions, not {shown(sessions)}.")
        given = [await self._given(session) for session in sessions]
        texts = {(each.session.id, each.session.digest) for each in given}
        if twice := [id for id, n in Counter(id for id, _ in texts).items() if n > 1]:
            raise InvalidSession(
                f"Different sessions share the id {twice[0]!r}: the later would replace the "
                "earlier. Give each session an id of its own. Nothing was stored."
            )
        return await _each(given, self._remember, on_done)

    async def note(
        self,
        text: str,
        *,
        key: str | None = None,
        value: Any = None,
        at: datetime | str | None = None,
        until: datetime | str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Card:
        """Stores a card exactly as given, without extraction. A note with the same `key` is
        replaced; without a key, one is made from the text. `value` is anything that JSON can
        hold, or JSON as bytes, which stays as it is. The note expires at `until`. `at` is when it
        holds from, by default now."""
        when = self._now() if at is None else as_time(at)
        given = notes.as_note(text, key=key, value=value, at=when, until=until, labels=labels)
        redacted = await self._redaction.session(given, rename=False)
        notes.check_redacted(redacted.session)
        await self._remember(redacted)
        return notes.extraction(redacted.session).cards[0]

    async def notes(self, prefix: str = "") -> list[Note]:
        """The notes whose key begins with `prefix`, in order of their keys."""
        return await notes.listed(self._store, as_text(prefix, "prefix"), self._now())

    async def note_at(self, key: str) -> Note:
        """The note with that key. NotInMemory if there is none, or it has expired."""
        return await notes.at_key(self._store, key, self._now())

    async def retry(self, *, on_done: OnDone | None = None) -> list[Remembered]:
        """Makes the cards of every session that is pending or failed."""

        async def again(session: Session) -> Remembered | None:
            with suppress(NotInMemory):  # it was forgotten meanwhile
                return await self.finish(session.id)
            return None

        return await _each(await self.waiting(), again, on_done)

    async def finish(self, session_id: str) -> Remembered:
        """Makes the cards of a session that is pending or failed. Turns that others append
        meanwhile are kept."""
        session_id = as_id(session_id, "session")
        await self._bind()
        newest = await self._builder.newest(session_id)
        # The words may have been stored before redaction was set.
        given = await self._redaction.session(newest, rename=False)
        if given.session != newest:
            return await self._remember(given)
        async with self._builder.alone(session_id):
            return await self._builder.make_cards(session_id, given.notes)

    async def _bind(self) -> None:
        """Vectors of two embedders cannot be compared: raises before anything is written or
        searched."""
        self._origin.check()
        if self._embedder.name not in self._bound:
            await self._store.bind(self._embedder.name, self._embedder.dim)
            self._bound.add(self._embedder.name)

    # ------------------------------------------------------------ ask

    @traced("search_memory")
    async def recall(
        self,
        question: str,
        *,
        at: datetime | str | None = None,
        speaker: str | None = None,
        plan: Plan | Mapping[str, Any] | None = None,
        limit: int | None = None,
        labels: Mapping[str, str] | None = None,
        sessions: Iterable[str] | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        as_of: date | str | None = None,
    ) -> Evidence:
        """The evidence that memory holds for a question, or for a remark you are about to reply
        to, without the answer call.

        `at` is when it is asked; default: now. "Last week" counts from there, and what was said on
        later days is left out.

        `speaker` is who says it: "my" is theirs. Without it, the one person whom most cards are
        about, if there is one.

        `plan` is the caller's plan: a Plan, or a mapping with some of its parts, such as
        `{"rewrites": ["Mira adopted a dog"], "period": "2023-05"}`. Rules fill in the rest, and
        no model is called for it.

        The rest are filters. `limit`: at most so many cards. `labels`: only sessions and notes
        that have all of them. `sessions`: only these, by their ids. `since` and `until`: only what
        was said in that time, both days included. `as_of`: memory as it was on that day, without
        what began later."""
        where = await as_filter(
            self._store,
            limit=limit,
            labels=labels,
            sessions=sessions,
            since=since,
            until=until,
            as_of=as_of,
        )
        steps = self._steps(question, at, speaker, plan, answer=False, where=where)
        async with aclosing(steps):
            *_, evidence = [step async for step in steps]
        assert isinstance(evidence, Evidence)
        return evidence

    @traced("search_memory")
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
        steps = self._steps(question, at, speaker, plan)
        async with aclosing(steps):
            *_, answer = [step async for step in steps]
        assert isinstance(answer, Answer)
        return answer

    async def answer(self, evidence: Evidence) -> Answer:
        """The answer call alone, from what `recall` returned. `ask` is both together. The receipt
        counts the answer call and not what `recall` spent."""
        await self._bind()
        tally = Tally()
        async with self.ledger.allow(self.budget.ask_tokens, tally) as limit:
            names = await self._names(evidence.at.date())
            steps = self._answering(evidence, names, tally, limit)
            async with aclosing(steps):
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
        steps = self._steps(question, at, speaker, plan, streaming=True)
        async with aclosing(steps):
            async for step in steps:
                yield step

    async def _steps(
        self,
        question: str,
        at: datetime | str | None,
        speaker: str | None,
        given: Plan | Mapping[str, Any] | None,
        *,
        answer: bool = True,
        streaming: bool = False,
        where: Filter = NO_FILTER,
    ) -> AsyncGenerator[Plan | Evidence | str | Answer]:
        """The plan, the evidence, the text (in pieces, if streaming), the answer."""
        plan = supplied(given)
        await self._bind()
        tally, names = Tally(), NO_NAMES
        async with self.ledger.allow(self.budget.ask_tokens, tally) as tokens:
            asked, search = await self._understand(question, at, speaker, tally)
            if search and plan is None and getattr(self._planner, "spends", True):
                asked, search = await self._relevant(asked, tally)
            if search:
                left = tokens - LEAST_TOKENS if answer and tokens is not None else tokens
                asked = await self._plan(asked, plan, tally, left)
            yield asked.plan
            if search:
                names = await self._names(asked.at.date())
                asked = await self._retrieve(asked, names, tally, where)
            evidence = asked.model_copy(update={"receipt": tally.receipt()})
            yield evidence
            if not answer:
                return
            steps = self._answering(evidence, names, tally, tokens, streaming=streaming)
            async with aclosing(steps):
                async for step in steps:
                    yield step

    async def _answering(
        self,
        evidence: Evidence,
        names: Names,
        tally: Tally,
        limit: int | None,
        *,
        streaming: bool = False,
    ) -> AsyncGenerator[str | Answer]:
        """The text (in pieces, if streaming), the answer."""
        sessions = await self._sessions_of(evidence, names)
        reply, written = Reply("", False), False
        with tally.stage("answer"):
            pieces = replies(
                self._answerer, evidence, sessions, limit=tally.left(limit), streaming=streaming
            )
            async with aclosing(pieces):
                async for piece in pieces:
                    if isinstance(piece, str):
                        written = True
                        yield piece
                    else:
                        reply = piece
                        tally.calls += reply.calls
        tally.notes += reply.notes
        if not written:
            yield reply.text
        yield Answer(
            text=reply.text,
            sufficient=reply.sufficient,
            citations=tuple(reply.citations),
            evidence=evidence,
            receipt=tally.receipt(),
        )

    async def _understand(
        self, question: str, at: datetime | str | None, speaker: str | None, tally: Tally
    ) -> tuple[Evidence, bool]:
        """The question, checked and redacted, and whether to search memory for it."""
        text, name = as_question(question), as_speaker(speaker)
        redacted = await self._redaction.question(text)
        if redacted != text:
            tally.notes.append("the question was redacted")
        if len(redacted) > SEGMENT:
            tally.notes.append(LONG_QUESTION)
        extent = await self._store.look(waiting=1)
        tally.history_tokens = extent.tokens
        asked = Evidence(
            question=redacted,
            at=self._now() if at is None else as_time(at),
            speaker=name and await self._redaction.name(name),
        )
        if not extent.cards and not extent.tokens and not extent.waiting:
            tally.notes.append("this memory is empty")
            return asked, False
        if self._language.is_small_talk(redacted):
            tally.notes.append("small talk: memory was not searched")
            return asked.model_copy(update={"plan": Plan(mode="reply")}), False
        return asked, True

    async def _relevant(self, asked: Evidence, tally: Tally) -> tuple[Evidence, bool]:
        """Whether memory holds anything about the question, planned by rules. If not, a model need
        not plan it."""
        rules = await self._plan(asked, PlanParts(), tally, None)
        names = await self._names(asked.at.date())
        waiting = (await self._store.look(waiting=1)).waiting
        if waiting or await self._retrieval.relevant(names.asked(rules), tally):
            return asked, True
        tally.notes.append(UNRELATED)
        return rules, False

    async def _plan(
        self, asked: Evidence, given: Plan | PlanParts | None, tally: Tally, limit: int | None
    ) -> Evidence:
        """With its plan, and with the speaker if the question is in the first person."""
        speaker = asked.speaker
        with tally.stage("plan"):
            if given is not None:
                given = await self._redaction.plan(given)
            found = await planned(
                asked.question, asked.at, given, self._planner, self._language, limit=limit
            )
            tally.calls += found.calls  # at once: a caller who is cancelled has paid for them
            if speaker is None and (found.plan.mode == "reply" or self._first_person(asked)):
                speaker = (await self._store.look()).main_subject
        tally.notes += found.notes
        return asked.model_copy(update={"plan": found.plan, "speaker": speaker})

    def _first_person(self, asked: Evidence) -> bool:
        text = both_ends(asked.question)
        return self._language.name_speaker(text, "X") != text

    async def _retrieve(
        self, asked: Evidence, names: Names, tally: Tally, where: Filter
    ) -> Evidence:
        """Discover, select and recover; then the turns of sessions that have no cards yet."""
        waiting = [each for each in await pending.waiting(self._store) if where.holds(each)]
        found = await self._retrieval.evidence(names.asked(asked), tally, where)
        found = await pending.added(self._store, waiting, found, self.retention, tally)
        found = names.evidence(found.model_copy(update={"plan": asked.plan}))
        earlier = await asyncio.to_thread(
            self._language.superseded, found.cards, where.as_of or asked.at.date()
        )
        return found.model_copy(update={"earlier": tuple(sorted(earlier))})

    async def _sessions_of(self, evidence: Evidence, names: Names) -> dict[str, Session]:
        held: list[Card | Source] = [*evidence.cards, *evidence.sources]
        found = dict(await self._store.texts(list({one.session_id for one in held})))
        # Quotes of turns that were appended since the cards were made.
        grown = [
            card.session_id
            for card in evidence.cards
            if card.session_id in found and max(card.turns) > len(found[card.session_id].turns)
        ]
        found |= await self._store.texts(grown, newest=True) if grown else {}
        return {id: names.session(session) for id, session in found.items()}

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
        where = CardFilter(
            subject=None if subject is None else as_text(subject, "subject"),
            kind=None if kind is None else as_choice(kind, "kind", KINDS),
            status=None if status is None else as_choice(status, "status", STATUSES),
            text=None if text is None else as_text(text, "text"),
            session_id=None if session is None else as_id(session, "session"),
            limit=as_count(limit, "limit"),
            offset=as_count(offset, "offset"),
        )
        return await cards_of(self._store, where, await self._names())

    async def card(self, card_id: str) -> Card:
        """A card by its id, or a quote by its own, which is as in `s12#3`."""
        found = await self._card(card_id)
        return (await self._names()).card(found)

    async def _names(self, until: date | None = None) -> Names:
        return await names(self._store, self._language, until)

    async def _card(self, card_id: str) -> Card:
        card_id = as_id(card_id, "card")
        if (place := quoted(card_id)) is None:
            return await card_in(self._store, card_id)
        session = await session_in(self._store, place[0])
        if not 1 <= place[1] <= len(session.turns):
            raise NotInMemory(f"Session {place[0]!r} has {len(session.turns)} turns.")
        if session.turn(place[1]).forgotten:
            raise NotInMemory(f"Turn {card_id} was forgotten.")
        return quote(session, place[1])

    async def source(self, card_id: str) -> Source:
        """The turns a card rests on, with one turn around them, and its exact words cited."""
        card = await self._card(card_id)
        session = await session_in(self._store, card.session_id)
        source = await asyncio.to_thread(_source, card, session)
        return (await self._names()).source(source)

    async def session(self, session_id: str) -> Session:
        return await session_in(self._store, as_id(session_id, "session"))

    async def sessions(self) -> list[SessionRecord]:
        return [record for record in await self._store.sessions() if not record.is_note]

    async def waiting(self) -> list[Session]:
        """The sessions that `retry` would take up, each with its newest text."""
        records = await self._store.sessions()
        ids = [record.id for record in records if not record.state.settled]
        return list((await self._store.texts(ids, newest=True)).values())

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

    async def history(
        self,
        subject: str | None = None,
        *,
        card: str | None = None,
        at: datetime | str | None = None,
    ) -> list[HistoryEntry]:
        """What was true when, newest first: the cards of a subject, or a card with those that it
        replaced and that replaced it. What begins after `at` is left out; default: now."""
        if (subject is None) == (card is None):
            raise InputError("history takes a subject or card=, one of them.")
        on = (self._now() if at is None else as_time(at)).date()
        names = await self._names()
        if card is not None:
            one, all = await history.of_card(self._store, as_id(card, "card"), names)
            found = await asyncio.to_thread(history.entries, all, self._language, on)
            return history.linked(one, found)
        cards = await history.of_subject(self._store, as_text(subject, "subject"), names)
        return await asyncio.to_thread(history.entries, cards, self._language, on)

    async def profile(
        self, subject: str | None = None, *, tokens: int = 400, at: datetime | str | None = None
    ) -> SubjectProfile:
        """Short sourced lines about a person, what holds now first, without a model. Default: the
        person whom most cards are about."""
        on = (self._now() if at is None else as_time(at)).date()
        names = await self._names()
        who = as_text(subject, "subject") if subject is not None else await self._main_subject()
        cards = await history.of_subject(self._store, who, names)
        limit = as_count(tokens, "tokens")
        return await asyncio.to_thread(
            history.profile, names.of(who), cards, self._language, on, limit
        )

    async def _main_subject(self) -> str:
        subject = (await self._store.look()).main_subject
        if subject is None:
            raise NotInMemory("Memory is not about one person: name the subject.")
        return subject

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

    @traced("delete_memory")
    async def forget(
        self,
        *,
        card: str | None = None,
        turn: str | None = None,
        session: str | None = None,
        subject: str | None = None,
        key: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        everything: bool = False,
        turns: bool | None = None,
        verify: bool = False,
    ) -> Forgotten:
        """Forgets one card, one turn (`s12#3`), one session, the sessions of a period (both days
        included), a subject, a note by its `key`, or the whole space, on disk too. With a turn go
        the cards that rest on it; with a subject, all that `about` finds and the turns of its
        cards, unless `turns` is False; with a card its turns only if `turns` is True. What was
        forgotten on its own does not come back with its session.

        `verify` then looks for it everywhere and adds a certificate; NotForgotten if anything of
        it is left."""
        what = Target(card, turn, session, subject, since, until, everything, turns, key)
        return await self._forgetting.forget(what, verify=as_flag(verify, "verify"))

    async def preview_forget(
        self,
        *,
        card: str | None = None,
        turn: str | None = None,
        session: str | None = None,
        subject: str | None = None,
        key: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        everything: bool = False,
        turns: bool | None = None,
    ) -> Preview:
        """What `forget` would take with it. Nothing changes."""
        what = Target(card, turn, session, subject, since, until, everything, turns, key)
        preview = await self._forgetting.preview(what)
        shown = (await self._names()).cards(preview.cards)
        return preview.model_copy(update={"cards": tuple(shown)})

    async def expiring(self, *, at: datetime | str | None = None) -> Expiring:
        """What `expire` would forget at that time; default: now. Nothing is forgotten yet."""
        when = self._now() if at is None else as_time(at)
        return await expiry.expiring(self._store, self.retention, when)

    async def expire(self, *, at: datetime | str | None = None) -> Forgotten:
        """Forgets what is older than `retention` allows at that time, on disk too; default: now.
        Questions leave it out already."""
        when = self._now() if at is None else as_time(at)
        return await expiry.expire(self._store, self.retention, when, self._forgetting.expire)

    async def reembed(self) -> int:
        """Makes all vectors anew with the present embedder, and returns how many. The old ones
        serve until the new ones are complete."""
        count = await embed.reembed(self._store, self._embedder, self._language)
        self._bound.add(self._embedder.name)
        return count

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
            transfer.export(store, made=made, vectors=vectors)
            if format == "jsonl"
            else transfer.markdown(store, made=made)
        )
        async with aclosing(lines):
            async for line in lines:
                yield line

    async def load(self, file: str | Path, *, on_loaded: transfer.OnMoved | None = None) -> Loaded:
        """Takes in an export, of this or another store. The whole file is checked first: what is
        damaged, cut short or too new stores nothing, and no session that is here is replaced by
        another. Interrupted, load it again: it goes on where it was."""
        path = as_path(file)
        if on_loaded is not None and not callable(on_loaded):
            raise InputError(f"on_loaded is called as it goes on; {shown(on_loaded)} cannot be.")
        await self._bind()
        parts = self._embedder, self._language, self._redaction
        return await transfer.load(path, self._store, *parts, on_loaded)

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


async def _each(
    items: Iterable[T], do: Callable[[T], Awaitable[Remembered | None]], on_done: OnDone | None
) -> list[Remembered]:
    """All at once. The results in the order of the items."""
    if on_done is not None and not callable(on_done):
        raise InputError(f"on_done must be callable, not {shown(on_done)}.")

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
