"""The gate: committed figures on a small slice that no change may fall below.

A floor is what was measured when it was last written. Recall and routing may not fall below it,
tokens and pairs may not rise above it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from justmem.domain import Value
from justmem.errors import InvalidFile
from justmem_eval.goals import figure

# What is watched, and whether more of it is better.
WATCHED: Mapping[str, bool] = {
    "turn.slot.fraction": True,
    "session.slot.fraction": True,
    "spanning_turn.fraction": True,
    "session_at_5.any": True,
    "routing.precision": True,
    "routing.recall": True,
    "sources.session_at_1": True,
    "answers.f1": True,
    "answers.refused_rightly": True,
    "costs.evidence_tokens": False,
    "costs.infer": False,
    "costs.pairs": False,
}
SLACK = 0.01  # rounding in the file


class Floor(Value):
    """One configuration and its committed figures."""

    benchmark: str
    cards: str
    plans: str
    set: tuple[str, ...] = ()
    figures: Mapping[str, float]

    @property
    def name(self) -> str:
        return f"{self.benchmark}, {self.cards} cards, {self.plans} plans"


class Passed(Value):
    floor: str
    figure: str
    committed: float
    now: float | None
    more: bool

    @property
    def by(self) -> float:
        """How much better it is; worse if negative."""
        if self.now is None:
            return float("-inf")
        return self.now - self.committed if self.more else self.committed - self.now

    @property
    def ok(self) -> bool:
        return self.by >= -SLACK

    def __str__(self) -> str:
        now = "gone" if self.now is None else f"{self.now:.2f}"
        word = "worse" if not self.ok else "better" if self.by > SLACK else "as committed"
        by = f" by {abs(self.by):.2f}" if self.now is not None and word != "as committed" else ""
        return f"{self.floor}: {self.figure} {now}, committed {self.committed:.2f}: {word}{by}"


Measure = Callable[[Floor], Mapping[str, Any]]


def read(path: Path) -> list[Floor]:
    try:
        entries = tomllib.loads(path.read_text("utf-8"))["floor"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise InvalidFile(f"{path} holds no floors ({error}). Write it with --write.") from error
    return [Floor.model_validate(entry) for entry in entries]


def check(floors: Sequence[Floor], measure: Measure) -> list[Passed]:
    found = []
    for floor in floors:
        values = measure(floor)
        for path, committed in floor.figures.items():
            now, _ = figure(values, path)
            found.append(
                Passed(
                    floor=floor.name,
                    figure=path,
                    committed=committed,
                    now=now,
                    more=WATCHED[path],
                )
            )
    return found


def written(floors: Sequence[Floor], measure: Measure) -> str:
    """The same floors with the figures of today, as the file's text."""
    parts = ["# Committed figures: `justmem-eval gate --write` writes this file.\n"]
    for floor in floors:
        values = measure(floor)
        now = {path: figure(values, path)[0] for path in WATCHED}
        rows = [f"{json.dumps(path)} = {v:.4f}" for path, v in now.items() if v is not None]
        parts.append(
            f'\n[[floor]]\nbenchmark = "{floor.benchmark}"\ncards = "{floor.cards}"\n'
            f'plans = "{floor.plans}"\nset = {json.dumps(list(floor.set))}\n\n[floor.figures]\n'
            + "\n".join(rows)
            + "\n"
        )
    return "".join(parts)
