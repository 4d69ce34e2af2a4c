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
from justmem_eval import report, runs
from justmem_eval.calls import CapReached
from justmem_eval.records import Files
from justmem_eval.report import Grid
from justmem_eval.results import Measured, failures, measured
from justmem_eval.runs import Settings

Data = Annotated[Path, typer.Option(help="The folder with the official files.")]
Switch = Annotated[list[str] | None, typer.Option("--set", help="A switch: name=value.")]
Limit = Annotated[int | None, typer.Option(help="About so many questions, spread evenly.")]
Published = Annotated[
    Path | None,
    typer.Option("--figures", help="Enter them into this file of published figures."),
]
Cache = Annotated[Path | None, typer.Option("--cache", help="Vectors and replies.")]
Pythons = Annotated[list[str] | None, typer.Option("--python", help="PEER=PYTHON, for each peer.")]
PeerEmbedder = Annotated[str, typer.Option(help="A peer's embedder, as its server knows it.")]
PeerDimensions = Annotated[int, typer.Option(help="The length of its vectors.")]

_WIDE = 220


def bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


def show(grid: Grid) -> None:
    """A file or a pipe has no width: tables stay whole there."""
    made = Table(title=grid.title, title_justify="left")
    for place, name in enumerate(grid.headings):
        made.add_column(name, justify="left" if place < 2 else "right")
    for row in grid.rows:
        made.add_row(*row)
    width = None if sys.stdout.isatty() else _WIDE
    Console(highlight=False, markup=False, width=width).print(made)


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
) -> Measured:
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
    return measured(folder, given.benchmark)


def show_run(found: Measured, folder: Path) -> None:
    show(report.all_figures(found))
    show(report.recalls({"": found}))
    if found.judged:
        show(report.judged({"": found}))
    for note in found.notes[:12]:
        typer.echo(f"  note: {note}")
    for stage, id, reason in failures(Files(folder))[:5]:
        typer.echo(f"  {stage}, {id}: {reason}")
