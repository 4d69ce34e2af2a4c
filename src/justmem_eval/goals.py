"""The figures to reach, row by row, beside ours."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal

from rich.table import Table

from justmem.domain import Value
from justmem_eval.keyless import Summary


class Row(Value):
    label: str
    figure: str
    reach: float
    baseline: float | None = None
    paper: float | None = None
    lower: bool = False  # less is better


class Goal(Value):
    name: str
    title: str
    benchmark: str
    cards: Literal["recorded", "rules"]
    plans: Literal["recorded", "rules"]
    timing: int = 0
    rows: tuple[Row, ...]

    @property
    def command(self) -> str:
        timed = f" --timing {self.timing}" if self.timing else ""
        return (
            f"justmem-eval recall --data DIR --benchmark {self.benchmark} "
            f"--cards {self.cards} --plans {self.plans}{timed}"
        )


class Result(Value):
    goal: str
    label: str
    value: float | None
    n: int
    reach: float
    baseline: float | None
    paper: float | None
    reached: bool


def goals() -> list[Goal]:
    text = files("justmem_eval").joinpath("goals.toml").read_text("utf-8")
    return [Goal.model_validate(entry) for entry in tomllib.loads(text)["goal"]]


Measure = Callable[[Goal], Summary]


def results(wanted: Sequence[Goal], measure: Measure) -> list[Result]:
    found = []
    for goal in wanted:
        values = measure(goal).model_dump(mode="json")
        for row in goal.rows:
            value, n = figure(values, row.figure)
            reached = value is not None and (
                value <= row.reach if row.lower else value >= row.reach
            )
            found.append(
                Result(
                    goal=goal.name,
                    label=row.label,
                    value=value,
                    n=n,
                    reach=row.reach,
                    baseline=row.baseline,
                    paper=row.paper,
                    reached=reached,
                )
            )
    return found


def figure(values: Mapping[str, Any], path: str) -> tuple[float | None, int]:
    found: Any = values
    for part in path.split("."):
        found = found[part]
    return found["value"], found["n"]


def table(results: Sequence[Result]) -> Table:
    made = Table(title="Without a model, on this data", title_justify="left")
    for name in ("measure", "ours", "n", "simple baseline", "paper", "reach", ""):
        made.add_column(name, justify="left" if name == "measure" else "right")
    titles = {goal.name: goal.title for goal in goals()}
    shown = ""
    for result in results:
        if result.goal != shown:
            made.add_section()
            made.add_row(titles[result.goal], style="bold")
            shown = result.goal
        made.add_row(
            f"  {result.label}",
            _number(result.value),
            str(result.n),
            _number(result.baseline),
            _number(result.paper),
            _number(result.reach),
            "reached" if result.reached else "not yet",
            style="" if result.reached else "dim",
        )
    return made


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")
