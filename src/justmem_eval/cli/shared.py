"""Options that several commands have, and what they print with."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from justmem.errors import InvalidSetting
from justmem_eval import runs
from justmem_eval.calls import CapReached
from justmem_eval.metrics import Level, Recall
from justmem_eval.results import RunFigures, failures, figures
from justmem_eval.runs import Settings
from justmem_eval.tables import shown

Data = Annotated[Path, typer.Option(help="The folder with the official files.")]
Switch = Annotated[list[str] | None, typer.Option("--set", help="A switch: name=value.")]
Limit = Annotated[int | None, typer.Option(help="About so many questions, spread evenly.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]
Published = Annotated[
    Path | None,
    typer.Option("--figures", help="Enter them into this file of published figures."),
]
Cache = Annotated[Path | None, typer.Option("--cache", help="Vectors, replies and memories.")]

_WIDE = 150


def bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


def grid(title: str, headings: list[str], rows: list[list[str]]) -> Table:
    made = Table(title=title, title_justify="left")
    for place, name in enumerate(headings):
        made.add_column(name, justify="left" if place < 2 else "right")
    for row in rows:
        made.add_row(*row)
    return made


def out() -> Console:
    """A file or a pipe has no width: tables stay whole there."""
    width = None if sys.stdout.isatty() else _WIDE
    return Console(highlight=False, markup=False, width=width)


def pairs(given: Sequence[str]) -> dict[str, str]:
    """`--python PEER=PYTHON`, by peer."""
    found = {}
    for text in given:
        name, equals, python = text.partition("=")
        if not equals:
            raise InvalidSetting(f"--python takes PEER=PYTHON, not {text!r}.")
        found[name] = python
    return found


def measure(
    given: Settings, folder: Path, cache_folder: Path, ledger: Path | None = None
) -> RunFigures:
    """One run with a progress bar."""
    with bar() as shown_bar:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown_bar.add_task(f"{given.system} {stage}", total=total)
            shown_bar.update(tasks[stage], completed=done)

        try:
            asyncio.run(runs.run(given, folder, cache_folder, progress, ledger=ledger))
        except CapReached as error:
            raise InvalidSetting(str(error)) from None
    return figures(folder, given.benchmark)


def show_run(found: RunFigures, folder: Path) -> None:
    rows = [*(_judged(found) if found.judges else ()), *_recalled(found), *_costs(found)]
    rows += [[f"errors: {stage}", str(count), ""] for stage, count in found.errors.items()]
    label = found.titled(found.label)
    title = f"{label} on {found.benchmark}: {found.questions} questions, model {found.model}"
    if found.model == "rules":
        title += f", {found.cards_by} cards, {found.plans_by} plans"
    out().print(grid(title, ["", "", ""], rows))
    for note in found.notes[:12]:
        typer.echo(f"  note: {note}")
    for stage, id, reason in failures(folder)[:5]:
        typer.echo(f"  {stage}, {id}: {reason}")


def _judged(found: RunFigures) -> list[list[str]]:
    rows = [["accuracy", shown(found.accuracy), f"{found.judged} judged"]]
    for name, judge in found.judges.items():
        rows.append([f"  {name} judge", shown(judge.accuracy), "the same answers"])
        rows.append(["    accepts wrong", str(judge.accepts_wrong), "planted wrong answers"])
        rows.append(["    refuses right", str(judge.refuses_right), "planted right answers"])
    corrections = f"{found.corrections} answers corrected"
    rows.append(["  corrected key", shown(found.corrected), corrections])
    rows += [[f"  {name}", shown(value), ""] for name, value in found.by_category.items()]
    return rows


def _recalled(found: RunFigures) -> list[list[str]]:
    costs = found.costs
    ten = f"{costs.cards_at_10.short()} cards, {costs.turns_at_10.short()} turns claimed"
    read = f"{costs.cards_read.short()} cards, {costs.turns_claimed.short()} turns claimed"
    levels: list[tuple[str, Level]] = [("turn", found.turn), ("session", found.session)]
    rows = [["recall: fraction", "", "any, all; what is counted"]]
    for name, level in levels:
        rows.append(_recall(f"{name} recall@10", level.ten, ten))
        rows.append(_recall(f"{name} recall, everything read", level.read, read))
        rows.append(_recall("  with recovered sources", level.source))
    rows += [
        ["  placed by words", str(costs.aligned), "percent of the pieces"],
        _recall("first five sessions", found.sessions_at_5),
        ["  all@5 can reach", str(found.most_all_at_5), ""],
        _recall("spanning: turns, everything read", found.spanning_turn),
        *(_recall(f"  {name}", each) for name, each in found.turn_by_category.items()),
        ["source hit@1", str(found.source_hit), ""],
    ]
    return rows


def _recall(name: str, recall: Recall, counted: str = "") -> list[str]:
    more = f"any {recall.any.short()}, all {recall.all.short()}"
    return [name, str(recall.fraction), f"{more}; {counted}" if counted else more]


def _costs(found: RunFigures) -> list[list[str]]:
    tokens, answers = found.tokens, found.answers
    return [
        ["answers: F1", str(answers.f1), f"gold in evidence {answers.contained}"],
        ["  rest on a gold turn", str(answers.rests), f"on none {answers.misled}"],
        ["  refused", str(answers.refused), f"of the unanswerable {answers.refused_rightly}"],
        ["  words", str(answers.words), ""],
        ["tokens: evidence", str(tokens.evidence), "per question"],
        ["tokens: construction", str(tokens.construction), "per history"],
        ["tokens: planning", str(tokens.planning), "per question"],
        ["tokens: answering", str(tokens.answering), "per question and run"],
        ["tokens: judging", str(tokens.judging), "not counted in the above"],
    ]
