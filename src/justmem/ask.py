"""Question -> answer, in steps: plan, evidence, reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from justmem import pending
from justmem.budget import calling
from justmem.budget.ledger import Ledger, Tally
from justmem.domain import Answer, Budget, Card, Evidence, Plan, Retention, Session, Source
from justmem.errors import BudgetExceeded, InvalidQuestion
from justmem.intake.redaction import Redaction
from justmem.intake.sessions import as_time
from justmem.plan import PlanParts, completed, supplied
from justmem.ports import (
    NOT_IN_MEMORY,
    Answerer,
    Extent,
    Language,
    Planned,
    Planner,
    Reply,
    Store,
    StreamingAnswerer,
)
from justmem.retrieve import Retrieval
from justmem.subjects.names import NO_NAMES, USER, Names, names
from justmem.text import SEGMENT, both_ends, clean
from justmem.validation import as_text

_FROM_CARDS = "The words themselves are not kept. From the cards: "
_NO_WORDS = "The words themselves are not kept, and the cards do not say."

_LONGEST_QUESTION = 100_000  # characters
_LONGEST_NAME = 200
_LEAST_ANSWER = 450  # tokens an answer call needs at the very least: planning leaves them
_NO_TIME = datetime(1, 1, 1)  # "now" in a memory that holds nothing


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, when and by whom it is asked, and the caller's plan for it, if any."""

    question: str
    at: datetime | str | None = None
    speaker: str | None = None
    plan: Plan | Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Understood:
    """The same with everything settled, its plan, and how much memory there was."""

    question: str
    at: datetime
    speaker: str | None
    plan: Plan
    extent: Extent
    waiting: Sequence[Session] = ()  # sessions whose cards are still to be made
    search: bool = True  # False: small talk, or an empty memory
    names: Names = NO_NAMES  # of the user


class Asking:
    def __init__(
        self,
        store: Store,
        planner: Planner,
        retrieval: Retrieval,
        answerer: Answerer,
        budget: Budget,
        ledger: Ledger,
        redaction: Redaction,
        retention: Retention,
        language: Language,
    ) -> None:
        self._language = language
        self._retention = retention
        self._store = store
        self._planner = planner
        self._retrieval = retrieval
        self._answerer = answerer
        self._budget = budget
        self._ledger = ledger
        self._redaction = redaction

    async def recall(self, asked: Asked) -> Evidence:
        tally = Tally()
        async with self._ledger.allow(self._budget.ask_tokens, tally) as limit:
            understood = await self._understand(asked, tally, limit)
            return await self._evidence(understood, tally)

    async def steps(
        self, asked: Asked, *, streaming: bool
    ) -> AsyncGenerator[Plan | Evidence | str | Answer]:
        """The plan, the evidence, the text (in pieces, if streaming), the answer."""
        tally = Tally()
        async with self._ledger.allow(self._budget.ask_tokens, tally) as limit:
            understood = await self._understand(asked, tally, limit, leave=_LEAST_ANSWER)
            yield understood.plan
            evidence = await self._evidence(understood, tally)
            called = understood.names
            yield evidence
            said = False
            with tally.stage("answer"):
                async with aclosing(
                    self._replying(evidence, called, tally.left(limit), streaming)
                ) as replies:
                    async for reply in replies:
                        if isinstance(reply, str):
                            said = True
                            yield reply
                        else:
                            tally.calls += reply.calls
            assert isinstance(reply, Reply)
            tally.notes += reply.notes
        if not said:
            yield reply.text
        yield Answer(
            text=reply.text,
            sufficient=reply.sufficient,
            citations=tuple(reply.citations),
            evidence=evidence,
            receipt=tally.receipt(evidence.receipt.history_tokens),
        )

    async def _understand(
        self, asked: Asked, tally: Tally, limit: int | None, *, leave: int = 0
    ) -> _Understood:
        """`leave`: tokens of the limit that planning may not touch."""
        said, speaker = checked(asked.question), _speaker(asked.speaker)
        given = supplied(asked.plan)
        question = await self._redaction.question(said)
        if question != said:
            tally.notes.append("the question was redacted")
        if len(question) > SEGMENT:
            tally.notes.append(
                f"the question is long: memory was searched for the {SEGMENT // 2:,} characters "
                "at each of its ends"
            )
        speaker = speaker and await self._redaction.name(speaker)
        extent = await self._store.extent()
        waiting = await self._store.waiting(newest=pending.MOST)
        at = as_time(asked.at) if asked.at is not None else extent.last_at or _NO_TIME
        if waiting:
            tally.notes.append(pending.told(waiting))
        elif not extent.cards and not extent.tokens:
            tally.notes.append("this memory is empty")
            return _Understood(question, at, speaker, Plan(), extent, search=False)
        if self._language.is_small_talk(question):
            tally.notes.append("small talk: memory was not searched")
            return _Understood(question, at, speaker, Plan(mode="reply"), extent, search=False)
        with tally.stage("plan"):
            if given is not None:
                given = await self._redacted(given)
                planned = Planned(
                    await asyncio.to_thread(completed, given, question, at, self._language)
                )
            else:
                planned = await self._plan(question, at, None if limit is None else limit - leave)
            # At once: whoever is cancelled from here on has paid for it.
            tally.calls += planned.calls
            plan = planned.plan
            if speaker is None and (plan.mode == "reply" or self._first_person(question)):
                speaker = await self._store.main_subject()
        tally.notes += planned.notes
        called = await names(self._store, self._language, at.date())
        return _Understood(question, at, speaker, plan, extent, waiting, names=called)

    def _first_person(self, question: str) -> bool:
        asked = both_ends(question)
        return self._language.named(asked, "X") != asked

    async def _plan(self, question: str, at: datetime, limit: int | None) -> Planned:
        try:
            return await self._planner.plan(question, at, limit=limit)
        except BudgetExceeded as error:  # the rules plan for nothing
            with calling.carrying(error.calls):
                plan = await asyncio.to_thread(self._language.plan, question, at)
            return Planned(plan, error.calls, [f"planned by rules: {error}"])

    async def _redacted(self, given: Plan | PlanParts) -> Plan | PlanParts:
        """The caller's plan without what must not be sent to a model."""
        if not self._redaction.active:
            return given
        passed = {
            name: tuple(filter(None, [await self._redaction.name(text) for text in texts]))
            for name in ("rewrites", "entities")
            if (texts := getattr(given, name)) is not None
        }
        return given.model_copy(update=passed)

    async def _evidence(self, asked: _Understood, tally: Tally) -> Evidence:
        empty = Evidence(
            question=asked.question, at=asked.at, speaker=asked.speaker, plan=asked.plan
        )
        found = empty
        if asked.search:
            found = await self._retrieval.evidence(_of_user(empty, asked.names), tally)
            found = found.model_copy(update={"plan": asked.plan})
        if asked.search and asked.waiting:
            score = max((one.score for one in found.chosen), default=0.0)
            more = await pending.turns(
                self._store, asked.waiting, asked.question, asked.at, self._retention, score
            )
            found = found.model_copy(
                update={
                    "chosen": (*found.chosen, *more),
                    "cards": (*found.cards, *(one.card for one in more)),
                }
            )
        found = asked.names.evidence(found)
        earlier = await asyncio.to_thread(self._language.superseded, found.cards, asked.at.date())
        receipt = tally.receipt(asked.extent.tokens)
        return found.model_copy(update={"earlier": tuple(sorted(earlier)), "receipt": receipt})

    async def _replying(
        self, evidence: Evidence, names: Names, limit: int | None, streaming: bool
    ) -> AsyncGenerator[str | Reply]:
        """Pieces of the text, if the answerer can stream and is to; last, the reply itself."""
        if not evidence.chosen and not evidence.sources:
            notes = ["nothing was found: no answer call was made"]
            yield Reply(NOT_IN_MEMORY, False, notes=notes)
            return
        first = True
        async with aclosing(self._replies(evidence, names, limit, streaming)) as replies:
            async for reply in replies:
                if evidence.sources_kept:
                    yield reply
                elif isinstance(reply, Reply):
                    told = _FROM_CARDS + reply.text if reply.sufficient else _NO_WORDS
                    yield replace(reply, text=told)
                else:
                    yield _FROM_CARDS + reply if first else reply
                    first = False

    async def _replies(
        self, evidence: Evidence, names: Names, limit: int | None, streaming: bool
    ) -> AsyncGenerator[str | Reply]:
        held: list[Card | Source] = [*evidence.cards, *evidence.sources]
        found = await self._store.sessions_at(list({one.session_id for one in held}))
        sessions = {id: names.session(session) for id, session in found.items()}
        if streaming and isinstance(self._answerer, StreamingAnswerer):
            async with aclosing(self._answerer.stream(evidence, sessions, limit=limit)) as pieces:
                async for piece in pieces:
                    yield piece
        else:
            yield await self._answerer.answer(evidence, sessions, limit=limit)


def _of_user(asked: Evidence, names: Names) -> Evidence:
    """As it is searched: cards have "User" where the question has the user's name."""
    if asked.speaker and names.mean(asked.speaker):
        return asked.model_copy(update={"speaker": USER})
    if not names.used_in(asked.question):
        return asked
    plan = asked.plan.model_copy(update={"entities": (*asked.plan.entities, USER)})
    return asked.model_copy(update={"plan": plan})


def _speaker(value: str | None) -> str | None:
    """One line, as in a session."""
    name = " ".join(as_text(value, "The speaker").split()) if value is not None else ""
    if len(name) > _LONGEST_NAME:
        raise InvalidQuestion(f"The speaker's name is longer than {_LONGEST_NAME} characters.")
    return name or None


def checked(question: str) -> str:
    if not isinstance(question, str) or not question.strip():
        raise InvalidQuestion("The question is empty: ask something, or pass the remark as text.")
    if len(question) > _LONGEST_QUESTION:
        raise InvalidQuestion(
            f"The question has {len(question)} characters, more than {_LONGEST_QUESTION}: "
            "`remember` long material first, then ask about it."
        )
    return clean(question).strip()
