"""compare, fill, data, sample, mine, mcnemar: looking at what is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from justmem.errors import InvalidFile
from justmem_eval import benchmarks, mine, sources
from justmem_eval import figures as published
from justmem_eval.cli.shared import Data, Switch, grid, out
from justmem_eval.compare import compare as compared
from justmem_eval.protocol import Files
from justmem_eval.runs import benchmark_of
from justmem_eval.samples import samples
from justmem_eval.statistics import mcnemar as exact
from justmem_eval.switches import parse


def compare(
    a: Annotated[Path, typer.Argument(help="The folder of a run.")],
    b: Annotated[Path, typer.Argument(help="The folder of another.")],
    data: Annotated[Path | None, typer.Option(help="To show the questions' words.")] = None,
    most: Annotated[int, typer.Option(help="Questions shown of each kind.")] = 10,
) -> None:
    """Paired flips with the exact McNemar test, and the questions that flipped."""
    found = compared(a, b)
    rows = [
        [f"run {n}", "", str(len(f.gained)), str(len(f.lost)), f"{f.both}", f"{f.p:.3g}"]
        for n, f in enumerate(found.by_run, 1)
    ]
    m = found.majority
    rows.append(["majority", "", str(len(m.gained)), str(len(m.lost)), f"{m.both}", f"{m.p:.3g}"])
    title = f"{found.first} -> {found.second}"
    out().print(grid(title, ["", "", "wrong to right", "right to wrong", "both right", "p"], rows))
    texts = {}
    if data is not None:
        loaded = benchmark_of(a, data)
        texts = {c.question.id: (c.question.text, c.gold.answer) for c in loaded.cases}
    first, second = Files(a).predictions(1), Files(b).predictions(1)
    for kind, ids in (("wrong to right", m.gained), ("right to wrong", m.lost)):
        for id in ids[:most]:
            text, gold = texts.get(id, ("", ""))
            typer.echo(f"{kind}  {id}  {text}")
            if gold:
                typer.echo(f"    gold    {gold}")
            for name, told in ((found.first, first.get(id)), (found.second, second.get(id))):
                typer.echo(f"    {name}: {told.answer if told else '-'}")


def fill(
    documents: Annotated[list[Path], typer.Argument(help="Documents with marked figures.")],
    figures_file: Annotated[Path, typer.Option("--figures", help="The file of figures.")],
) -> None:
    """Write the published figures into documents, at their marks."""
    found = published.read(figures_file)
    for path in documents:
        path.write_text(published.filled(path.read_text("utf-8"), found), "utf-8")


def data(folder: Annotated[Path, typer.Option("--data", help="Where they should be.")]) -> None:
    """Where to get each benchmark, and whether what is there is right."""
    for name in benchmarks.NAMES:
        for line in sources.checked(name, folder):
            typer.echo(line)


def sample(
    data: Data,
    benchmark: Annotated[str, typer.Option(help=", ".join(benchmarks.TITLES))] = "locomo",
    count: Annotated[int, typer.Option(help="How many cards.")] = 10,
) -> None:
    """Cards as the rules make them, taken at even distances from all, with what was said."""
    for line in asyncio.run(samples(benchmarks.load(benchmark, data), count)):
        typer.echo(line)


def own(
    file: Annotated[Path, typer.Argument(help="Your chats: sessions as JSON or JSON Lines.")],
    questions: Annotated[Path | None, typer.Option(help="Your questions, as JSON Lines.")] = None,
    count: Annotated[int, typer.Option(help="Questions to make, if you give none.")] = 100,
    switch: Switch = None,
    show_missed: Annotated[bool, typer.Option("--missed", help="List what was not found.")] = False,
) -> None:
    """Recall on your own chats. Nothing is sent, and nothing is kept."""
    with TemporaryDirectory(prefix="justmem-mine-") as folder:
        sessions = asyncio.run(mine.read_sessions(file, Path(folder)))
    cases = mine.asked(questions, sessions) if questions else mine.made(sessions, count)
    if not cases:
        raise InvalidFile(f"{file} holds no statement long enough to make a question from.")
    found, rows = asyncio.run(mine.measure(sessions, cases, parse(switch or [])))
    typer.echo(mine.shown(found, own=questions is not None))
    if show_missed:
        for line in mine.missed(cases, rows):
            typer.echo(f"missed: {line}")


def mcnemar(gained: int, lost: int) -> None:
    """The exact two-sided p-value of so many flips in each direction."""
    typer.echo(f"{exact(gained, lost):.3g}")
