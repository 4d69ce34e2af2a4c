"""Cards and plans that a strong model wrote once, read back: the paper's stages without a key.

They lie beside the benchmark's file, in `cards*.jsonl` and `plans*.jsonl` or in folders `cards`
and `plans` with a file for each history. A line names its question by `id`, by `q` (its number in
the history) or by `item` (of LoCoMo-Plus).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from justmem.domain import UNKNOWN_DATE, Call, EventDate, Plan
from justmem.errors import InvalidFile
from justmem.ports import Completion, Prompt
from justmem_eval.benchmarks import files, locomo, locomo_plus, longmemeval

Row = Mapping[str, Any]
CardRows = Sequence[Row]
_BESIDE = {
    "locomo": (locomo.FILES,),
    "longmemeval": (longmemeval.FILES,),
    "locomo_plus": (locomo.FILES, locomo_plus.FILES),
}
# A remark is always planned as one: these fields were not asked of the model.
_REMARK = {"mode": "reply", "spans_sessions": True, "needs_source": False}
_OPERATIONS = {"verbatim": "quote", "advice": "advice", "reply": "reply"}  # by `mode`


@dataclass(frozen=True, slots=True)
class Recorded:
    """`cards` by (history, session), `plans` by question id."""

    cards: Mapping[tuple[str, str], CardRows] = field(default_factory=dict)
    plans: Mapping[str, Row] = field(default_factory=dict)


def read(name: str, data: Path) -> Recorded:
    if name not in _BESIDE:
        raise InvalidFile(f"Nothing is recorded for {name}: use --cards rules and --plans rules.")
    cards: dict[tuple[str, str], CardRows] = {}
    plans: dict[str, Row] = {}
    for names in _BESIDE[name]:
        folder = files.find(data, names, name).parent
        for stem, row in _rows(folder, "cards"):
            if "item" not in row:
                cards[stem, row["session_id"]] = row["memories"]
            elif name == "locomo_plus":
                cards[f"plus/{row['item']}", locomo_plus.CUE] = row["memories"]
        for stem, row in _rows(folder, "plans"):
            if "item" in row:
                plans[f"plus/{row['item']}"] = {**_REMARK, **row}
            elif "id" in row or "q" in row:
                plans[str(row.get("id") or f"{stem}/{row['q']}")] = row
    if not (cards or plans):
        raise InvalidFile(f"Nothing is recorded beside the data of {name}.")
    return Recorded(cards, plans)


def _rows(folder: Path, what: str) -> Iterator[tuple[str, Row]]:
    """Each line, with the name of its file."""
    for path in sorted([*folder.glob(f"{what}*.jsonl"), *folder.glob(f"{what}/*.jsonl")]):
        yield from ((path.stem, row) for row in files.read_lines(path))


class RecordedCards:
    """A language model for extraction alone: it replies with the recorded cards of `session_id`.
    So they are checked as a model's cards always are."""

    name = "recorded"
    context = 10**9

    def __init__(self, cards: Mapping[str, CardRows]) -> None:
        self._cards = cards
        self.session_id = ""

    async def complete(self, prompt: Prompt) -> Completion:
        reply = json.dumps({"cards": list(self._cards.get(self.session_id, ()))})
        call = Call(stage=prompt.stage, model=self.name, tokens_in=0, tokens_out=0, attempts=0)
        return Completion(text=reply, call=call)


def read_plan(row: Row) -> Plan:
    """One line of a recording, as a model's plan is read: rewrites only if it spans sessions."""
    known = {name: row[name] for name in Plan.model_fields if name in row}
    known["operation"] = operation(row)
    known["rewrites"] = known["rewrites"] if row["spans_sessions"] else ()
    try:
        known["period"] = EventDate.parse(row.get("period", ""))
    except ValueError:
        known["period"] = UNKNOWN_DATE
    return Plan.model_validate(known)


def operation(row: Row) -> str:
    return _OPERATIONS.get(row.get("mode", ""), str(row.get("operation", "lookup")))
