"""Cards and plans read from a recording, and access forced by a switch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from justmem.domain import UNKNOWN_DATE, Call, EventDate, Plan
from justmem.ports import Completion, Prompt
from justmem_eval.benchmarks.recorded import CardRows


class RecordedCards:
    """A language model for extraction alone: it replies with the recorded cards of `session_id`.
    So they are checked as a model's cards always are."""

    name = "recorded"
    context = 10**9

    def __init__(self, cards: Mapping[str, CardRows]) -> None:
        self._cards = cards
        self.session_id = ""

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        reply = json.dumps({"cards": list(self._cards.get(self.session_id, ()))})
        call = Call(stage=prompt.stage, model=self.name, tokens_in=0, tokens_out=0, attempts=0)
        return Completion(text=reply, call=call)


# Recordings name these operations in a field of their own.
_OPERATIONS = {"verbatim": "quote", "advice": "advice", "reply": "reply"}


def read_plan(row: Mapping[str, Any]) -> Plan:
    """One line of a recording, as a model's plan is read: rewrites only if it spans sessions."""
    known = {name: row[name] for name in Plan.model_fields if name in row}
    operation = _OPERATIONS.get(row.get("mode", ""), row.get("operation", "lookup"))
    known["operation"] = operation
    known["period"] = _period(row.get("period", ""))
    known["rewrites"] = known["rewrites"] if row["spans_sessions"] else ()
    return Plan.model_validate(known)


def _period(text: str) -> EventDate:
    try:
        return EventDate.parse(text)
    except ValueError:
        return UNKNOWN_DATE


_ACCESS: Mapping[str, Mapping[str, Any]] = {
    "lookup": {"spans_sessions": False, "needs_source": False, "rewrites": ()},
    "compose": {"spans_sessions": True, "needs_source": False},
    "replay": {"spans_sessions": False, "needs_source": True, "rewrites": ()},
    "compact": {"needs_source": False},
}


def forced(plan: Plan, access: str) -> Plan:
    """The same plan under another access. Everything else that it says stays."""
    return plan.model_copy(update=_ACCESS[access])
