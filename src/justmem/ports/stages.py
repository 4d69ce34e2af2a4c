"""The stages that a model or rules can do: extract, plan, answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from justmem.domain import Call, Card, Citation, Evidence, Plan, Quarantined, Session


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a session holds. `notes` name whatever was dropped, salvaged or moved."""

    cards: Sequence[Card]
    quarantined: Sequence[Quarantined] = ()
    calls: Sequence[Call] = ()
    notes: Sequence[str] = ()


class Extractor(Protocol):
    """An extractor that never spends tokens has `spends = False`. Then no limit is looked up."""

    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Extraction:
        """`limit`: tokens this stage may spend; BudgetExceeded before a call that would not fit.
        `after`: the turns up to this number have their cards. They are context; only cards that
        rest on a later turn are wanted."""
        ...


@dataclass(frozen=True, slots=True)
class Planned:
    plan: Plan
    calls: Sequence[Call] = ()
    notes: Sequence[str] = ()


class Planner(Protocol):
    """A planner that never spends tokens has `spends = False`."""

    async def plan(self, question: str, at: datetime, *, limit: int | None) -> Planned:
        """`limit` as above."""
        ...


NOT_IN_MEMORY = "That is not in memory."


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    sufficient: bool
    citations: Sequence[Citation] = ()
    calls: Sequence[Call] = ()
    notes: Sequence[str] = ()


class Answerer(Protocol):
    async def answer(
        self, evidence: Evidence, sessions: Mapping[str, Session], *, limit: int | None
    ) -> Reply:
        """`sessions` holds the raw session of every chosen card, for exact quotations; not those
        whose words are not kept."""
        ...


def spends_tokens(part: Extractor | Planner | Answerer) -> bool:
    """Whether it may spend tokens: unless it says `spends = False`."""
    return bool(getattr(part, "spends", True))
