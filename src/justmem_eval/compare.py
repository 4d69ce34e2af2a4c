"""Two runs side by side: the flips, with the questions."""

from __future__ import annotations

from pathlib import Path

from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem_eval.protocol import Files
from justmem_eval.results import judges, majority, pinned, verdicts
from justmem_eval.statistics import Flips, flips


class Comparison(Value):
    first: str
    second: str
    by_run: tuple[Flips, ...]
    majority: Flips  # each question once, by what most of its runs say


def right(files: Files, run: int, judge: str) -> dict[str, bool]:
    return {id: score > 0.5 for id, score in verdicts(files, run, judge).items()}


def compare(a: Path, b: Path) -> Comparison:
    one, other = pinned(a), pinned(b)
    for name in ("benchmark", "data", "judge"):
        if one.get(name) != other.get(name):
            raise InvalidSetting(f"{a} and {b} cannot be compared: their {name} differs.")
    files = Files(a), Files(b)
    judge = (judges(one) or ["strict"])[0]
    runs = min(int(one["runs"]), int(other["runs"]))
    return Comparison(
        first=one.get("label") or one["system"],
        second=other.get("label") or other["system"],
        by_run=tuple(
            flips(right(files[0], n, judge), right(files[1], n, judge)) for n in range(1, runs + 1)
        ),
        majority=flips(majority(files[0], runs, judge), majority(files[1], runs, judge)),
    )
