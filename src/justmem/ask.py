"""Asker: from a question to its answer. Plan, discover, select, recover, answer: one stage each."""

from __future__ import annotations

import asyncio
from datetime import datetime

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
from justmem.plan import GivenPlan, PlanParts, check_plan, make_plan
from justmem.ports import NO_FILTER, NOT_IN_MEMORY, Filter, Reply, Snapshot, Store, texts_of
from justmem.recover import MOST_PENDING, add_pending_turns, recover
from justmem.retrieve import Retrieval
from justmem.runtime.validation import LONG_QUESTION, SEGMENT, as_question, as_speaker, both_ends
from justmem.subjects.about import profile_asked
from justmem.subjects.user_name import Names, read_names

UNRELATED = "nothing in memory is relevant to this"
_ANSWER_TOKENS = 450  # that an answer call needs: planning leaves them
_FROM_CARDS = "The words themselves are not kept. From the cards: "
_NOT_IN_CARDS = "The words themselves are not kept, and the cards do not say."


class Asker:
    def __init__(self, store: Store, parts: Parts, redaction: Redaction, ledger: Ledger) -> None:
        self._store = store
        self._parts = parts
        self._language = parts.language
        self._redaction = redaction
        self._ledger = ledger
        self._retrieval = Retrieval(store, parts)

    async def recall(
        self, question: str, at: datetime, speaker: str | None, given: GivenPlan, where: Filter
    ) -> Evidence:
        plan, tally = check_plan(given), Tally()
        async with self._ledger.allow(self._parts.budget.ask_tokens, tally) as limit:
            asked = await self._understand(question, at, speaker, tally)
            names = await read_names(self._store, self._language, at.date())
            return await self._find(asked, plan, where, names, tally, limit)

    async def ask(
        self, question: str, at: datetime, speaker: str | None, given: GivenPlan
    ) -> Answer:
        plan, tally = check_plan(given), Tally()
        async with self._ledger.allow(self._parts.budget.ask_tokens, tally) as limit:
            left = None if limit is None else limit - _ANSWER_TOKENS
            asked = await self._understand(question, at, speaker, tally)
            names = await read_names(self._store, self._language, at.date())
            evidence = await self._find(asked, plan, NO_FILTER, names, tally, left)
            return await self._answer(evidence, names, tally, limit)

    async def answer(self, evidence: Evidence) -> Answer:
        """The answer call alone, from evidence that was retrieved before."""
        tally = Tally()
        async with self._ledger.allow(self._parts.budget.ask_tokens, tally) as limit:
            names = await read_names(self._store, self._language, evidence.at.date())
            return await self._answer(evidence, names, tally, limit)

    async def write_profile(self, profile: SubjectProfile, at: datetime) -> SubjectProfile:
        """The profile as prose, by one answer call that reads its cards."""
        if self._parts.answerer is None:
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

    # ------------------------------------------------------------ the evidence

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

    async def _find(
        self,
        asked: Evidence,
        given: Plan | PlanParts | None,
        where: Filter,
        names: Names,
        tally: Tally,
        limit: int | None,
    ) -> Evidence:
        """The evidence for a question. `limit`: tokens that the plan may spend."""
        where = where.at(asked.at, self._parts.retention.first_day(asked.at))
        # Read before the cards: a session that gets its cards meanwhile is found either way.
        memory = await self._store.look(waiting=MOST_PENDING)
        tally.history_tokens = memory.tokens
        if not memory.cards and not memory.tokens and not memory.waiting:
            tally.notes.append("this memory is empty")
        elif self._language.is_small_talk(asked.question):
            tally.notes.append("small talk: memory was not searched")
            asked = asked.model_copy(update={"plan": Plan(operation="reply")})
        elif given is None and (ruled := await self._unrelated(asked, memory, where, names, tally)):
            tally.notes.append(UNRELATED)
            asked = ruled
        else:
            asked = await self._plan(asked, given, memory, tally, limit)
            asked = await self._retrieve(asked, memory, where, names, tally)
        return asked.model_copy(update={"receipt": tally.receipt()})

    async def _unrelated(
        self, asked: Evidence, memory: Snapshot, where: Filter, names: Names, tally: Tally
    ) -> Evidence | None:
        """The question with a plan by rules, if memory holds nothing about it: then no model need
        plan it."""
        if memory.waiting or self._parts.planner is None:
            return None
        ruled = await self._plan(asked, PlanParts(), memory, tally, None)
        search = names.for_search(ruled)
        if await self._retrieval.finds_something(search, where, tally):
            return None
        return None if await self._profile(search, where, names) else ruled

    async def _plan(
        self,
        asked: Evidence,
        given: Plan | PlanParts | None,
        memory: Snapshot,
        tally: Tally,
        limit: int | None,
    ) -> Evidence:
        """Adds the plan, and the speaker if the question is in the first person."""
        with tally.stage("plan"):
            if given is not None:
                given = await self._redaction.plan(given)
            found = await make_plan(asked, given, self._parts.planner, self._language, limit)
            tally.calls += found.calls  # at once: a caller who is cancelled has paid for them
            speaker = asked.speaker
            if speaker is None:
                text = both_ends(asked.question)
                personal = self._language.name_speaker(text, "X") != text
                if personal or found.plan.operation == "reply":
                    speaker = memory.main_subject
        tally.notes += found.notes
        return asked.model_copy(update={"plan": found.plan, "speaker": speaker})

    async def _retrieve(
        self, asked: Evidence, memory: Snapshot, where: Filter, names: Names, tally: Tally
    ) -> Evidence:
        """Discovers, selects, recovers. Then adds turns of sessions without cards, and pinned
        cards."""
        found = names.for_search(asked)
        pool = await self._retrieval.discover(found, where, tally)
        profile = await self._profile(found, where, names)
        if profile or self._retrieval.is_relevant(found, pool):
            found = await self._retrieval.select(found, pool, tally, where, also=profile)
            if found.plan.access is Access.REPLAY:
                found = await recover(self._store, self._parts, found, pool.views, where, tally)
        else:
            tally.notes.append(UNRELATED)
        if memory.waiting:
            found = await add_pending_turns(found, memory.waiting, where, tally)
        if memory.corrections:
            text = pool.views[0].text
            found = await self._retrieval.add_pinned(found, text, memory.corrections, where)
        found = names.shown(found.model_copy(update={"plan": asked.plan}))
        superseded = self._language.superseded
        earlier = await asyncio.to_thread(superseded, found.cards, where.as_of)
        return found.model_copy(update={"earlier": tuple(sorted(earlier))})

    async def _profile(self, asked: Evidence, where: Filter, names: Names) -> tuple[Card, ...]:
        if self._parts.profile.is_paper:
            return ()
        return await profile_asked(self._store, self._language, names, asked, where)

    # ------------------------------------------------------------ the answer

    async def _answer(
        self, evidence: Evidence, names: Names, tally: Tally, limit: int | None
    ) -> Answer:
        sessions = await self._sessions_of(evidence, names)
        with tally.stage("answer"):
            if not evidence.chosen and not evidence.sources:
                notes = ["nothing was found: no answer call was made"]
                reply = Reply(NOT_IN_MEMORY, False, notes=notes)
            elif self._parts.answerer is None:
                reply = await asyncio.to_thread(self._language.answer, evidence, sessions)
            else:
                left = tally.left(limit)
                reply = await self._parts.answerer.answer(evidence, sessions, limit=left)
            tally.calls += reply.calls
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
        found = await texts_of(self._store, list({one.session_id for one in held}))
        changed = {  # since the cards were read
            card.session_id
            for card in evidence.cards
            if card.session_id in found and max(card.turns) > len(found[card.session_id].turns)
        }
        return {id: names.shown(each) for id, each in found.items() if id not in changed}
