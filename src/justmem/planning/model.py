"""Question -> Plan, with one call of a language model; the rules where that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from justmem import calling, tokens
from justmem.domain import KINDS, MODES, OPERATIONS, UNKNOWN_DATE, EventDate, Plan
from justmem.errors import ModelError
from justmem.language.en import dates
from justmem.planning.rules import plan_by_rules
from justmem.ports import LanguageModel, Planned, Prompt
from justmem.prompts import fence, load, new_mark, one_line
from justmem.salvage import parse
from justmem.words import both_ends, clean

_STRINGS = {"type": "array", "items": {"type": "string"}}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "operation": {"type": "string", "enum": list(OPERATIONS)},
        "mode": {"type": "string", "enum": list(MODES)},
        "entities": _STRINGS,
        "period": {"type": "string"},
        "routes": {"type": "array", "items": {"type": "string", "enum": list(KINDS)}},
        "spans_sessions": {"type": "boolean"},
        "needs_source": {"type": "boolean"},
        "rewrites": _STRINGS,
    },
    "required": [
        "operation",
        "mode",
        "entities",
        "period",
        "routes",
        "spans_sessions",
        "needs_source",
        "rewrites",
    ],
    "additionalProperties": False,
}
REWRITES = 2
_ENTITIES = 20
_LONGEST_QUESTION = 2000  # characters: what a question needs is plain from its two ends


class ModelPlanner:
    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    async def plan(self, question: str, at: datetime, *, limit: int | None) -> Planned:
        prompt = tokens.fit(planning_prompt(question, at), limit, least=80)
        notes: list[str] = []
        try:
            completion = await calling.complete(self.model, prompt, notes)
        except ModelError as error:
            notes.append(f"planned by rules: {error}")
            by_rules = await asyncio.to_thread(plan_by_rules, question, at)
            return Planned(by_rules, error.calls, notes)
        with calling.carrying([completion.call]):
            plan = await asyncio.to_thread(_read, completion.text, at)
            if plan is None:
                notes.append("planned by rules: the model's plan could not be read")
                plan = await asyncio.to_thread(plan_by_rules, question, at)
        return Planned(plan, [completion.call], notes)


def planning_prompt(question: str, at: datetime) -> Prompt:
    asked = both_ends(one_line(question), _LONGEST_QUESTION)
    mark = new_mark()
    user = f"Time of the question: {at:%A %Y-%m-%d}\n{fence('question', asked, mark)}"
    return Prompt("plan", load("plan"), user, SCHEMA, 250, mark=mark)


def _read(reply: str, at: datetime) -> Plan | None:
    value, _ = parse(reply)
    return read_plan(value, at)


def read_plan(value: Any, at: datetime) -> Plan | None:
    """A plan from a model's JSON: each field that can be used is, and the two demands must be."""
    if not isinstance(value, Mapping):
        return None
    spans, source = value.get("spans_sessions"), value.get("needs_source")
    if not isinstance(spans, bool) or not isinstance(source, bool):
        return None
    operation, mode = value.get("operation"), value.get("mode")
    return Plan(
        operation=operation if operation in OPERATIONS else "lookup",
        mode=mode if mode in MODES else "short",
        entities=_strings(value.get("entities"))[:_ENTITIES],
        period=_period(value.get("period"), at),
        routes=tuple(kind for kind in KINDS if kind in _strings(value.get("routes"))),
        spans_sessions=spans,
        needs_source=source,
        rewrites=_strings(value.get("rewrites"))[:REWRITES] if spans else (),
    )


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    lines = (one_line(clean(item)) for item in value if isinstance(item, str))
    return tuple(line[:500] for line in lines if line)


def _period(value: Any, at: datetime) -> EventDate:
    if not isinstance(value, str) or not value.strip():
        return UNKNOWN_DATE
    try:
        return EventDate.parse(value)
    except ValueError:
        return dates.resolve(value, at)
