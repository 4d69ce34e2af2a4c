"""Options that several commands have, and what they print with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from justmem.errors import InvalidSetting

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
