"""Options that several commands have, and what they print with."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from justmem.errors import InvalidSetting
from justmem_eval import runs, tables
from justmem_eval.models import CapReached, cache_folder
from justmem_eval.results import Measured, measured
from justmem_eval.settings import PeerSettings, Settings
from justmem_eval.tables import Grid

Data = Annotated[Path, typer.Option(help="The folder with the official files.")]
Switch = Annotated[list[str] | None, typer.Option("--set", help="A switch: name=value.")]
Limit = Annotated[int | None, typer.Option(help="About so many questions, spread evenly.")]
Published = Annotated[
    Path | None,
    typer.Option("--figures", help="Enter them into this file of published figures."),
]
Cache = Annotated[Path | None, typer.Option("--cache", help="Vectors and replies.")]
Pythons = Annotated[list[str] | None, typer.Option("--python", help="PEER=PYTHON, for each peer.")]
PeerEmbedder = Annotated[
    tuple[str, int],
    typer.Option(help="A peer's embedder as its server knows it, and the length of its vectors."),
]

_WIDE = 220


def show(grid: Grid) -> None:
    """A file or a pipe has no width: tables stay whole there."""
    made = Table(title=grid.title, title_justify="left")
    for place, name in enumerate(grid.headings):
        made.add_column(name, justify="left" if place < 2 else "right")
    for row in grid.rows:
        made.add_row(*row)
    width = None if sys.stdout.isatty() else _WIDE
    Console(highlight=False, markup=False, width=width).print(made)


def measure(
    given: Settings, folder: Path, cache: Path | None, ledger: Path | None = None
) -> Measured:
    """One run with a progress bar."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(f"{given.system} {stage}", total=total)
            bar.update(tasks[stage], completed=done)

        try:
            asyncio.run(runs.run(given, folder, cache_folder(cache), progress, ledger=ledger))
        except CapReached as error:
            raise InvalidSetting(str(error)) from None
    return measured(folder, given.benchmark)


def show_run(found: Measured) -> None:
    show(tables.all_figures(found))
    show(tables.recalls([found]))
    if found.judged:
        show(tables.judged([found]))
    for note in found.notes[:12]:
        typer.echo(f"  note: {note}")
    for stage, id, reason in found.failures[:5]:
        typer.echo(f"  {stage}, {id}: {reason}")


def named(system: str, python: str, embedder: tuple[str, int]) -> tuple[str, PeerSettings]:
    """A system by its name, or by the path of an adapter of one's own."""
    adapter = Path(system) if system.endswith(".py") else None
    peer = PeerSettings(python, adapter, *embedder)
    return adapter.stem if adapter else system, peer


def by_peer(given: list[str] | None) -> dict[str, str]:
    """`--python PEER=PYTHON`, by peer."""
    found = {name: python for name, _, python in (text.partition("=") for text in given or ())}
    if not all(found.values()):
        raise typer.BadParameter("--python takes PEER=PYTHON.")
    return found
