"""Asker: from a question to its answer. Plan, discover, select, recover, answer: one stage each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from justmem.budget import Ledger, Tally
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
    spends_tokens,
)
from justmem.recover import MOST_PENDING, Recovery
from justmem.retrieve import Retrieval
from justmem.runtime.validation import LONG_QUESTION, SEGMENT, as_question, as_speaker, both_ends
from justmem.subjects.about import profile_asked
from justmem.subjects.user_name import Names, read_names

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
        self._retrieval = Retrieval(store, parts)
        self._recovery = Recovery(store, parts)
        self._answerer = parts.answerer

    async def recall(
        self, question: str, at: datetime, speaker: str | None, given: GivenPlan, where: Filter
    ) -> Evidence:
        plan, tally = check_plan(given), Tally()
        async with self._ledger.allow(self._budget.ask_tokens, tally) as limit:
            evidence, _ = await self._find(question, at, speaker, plan, where, tally, limit)
            return evidence

    async def ask(
        self, question: str, at: datetime, speaker: str | None, given: GivenPlan
    ) -> Answer:
        plan, tally = check_plan(given), Tally()
        async with self._ledger.allow(self._budget.ask_tokens, tally) as limit:
            left = None if limit is None else limit - _ANSWER_TOKENS
            evidence, names = await self._find(question, at, speaker, plan, NO_FILTER, tally, left)
            return await self._answer(evidence, names, tally, limit)

    async def answer(self, evidence: Evidence) -> Answer:
        """The answer call alone, from evidence that was retrieved before."""
        tally = Tally()
        async with self._ledger.allow(self._budget.ask_tokens, tally) as limit:
            names = await read_names(self._store, self._language, evidence.at.date())
            return await self._answer(evidence, names, tally, limit)

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

    async def _find(
        self,
        question: str,
        at: datetime,
        speaker: str | None,
        given: Plan | PlanParts | None,
        where: Filter,
        tally: Tally,
        limit: int | None,
    ) -> tuple[Evidence, Names]:
        """The evidence for a question. `limit`: tokens that the plan may spend."""
        asked = await self._understand(question, at, speaker, tally)
        # Read before the cards: a session that gets its cards meanwhile is found either way.
        memory = await self._store.look(waiting=MOST_PENDING)
        tally.history_tokens = memory.tokens
        names = await read_names(self._store, self._language, at.date())
        found = await self._without_search(asked, given, memory, names, tally)
        if found is None:
            planned = await self._plan(asked, given, memory, tally, limit)
            found = await self._retrieve(planned, memory, names, tally, where)
        return found.model_copy(update={"receipt": tally.receipt()}), names

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
        if await self._retrieval.finds_something(search, tally):
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
        pool = await self._retrieval.discover(found, tally, where)
        profile = await self._profile(found, names, where)
        if profile or self._retrieval.is_relevant(found, pool):
            found = await self._retrieval.select(found, pool, tally, where, also=profile)
            if found.plan.access is Access.REPLAY:
                found = await self._recovery.recover(found, pool.views, tally, where)
        else:
            tally.notes.append(UNRELATED)
        found = await self._recovery.add_pending_turns(found, memory.waiting, tally, where)
        found = await self._retrieval.add_pinned(found, memory.corrections, where)
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
        self, evidence: Evidence, names: Names, tally: Tally, limit: int | None
    ) -> Answer:
        sessions = await self._sessions_of(evidence, names)
        with tally.stage("answer"):
            if evidence.chosen or evidence.sources:
                left = tally.left(limit)
                reply = await self._answerer.answer(evidence, sessions, limit=left)
                tally.calls += reply.calls
            else:
                notes = ["nothing was found: no answer call was made"]
                reply = Reply(NOT_IN_MEMORY, False, notes=notes)
        tally.notes += reply.notes
        text = reply.text
        if not evidence.sources_kept:
            text = _FROM_CARDS + text if reply.sufficient else _NOT_IN_CARDS
        return Answer(
            text=text,
            sufficient=reply.sufficient,
            citations=tuple(reply.citations),
            evidence=evidence,
            receipt=tally.receipt(),
        )

    async def _sessions_of(self, evidence: Evidence, names: Names) -> dict[str, Session]:
        held: list[Card | Source] = [*evidence.cards, *evidence.sources]
        found = await self._store.texts(list({one.session_id for one in held}))
        changed = {  # since the cards were read
            card.session_id
            for card in evidence.cards
            if card.session_id in found and max(card.turns) > len(found[card.session_id].turns)
        }
        return {id: names.session(each) for id, each in found.items() if id not in changed}
