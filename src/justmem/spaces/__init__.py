"""The memories of many users in one process, with one set of models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import numpy as np

from justmem import rank
from justmem.config import Settings, load, providers
from justmem.config.opening import build_parts, closable_parts, spaces_of
from justmem.domain import (
    Budget,
    Candidate,
    Card,
    Evidence,
    Plan,
    Profile,
    Receipt,
    Remembered,
    SpaceCard,
    SpacesEvidence,
)
from justmem.errors import InputError
from justmem.intake.sessions import SessionLike
from justmem.language.words import content_stems, overlap
from justmem.rank import Scores
from justmem.runtime.validation import describe
from justmem.spaces.opened import Background, OnDone, OnError, OpenSpaces


class Spaces(OpenSpaces):
    """`settings` are those of `justmem.open`, or Settings that were read already. At most
    `most_open` spaces stay open, those that were used last. `on_error(space, session_id, error)` is
    called if cards could not be made in the background; without it the error is logged.
    `on_done(remembered)` is called with each result. `create`: whether `use` makes a space that is
    not there, unless told otherwise.

    async with Spaces(folder="memory") as spaces:
        async with spaces.use("ana") as memory:
            evidence = await memory.recall("Where do I live?")
        await spaces.append("ana", [{"role": "user", "content": "I live in Graz."}], id="chat-1")
    """

    def __init__(
        self,
        loaded: Settings | None = None,
        *,
        most_open: int = 100,
        idle_seconds: float = 300.0,
        create: bool = True,
        on_error: OnError | None = None,
        on_done: OnDone | None = None,
        clock: Callable[[], datetime] | None = None,
        report: providers.Report | None = None,
        **settings: Any,
    ) -> None:
        found = loaded or load(**settings)
        parts = build_parts(found, clock=clock, report=report)
        super().__init__(
            spaces_of(found), parts, most_open=most_open, idle_seconds=idle_seconds, create=create
        )
        self._closable = closable_parts(found, parts)
        self.background = Background(self, found.concurrency, on_error, on_done)
        self._sweeping: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ words now, cards later

    async def remember(
        self,
        space: str,
        session: SessionLike,
        *,
        at: datetime | str | None = None,
        id: str | None = None,
    ) -> Remembered:
        """As `Memory.remember`, but returns when the words are stored. The cards are made in the
        background."""
        async with self.use(space) as memory:
            kept = await memory.keep(session, at=at, id=id)
        if not kept.state.settled:
            self.background.add(space, kept.session_id)
        return kept

    async def append(
        self, space: str, turns: SessionLike, *, id: str, at: datetime | str | None = None
    ) -> Remembered:
        """As `Memory.append`, but returns when the turns are stored. The cards are made in the
        background."""
        async with self.use(space) as memory:
            kept = await memory.append(turns, id=id, at=at, cards=False)
        if not kept.state.settled:
            self.background.add(space, kept.session_id)
        return kept

    async def drain(self) -> None:
        """Waits until the cards of all stored sessions are made."""
        await self.background.drain()

    # ------------------------------------------------------------ several at once

    async def recall(
        self,
        question: str,
        spaces: Sequence[str],
        *,
        at: datetime | str | None = None,
        speaker: str | None = None,
        plan: Plan | Mapping[str, Any] | None = None,
    ) -> SpacesEvidence:
        """The evidence of several spaces in one ranking, each card with its space. NotInMemory if
        one of them is not there."""
        names = list(dict.fromkeys(spaces)) if not isinstance(spaces, str) else []
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(f"spaces must be a list of names of spaces, not {describe(spaces)}.")
        found = {}
        for name in names:  # one after another: they share the processor and the models
            async with self.use(name, create=False) as memory:
                found[name] = await memory.recall(question, at=at, speaker=speaker, plan=plan)
        return merged(found, self.parts.budget, self.parts.profile)

    # ------------------------------------------------------------ opening and closing

    async def close(self) -> None:
        """Waits for cards that are being made, then closes every space and the models."""
        await self.background.drain()
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
        await super().close()
        for part in self._closable:
            await part.close()

    async def __aenter__(self) -> Self:
        self._sweeping = asyncio.create_task(self.sweep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def merged(found: Mapping[str, Evidence], budget: Budget, profile: Profile) -> SpacesEvidence:
    """The candidates of all spaces are scored together, with the weights of the profile: scores of
    one space are relative to its own candidates and cannot be compared."""
    first = next(iter(found.values()))
    all = [(space, one) for space, evidence in found.items() for one in _candidates(evidence)]
    chosen: list[int] = []
    scores = np.zeros(0, np.float32)
    if all:
        # Sessions of two spaces may have the same id.
        cards = [
            one.card.model_copy(update={"session_id": f"{space}\0{one.card.session_id}"})
            for space, one in all
        ]
        scores = _scores(first, [one for _, one in all], cards, profile)
        chosen = rank.places(scores, cards, budget.cards, profile.weights.session)
    earlier = {(space, id) for space, evidence in found.items() for id in evidence.earlier}
    return SpacesEvidence(
        question=first.question,
        at=max(evidence.at for evidence in found.values()),
        cards=tuple(
            SpaceCard(
                space=space,
                card=one.card,
                score=float(scores[i]),
                earlier=(space, one.card.id) in earlier,
            )
            for i in chosen
            for space, one in [all[i]]
        ),
        receipt=_summed([evidence.receipt for evidence in found.values()]),
    )


def _candidates(evidence: Evidence) -> list[Candidate]:
    """Turns of sessions whose cards are not made yet are chosen without being candidates."""
    known = {one.card.id: one for one in (*evidence.chosen, *evidence.candidates)}
    return list(known.values())


def _scores(
    asked: Evidence, candidates: list[Candidate], cards: list[Card], profile: Profile
) -> Scores:
    wanted = set(content_stems(asked.question))
    near = np.array([[one.scores.get("cosine", 0.0) for one in candidates]], np.float32)
    shared = np.array([[overlap(wanted, content_stems(card.text)) for card in cards]], np.float32)
    signals = {
        "dense": rank.averaged(near),
        "lexical": rank.averaged(shared),
        "subject": rank.names_subject(cards, [asked.question]),
        "date": rank.in_period(cards, asked.plan.period),
    }
    return rank.scored(signals, profile.weights)


def _summed(receipts: list[Receipt]) -> Receipt:
    return Receipt(
        calls=tuple(call for one in receipts for call in one.calls),
        embedding=tuple(usage for one in receipts for usage in one.embedding),
        reranking=tuple(usage for one in receipts for usage in one.reranking),
        history_tokens=sum(one.history_tokens for one in receipts),
        notes=tuple(dict.fromkeys(note for one in receipts for note in one.notes)),
    )
