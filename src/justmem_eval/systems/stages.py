"""Stages for measuring: cards and plans read from a recording, access forced by a switch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from justmem.domain import Plan, Session
from justmem.extract.drafts import check, read_draft
from justmem.language.languages import LANGUAGES
from justmem.plan import read_period
from justmem.ports import Extraction, Planned, Planner
from justmem_eval.benchmarks.recorded import CardRows


class RecordedExtractor:
    """Cards as a model wrote them, checked as a model's cards always are."""

    def __init__(self, cards: Mapping[str, CardRows]) -> None:
        self._cards = cards

    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Extraction:
        rows = self._cards.get(session.id, ())
        drafts = [draft for row in rows if (draft := read_draft(row))]
        checked = check(drafts, session, LANGUAGES)
        missing = [] if session.id in self._cards else ["no cards were recorded for this session"]
        return Extraction(checked.cards, checked.quarantined, notes=[*checked.notes, *missing])


class RecordedPlanner:
    """Plans by question and time; what was not recorded is planned by `otherwise`."""

    def __init__(
        self, plans: Mapping[tuple[str, datetime], Mapping[str, Any]], otherwise: Planner
    ) -> None:
        self._plans = plans
        self._otherwise = otherwise

    async def plan(self, question: str, at: datetime, *, limit: int | None) -> Planned:
        recorded = self._plans.get((question, at))
        if recorded is None:
            planned = await self._otherwise.plan(question, at, limit=limit)
            return Planned(planned.plan, planned.calls, ["no plan was recorded"])
        return Planned(read_plan(recorded, at))


def read_plan(row: Mapping[str, Any], at: datetime) -> Plan:
    """One line of a recording, as a model's plan is read: rewrites only if it spans sessions."""
    known = {name: row[name] for name in Plan.model_fields if name in row}
    known["period"] = read_period(row.get("period", ""), at, LANGUAGES)
    known["rewrites"] = known["rewrites"] if row["spans_sessions"] else ()
    return Plan.model_validate(known)


class ForcedPlanner:
    """The same plan under another access; all else that it says is kept."""

    def __init__(self, inner: Planner, access: Callable[[tuple[str, datetime]], str]) -> None:
        self._inner = inner
        self._access = access

    async def plan(self, question: str, at: datetime, *, limit: int | None) -> Planned:
        planned = await self._inner.plan(question, at, limit=limit)
        plan = forced(planned.plan, self._access((question, at)))
        return Planned(plan, planned.calls, planned.notes)


def forced(plan: Plan, access: str) -> Plan:
    demands = {
        "lookup": {"spans_sessions": False, "needs_source": False},
        "compose": {"spans_sessions": True, "needs_source": False},
        "replay": {"spans_sessions": False, "needs_source": True},
        "compact": {"needs_source": False},
    }
    return plan.model_copy(update=demands[access]) if access in demands else plan
