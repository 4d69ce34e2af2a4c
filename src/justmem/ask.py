"""Asker: from a question to its answer. Plan, discover, select, recover, answer: one stage each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Any

from justmem.budget.ledger import Ledger, Tally
from justmem.discover import Discovery
from justmem.domain import (
    Access,
    Answer,
    Candidate,
    Card,
    Evidence,
    Plan,
    Session,
    Source,
    SubjectProfile,
)
from justmem.errors import InputError
from justmem.intake.redaction import Redaction
from justmem.parts import Parts
from justmem.plan import PlanParts, check_plan, make_plan
from justmem.ports import (
    NO_FILTER,
    NOT_IN_MEMORY,
    Filter,
    Reply,
    Snapshot,
    Store,
    StreamingAnswerer,
    spends_tokens,
)
from justmem.recover import MOST_PENDING, Recovery
from justmem.runtime.text import SEGMENT, both_ends
from justmem.runtime.validation import LONG_QUESTION, as_question, as_speaker
from justmem.select import Selection
from justmem.subjects.history import profile_asked
from justmem.subjects.user_name import Names, read_names

Step = Plan | Evidence | str | Answer
GivenPlan = Plan | Mapping[str, Any] | None

UNRELATED = "nothing in memory is relevant to this"
_ANSWER_TOKENS = 450  # that an answer call needs: planning leaves them
_FROM_CARDS = "The words themselves are not kept. From the cards: "
_NOT_IN_CARDS = "The words themselves are not kept, and the cards do not say."


class Asker:
    def __init__(self, store: Store, parts: Parts, redaction: Redaction, ledger: Ledger) -> None:
        self._store = store
        self._redaction = redaction
        self._ledger = ledger
        self._language = parts.language
        self._budget = parts.budget
        self._retention = parts.retention
        self._planner = parts.planner
        self._is_paper = parts.profile.is_paper
        self._discovery = Discovery(store, parts)
        self._selection = Selection(store, parts)
        self._recovery = Recovery(store, parts)
        self._answerer = parts.answerer

    async def steps(
        self,
        question: str,
        at: datetime,
        speaker: str | None,
        given: GivenPlan,
        *,
        answer: bool = True,
        streaming: bool = False,
        where: Filter = NO_FILTER,
    ) -> AsyncGenerator[Step]:
        """The plan, the evidence, the text (in pieces, if streaming), the answer."""
        plan, tally = check_plan(given), Tally()
        async with self._ledger.allow(self._budget.ask_tokens, tally) as tokens:
            asked = await self._understand(question, at, speaker, tally)
            # Read before the cards: a session that gets its cards meanwhile is found either way.
            memory = await self._store.look(waiting=MOST_PENDING)
            tally.history_tokens = memory.tokens
            names = await read_names(self._store, self._language, at.date())
            found = await self._without_search(asked, plan, memory, names, tally)
            if found is None:
                left = tokens - _ANSWER_TOKENS if answer and tokens is not None else tokens
                asked = await self._plan(asked, plan, memory, tally, left)
                yield asked.plan
                found = await self._retrieve(asked, memory, names, tally, where)
            else:
                yield found.plan
            evidence = found.model_copy(update={"receipt": tally.receipt()})
            yield evidence
            if not answer:
                return
            steps = self._answer(evidence, names, tally, tokens, streaming=streaming)
            async with aclosing(steps):
                async for step in steps:
                    yield step

    async def recall(
        self, question: str, at: datetime, speaker: str | None, given: GivenPlan, where: Filter
    ) -> Evidence:
        steps = self.steps(question, at, speaker, given, answer=False, where=where)
        evidence = await _last(steps)
        assert isinstance(evidence, Evidence)
        return evidence

    async def ask(
        self, question: str, at: datetime, speaker: str | None, given: GivenPlan
    ) -> Answer:
        answer = await _last(self.steps(question, at, speaker, given))
        assert isinstance(answer, Answer)
        return answer

    async def answer(self, evidence: Evidence) -> Answer:
        """The answer call alone, from evidence that was retrieved before."""
        tally = Tally()
        async with self._ledger.allow(self._budget.ask_tokens, tally) as limit:
            names = await read_names(self._store, self._language, evidence.at.date())
            answer = await _last(self._answer(evidence, names, tally, limit))
        assert isinstance(answer, Answer)
        return answer

    async def write_profile(self, profile: SubjectProfile, at: datetime) -> SubjectProfile:
        """The profile as prose, by one answer call that reads its cards."""
        if not spends_tokens(self._answerer):
            raise InputError(
                "A profile in prose needs a language model: set model, or leave prose out."
            )
        evidence = Evidence(
            question=f"Describe {profile.subject} in a few sentences: who they are and what is "
            "true of them now.",
            at=at,
            chosen=tuple(Candidate(card=card) for card in profile.cards),
            cards=profile.cards,
        )
        answer = await self.answer(evidence)
        return profile.model_copy(update={"text": answer.text, "receipt": answer.receipt})

    async def _understand(
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

    async def _without_search(
        self,
        asked: Evidence,
        given: Plan | PlanParts | None,
        memory: Snapshot,
        names: Names,
        tally: Tally,
    ) -> Evidence | None:
        """The question with its plan and no evidence, if memory need not be searched for it. None
        if it must be searched."""
        if not memory.cards and not memory.tokens and not memory.waiting:
            tally.notes.append("this memory is empty")
            return asked
        if self._language.is_small_talk(asked.question):
            tally.notes.append("small talk: memory was not searched")
            return asked.model_copy(update={"plan": Plan(operation="reply")})
        if given is not None or memory.waiting or not spends_tokens(self._planner):
            return None
        # A model need not plan a question that memory holds nothing about.
        ruled = await self._plan(asked, PlanParts(), memory, tally, None)
        search = names.for_search(ruled)
        if await self._discovery.finds_something(search, tally):
            return None
        if await self._profile(search, names, NO_FILTER):
            return None
        tally.notes.append(UNRELATED)
        return ruled

    async def _plan(
        self,
        asked: Evidence,
        given: Plan | PlanParts | None,
        memory: Snapshot,
        tally: Tally,
        limit: int | None,
    ) -> Evidence:
        """Adds the plan, and the speaker if the question is in the first person."""
        speaker = asked.speaker
        with tally.stage("plan"):
            if given is not None:
                given = await self._redaction.plan(given)
            found = await make_plan(
                asked.question, asked.at, given, self._planner, self._language, limit=limit
            )
            tally.calls += found.calls  # at once: a caller who is cancelled has paid for them
            if speaker is None and (found.plan.operation == "reply" or self._first_person(asked)):
                speaker = memory.main_subject
        tally.notes += found.notes
        return asked.model_copy(update={"plan": found.plan, "speaker": speaker})

    def _first_person(self, asked: Evidence) -> bool:
        text = both_ends(asked.question)
        return self._language.name_speaker(text, "X") != text

    async def _retrieve(
        self, asked: Evidence, memory: Snapshot, names: Names, tally: Tally, where: Filter
    ) -> Evidence:
        """Discovers, selects, recovers. Then adds turns of sessions without cards, and pinned
        cards."""
        found = names.for_search(asked)
        pool = await self._discovery.discover(found, tally, where)
        profile = await self._profile(found, names, where)
        if profile or self._discovery.is_relevant(found, pool):
            found = await self._selection.select(found, pool, tally, where, also=profile)
            if found.plan.access is Access.REPLAY:
                found = await self._recovery.recover(found, pool.views, tally, where)
        else:
            tally.notes.append(UNRELATED)
        found = await self._recovery.add_pending_turns(found, memory.waiting, tally, where)
        found = await self._selection.add_pinned(found, where)
        found = names.evidence(found.model_copy(update={"plan": asked.plan}))
        earlier = await asyncio.to_thread(
            self._language.superseded, found.cards, where.as_of or asked.at.date()
        )
        return found.model_copy(update={"earlier": tuple(sorted(earlier))})

    async def _profile(self, asked: Evidence, names: Names, where: Filter) -> tuple[Card, ...]:
        if self._is_paper:
            return ()
        parts = self._store, self._language, names, self._retention
        return await profile_asked(*parts, asked, where)

    async def _answer(
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
            pieces = self._reply(evidence, sessions, tally.left(limit), streaming)
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

    async def _reply(
        self,
        evidence: Evidence,
        sessions: Mapping[str, Session],
        limit: int | None,
        streaming: bool,
    ) -> AsyncGenerator[str | Reply]:
        """Pieces of the text, if it is streamed and the answerer can stream. Then the whole
        reply."""
        answerer = self._answerer
        if not evidence.chosen and not evidence.sources:
            notes = ["nothing was found: no answer call was made"]
            yield Reply(NOT_IN_MEMORY, False, notes=notes)
            return
        if not streaming or not isinstance(answerer, StreamingAnswerer):
            reply = await answerer.answer(evidence, sessions, limit=limit)
            yield _note_missing_words(reply, evidence)
            return
        first = True
        async with aclosing(answerer.stream(evidence, sessions, limit=limit)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    yield _note_missing_words(piece, evidence)
                else:
                    yield _FROM_CARDS + piece if first and not evidence.sources_kept else piece
                    first = False

    async def _sessions_of(self, evidence: Evidence, names: Names) -> dict[str, Session]:
        held: list[Card | Source] = [*evidence.cards, *evidence.sources]
        found = dict(await self._store.texts(list({one.session_id for one in held})))
        # Turns that were appended since the cards were made are only in the newest text.
        grown = [
            card.session_id
            for card in evidence.cards
            if card.session_id in found and max(card.turns) > len(found[card.session_id].turns)
        ]
        found |= await self._store.texts(grown, newest=True) if grown else {}
        return {id: names.session(session) for id, session in found.items()}


def _note_missing_words(reply: Reply, evidence: Evidence) -> Reply:
    """The reply, with a note if the question needs exact words that are not kept."""
    if evidence.sources_kept:
        return reply
    return replace(reply, text=_FROM_CARDS + reply.text if reply.sufficient else _NOT_IN_CARDS)


async def _last(steps: AsyncGenerator[Step] | AsyncGenerator[str | Answer]) -> Step:
    async with aclosing(steps):
        *_, last = [step async for step in steps]
    return last
