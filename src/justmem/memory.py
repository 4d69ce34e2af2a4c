"""AsyncMemory: the method of the paper, top to bottom.

remember(session)                      ask(question)
  keep     the raw turns, first         plan      what evidence does it need?
  extract  atomic cards                 discover  question and rewrites -> candidates
  embed    cards and passages           select    the best cards within the budget
  store    in one transaction           recover   REPLAY only: the original turns
                                        answer    from that evidence only

The steps of `ask` are called here, one after the other. build.py calls those of `remember`: it also
handles limits and failures. stored_memory.py has what reads, changes and forgets what is stored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from justmem.answer import as_evidence, make_answer
from justmem.budget import Ledger, Tally
from justmem.build import Builder, OnDone, run_each
from justmem.domain import Access, Answer, Card, Evidence, Plan, Remembered, Session, SubjectProfile
from justmem.edits.notes import as_note, check_redacted, note_extraction
from justmem.errors import InputError, InvalidSession
from justmem.intake.sessions import (
    Day,
    SessionLike,
    When,
    as_filter,
    as_labels,
    as_session,
    id_from_content,
)
from justmem.memory_parts import Parts
from justmem.original_turns import MOST_WAITING, add_waiting_turns, recover
from justmem.plan import BY_RULES, CheckedPlan, GivenPlan, check_plan, make_plan
from justmem.ports import NO_FILTER, Closes, Extractor, Filter, Snapshot, Store, texts_of
from justmem.retrieve import Retrieval
from justmem.runtime.tracing import traced
from justmem.runtime.validation import (
    LONG_QUESTION,
    SEGMENT,
    as_count,
    as_flag,
    as_id,
    as_question,
    as_speaker,
    as_text,
    check_callable,
    describe,
)
from justmem.stored_memory import StoredMemory
from justmem.subjects import about
from justmem.subjects.user_name import Names, read_names

UNRELATED = "nothing in memory is relevant to this"
_ANSWER_TOKENS = 450  # that an answer call needs: planning leaves them


class AsyncMemory(StoredMemory):
    """The memory of one space. Make one with `justmem.open_async`. `close` closes the store and
    `closing`."""

    def __init__(self, store: Store, parts: Parts, closing: Sequence[Closes] = ()) -> None:
        super().__init__(store, parts)
        self.ledger = Ledger(store, parts.budget.day_tokens, parts.clock)
        self._builder = Builder(store, parts, self._redaction, self.ledger)
        self._retrieval = Retrieval(store, parts)
        self._closing = closing

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

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # ------------------------------------------------------------ remember

    @traced("upsert_memory")
    async def remember(
        self, session: SessionLike, *, at: When = None, id: str | None = None
    ) -> Remembered:
        """Stores the session's words, then makes its cards. A session is a text, a list of
        messages or a mapping with `turns`. An unchanged session costs nothing. A changed one
        replaces the old one and its cards; one with more turns at its end keeps them. `at` is
        when it took place; default: the session's own time, else now.

        If a model fails, the words are kept, the result says `failed` and why, and `retry` tries
        again."""
        given, notes = await self._given(session, at, id)
        await self._bind()
        return await self._builder.remember(given, notes)

    async def keep(
        self, session: SessionLike, *, at: When = None, id: str | None = None
    ) -> Remembered:
        """Stores the session's words and leaves its cards to a later `remember` or `retry`."""
        given, notes = await self._given(session, at, id)
        await self._bind()
        return await self._builder.keep(given, notes)

    @traced("upsert_memory")
    async def append(
        self, turns: SessionLike, *, id: str, at: When = None, cards: bool = True
    ) -> Remembered:
        """Adds turns to a session and makes cards of them. Only the new turns cost extraction;
        earlier ones are context. A turn with a `key` that the session has already is left out.
        `at` is when the turns were said, if they do not say so themselves; default: now. Labels
        replace those of the session, as with `remember`. With
        `cards=False` only the words are kept, and `retry` makes the cards."""
        session_id, cards = as_id(id, "session").strip(), as_flag(cards, "cards")
        if not session_id:
            raise InvalidSession("append needs the id of a session, and this one is empty.")
        session = as_session(turns, at=self._time(at), id=session_id)
        given, notes = await self._redaction.session(session, rename=False)
        await self._bind()
        return await self._builder.append(given, notes, cards=cards)

    async def remember_many(
        self, sessions: Iterable[SessionLike], *, on_done: OnDone | None = None
    ) -> list[Remembered]:
        """Remembers several sessions, `concurrency` of them at a time. The results have the order
        of the sessions."""
        if isinstance(sessions, str) or not isinstance(sessions, Iterable):
            raise InvalidSession(f"remember_many needs several sessions, not {describe(sessions)}.")
        given = [await self._given(session) for session in sessions]
        versions = {(session.id, session.digest) for session, _ in given}
        if twice := [id for id, n in Counter(id for id, _ in versions).items() if n > 1]:
            raise InvalidSession(
                f"Different sessions share the id {twice[0]!r}: the later one would replace the "
                "earlier one. Give each session an id of its own. Nothing was stored."
            )
        await self._bind()
        return await run_each(given, lambda each: self._builder.remember(*each), on_done)

    async def note(
        self,
        text: str,
        *,
        key: str | None = None,
        value: Any = None,
        at: When = None,
        until: When = None,
        labels: Mapping[str, str] | None = None,
    ) -> Card:
        """Stores a card exactly as given, without extraction. A note with the same `key` is
        replaced; without a key, one is made from the text. `value` is a JSON
        value, or JSON as bytes, which is stored unchanged. The note is valid from `at` (default:
        now) and expires at `until`."""
        when, now = self._time(at), self.parts.clock()
        note = as_note(text, key=key, value=value, at=when, until=until, labels=labels, now=now)
        given, changed = await self._redaction.session(note, rename=False)
        check_redacted(given)
        await self._bind()
        await self._builder.remember(given, changed)
        return note_extraction(given).cards[0]

    async def retry(self, *, on_done: OnDone | None = None) -> list[Remembered]:
        """Makes the cards of every session that is pending or failed."""
        await self._bind()
        ids = [session.id for session in await self.waiting()]
        return await self._builder.finish_each(ids, on_done)

    async def finish(self, session_id: str) -> Remembered:
        """Makes the cards of a session that is pending or failed. Turns that are appended in
        the meantime are kept."""
        await self._bind()
        return await self._builder.finish(as_id(session_id, "session"))

    async def rebuild(
        self,
        session: str | None = None,
        *,
        extractor: Extractor | None = None,
        on_done: OnDone | None = None,
    ) -> list[Remembered]:
        """Makes the cards of one session or of all sessions again, with the current extractor or
        with another one. Corrections and pins stay. The old cards are used until the new ones are
        ready. After an interruption or a failure, call it again: it continues where it stopped."""
        if extractor is not None and not callable(getattr(extractor, "extract", None)):
            raise InputError(f"extractor needs a method `extract`; {describe(extractor)} has none.")
        check_callable(on_done, "on_done")
        one = None if session is None else as_id(session, "session")
        await self._bind()
        ids = await self._store.rebuild(one)
        return await self._builder.finish_each(ids, on_done, extractor)

    async def _given(
        self, value: SessionLike, at: When = None, id: str | None = None
    ) -> tuple[Session, tuple[str, ...]]:
        """The session as it may be stored, and notes for the receipt. One without a time takes
        place now, unless it is known by its id: then it keeps its time."""
        now = self._time()
        session = as_session(value, at=at, id=id, otherwise=now)
        has_no_time = at is None and session.at == now
        has_own_id = session.id != id_from_content(session)
        if has_no_time and has_own_id:
            known = await texts_of(self._store, [session.id])
            if session.id in known:
                session = session.model_copy(update={"at": known[session.id].at})
        return await self._redaction.session(session)

    # ------------------------------------------------------------ ask

    @traced("search_memory")
    async def recall(
        self,
        question: str,
        *,
        at: When = None,
        speaker: str | None = None,
        plan: GivenPlan = None,
        limit: int | None = None,
        labels: Mapping[str, str] | None = None,
        sessions: Iterable[str] | None = None,
        since: Day = None,
        until: Day = None,
        as_of: Day = None,
    ) -> Evidence:
        """The evidence for a question, or for a remark to reply to, without the answer call.

        `at` is when it is asked; default: now. "Last week" is relative to `at`, and later sessions
        are left out. `speaker` is who asks: "my" then means this person. Default: the person whom
        most cards are about, if there is one. `plan` is a Plan, or a mapping with some of its
        parts, such as `{"rewrites": ["Mira adopted a dog"], "period": "2023-05"}`. Rules fill in
        the rest, without a model.

        The rest are filters. `limit`: at most this many cards. `labels`: only sessions and notes
        with all these labels. `sessions`: only these ids. `since` and `until`: only what was said
        on these days and between them. `as_of`: memory as it was on that day."""
        if labels is not None:
            labels = await self._redaction.labels(as_labels(labels))
        where = await as_filter(self._store, limit, labels, sessions, since, until, as_of)
        await self._bind()
        given, tally = await self._redaction.plan(check_plan(plan)), Tally()
        async with self.ledger.allow(self.parts.budget.ask_tokens, tally) as allowed:
            asked = await self._question(question, self._time(at), speaker, tally)
            names = await read_names(self._store, self.parts.language, asked.at.date())
            return await self._evidence(asked, given, where, names, tally, allowed)

    @traced("search_memory")
    async def ask(
        self, question: str, *, at: When = None, speaker: str | None = None, plan: GivenPlan = None
    ) -> Answer:
        """An answer from memory alone, with the exact words that support it. `at`, `speaker` and
        `plan` are as for `recall`. A remark, which is not a question, gets a reply that uses
        memory."""
        await self._bind()
        given, tally = await self._redaction.plan(check_plan(plan)), Tally()
        async with self.ledger.allow(self.parts.budget.ask_tokens, tally) as allowed:
            for_plan = None if allowed is None else allowed - _ANSWER_TOKENS
            asked = await self._question(question, self._time(at), speaker, tally)
            names = await read_names(self._store, self.parts.language, asked.at.date())
            evidence = await self._evidence(asked, given, NO_FILTER, names, tally, for_plan)
            return await make_answer(self._store, self.parts, evidence, names, tally, allowed)

    async def answer(self, evidence: Evidence) -> Answer:
        """Answers from what `recall` returned. `ask` does both. The receipt counts only the answer
        call, not what `recall` spent."""
        if not isinstance(evidence, Evidence):
            raise InputError(f"evidence must be what `recall` returned, not {describe(evidence)}.")
        await self._bind()
        tally = Tally()
        async with self.ledger.allow(self.parts.budget.ask_tokens, tally) as allowed:
            names = await read_names(self._store, self.parts.language, evidence.at.date())
            return await make_answer(self._store, self.parts, evidence, names, tally, allowed)

    async def profile(
        self,
        subject: str | None = None,
        *,
        tokens: int = 400,
        at: When = None,
        prose: bool = False,
    ) -> SubjectProfile:
        """Short lines about a person with their sources, current facts first, without a model.
        Default: the person whom most cards are about. With `prose`, one call of the answering
        model writes the lines as a text."""
        who = None if subject is None else as_text(subject, "subject")
        when, limit = self._time(at), as_count(tokens, "tokens")
        found = await about.profile(self._store, self.parts.language, who, when.date(), limit)
        if not as_flag(prose, "prose"):
            return found
        if self.parts.answerer is None:
            raise InputError(
                "A profile in prose needs a language model: set model, or leave prose out."
            )
        answer = await self.answer(as_evidence(found, when))
        return found.model_copy(update={"text": answer.text, "receipt": answer.receipt})

    async def _question(
        self, question: str, at: datetime, speaker: str | None, tally: Tally
    ) -> Evidence:
        """The question and the speaker, checked and redacted."""
        text, name = as_question(question), as_speaker(speaker)
        redacted = await self._redaction.question(text)
        if redacted != text:
            tally.notes.append("the question was redacted")
        if len(redacted) > SEGMENT:
            tally.notes.append(LONG_QUESTION)
        return Evidence(question=redacted, at=at, speaker=name and await self._redaction.name(name))

    async def _evidence(
        self,
        asked: Evidence,
        given: CheckedPlan,
        where: Filter,
        names: Names,
        tally: Tally,
        token_limit: int | None,
    ) -> Evidence:
        """Plans, discovers, selects and recovers. Then adds turns of waiting sessions. The plan may
        spend `token_limit`."""
        where = where.at(asked.at, self.parts.retention.first_day(asked.at))
        # Read before the cards: a session that gets its cards meanwhile is found either way.
        memory = await self._store.look(waiting=MOST_WAITING)
        tally.history_tokens = memory.tokens
        by_planner = given is None and self.parts.planner is not None
        ended = self._needs_no_search(asked, memory, tally)
        if ended is None and by_planner:
            ended = await self._needs_no_planner(asked, memory, where, names, tally)
        if ended is not None:
            return ended.model_copy(update={"receipt": tally.receipt()})
        asked = await make_plan(asked, given, self.parts, memory.main_subject, tally, token_limit)
        search = names.for_search(asked)
        pool = await self._retrieval.discover(search, where, tally)
        described = await self._described(search, where, names)
        found = search
        if described or self._retrieval.is_relevant(search, pool):
            found = await self._retrieval.select(search, pool, tally, where, also=described)
            if found.access is Access.REPLAY:
                found = await recover(self._store, self.parts, found, pool.views, where, tally)
        if memory.waiting:
            found = await add_waiting_turns(found, memory.waiting, where, tally)
        if not found.cards:
            tally.notes.append(UNRELATED)
        found = await self._finish(found, asked.plan, memory, where, names)
        return found.model_copy(update={"receipt": tally.receipt()})

    def _needs_no_search(self, asked: Evidence, memory: Snapshot, tally: Tally) -> Evidence | None:
        """The evidence, if the memory is empty or the question is small talk."""
        if not memory.cards and not memory.tokens and not memory.waiting:
            tally.notes.append("this memory is empty")
            return asked
        if self.parts.language.is_small_talk(asked.question):
            tally.notes.append("small talk: memory was not searched")
            return asked.model_copy(update={"plan": Plan(operation="reply")})
        return None

    async def _needs_no_planner(
        self, asked: Evidence, memory: Snapshot, where: Filter, names: Names, tally: Tally
    ) -> Evidence | None:
        """The evidence, if memory holds nothing about the question: then the planner is not called.
        Discovery finds that out with a plan by rules. For a relevant question it runs again, with
        the planner's plan."""
        if memory.waiting or self._retrieval.relevance_bound is None:
            return None
        ruled = await make_plan(asked, BY_RULES, self.parts, memory.main_subject, tally, None)
        search = names.for_search(ruled)
        pool = await self._retrieval.discover(search, where, tally)
        if self._retrieval.is_relevant(search, pool) or await self._described(search, where, names):
            return None
        tally.notes.append(UNRELATED)
        return await self._finish(search, ruled.plan, memory, where, names)

    async def _finish(
        self, found: Evidence, plan: Plan, memory: Snapshot, where: Filter, names: Names
    ) -> Evidence:
        """Adds the pinned cards, the user's name, and the ids of the cards that no longer hold.
        `plan`: the plan without the name that was added for the search."""
        if memory.corrections:
            found = await self._retrieval.add_pinned(found, memory.corrections, where)
        found = names.shown(found.model_copy(update={"plan": plan}))
        superseded = self.parts.language.superseded
        earlier = await asyncio.to_thread(superseded, found.cards, where.as_of)
        return found.model_copy(update={"earlier": tuple(sorted(earlier))})

    async def _described(self, asked: Evidence, where: Filter, names: Names) -> tuple[Card, ...]:
        """The cards for a question such as "Who is Ines?" The paper has no such step."""
        if self.parts.profile.is_paper:
            return ()
        language = self.parts.language
        return await about.profile_asked(self._store, language, names, asked, where)
