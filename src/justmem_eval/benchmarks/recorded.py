"""Cards and plans that a strong model wrote once, read back: the paper's stages without a key.

They lie beside the benchmark's file: LoCoMo `cards/NAME.jsonl` and `plans/NAME.jsonl`,
LongMemEval `plans*.jsonl` by `id`, LoCoMo-Plus `cards*.jsonl` and `plans*.jsonl` by
`item`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from justmem.domain import UNKNOWN_DATE, Call, EventDate, Plan
from justmem.errors import InvalidFile
from justmem.ports import Completion, Prompt
from justmem_eval.benchmarks import files, locomo, locomo_plus, longmemeval

CardRows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """`cards` by (history, session), `plans` by question id."""

    cards: Mapping[tuple[str, str], CardRows] = field(default_factory=dict)
    plans: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read(name: str, data: Path) -> Recorded:
    if name == "locomo":
        return _locomo(data)
    if name == "longmemeval":
        return _longmemeval(data)
    return _locomo_plus(data)


def _locomo(data: Path) -> Recorded:
    folder = files.find(data, locomo.FILES, "LoCoMo").parent
    cards = {
        (path.stem, str(row["session_id"])): row["memories"]
        for path in sorted((folder / "cards").glob("*.jsonl"))
        for row in files.read_lines(path)
    }
    plans = {
        f"{path.stem}/{row['q']}": row
        for path in sorted((folder / "plans").glob("*.jsonl"))
        for row in files.read_lines(path)
    }
    return Recorded(_some(cards, folder, "cards"), plans)


def _longmemeval(data: Path) -> Recorded:
    folder = files.find(data, longmemeval.FILES, "LongMemEval-S").parent
    paths = sorted(folder.glob("plans*.jsonl"))
    rows = (row for path in paths for row in files.read_lines(path))
    return Recorded({}, {str(row["id"]): row for row in rows if "id" in row})


def _locomo_plus(data: Path) -> Recorded:
    folder = files.find(data, locomo_plus.FILES, "LoCoMo-Plus").parent
    cards = {
        (f"plus/{row['item']}", locomo_plus.CUE): row["memories"]
        for path in sorted(folder.glob("cards*.jsonl"))
        for row in files.read_lines(path)
    }
    # A remark is always planned as one: these two fields were not asked of the model.
    plans = {
        f"plus/{row['item']}": {
            "mode": "reply",
            "spans_sessions": True,
            "needs_source": False,
            **row,
        }
        for path in sorted(folder.glob("plans*.jsonl"))
        for row in files.read_lines(path)
        if "item" in row
    }
    base = _locomo(data)
    return Recorded({**base.cards, **_some(cards, folder, "cards")}, plans)


def _some(found: dict[Any, CardRows], folder: Path, what: str) -> dict[Any, CardRows]:
    if not found:
        raise InvalidFile(f"No recorded {what} beside {folder}: use --{what} rules.")
    return found


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
    known["operation"] = operation(row)
    known["period"] = _period(row.get("period", ""))
    known["rewrites"] = known["rewrites"] if row["spans_sessions"] else ()
    return Plan.model_validate(known)


def operation(row: Mapping[str, Any]) -> str:
    return _OPERATIONS.get(row.get("mode", ""), str(row.get("operation", "lookup")))


def _period(text: str) -> EventDate:
    try:
        return EventDate.parse(text)
    except ValueError:
        return UNKNOWN_DATE
