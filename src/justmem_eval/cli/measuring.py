"""Other systems, your own chats, and the commands around data and figures."""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Annotated

import typer

from justmem_eval import benchmarks, figures, questions, results, sidebyside, tables
from justmem_eval import peer_check as checks
from justmem_eval.benchmarks import recorded
from justmem_eval.cli.shared import (
    Cache,
    Data,
    PeerEmbedder,
    Published,
    Pythons,
    Switch,
    by_peer,
    measure,
    named,
    show,
)
from justmem_eval.models import cache_folder
from justmem_eval.records import Files
from justmem_eval.settings import EMBEDDER, Settings, parse
from justmem_eval.systems.justmem import build_embedder
from justmem_eval.systems.peer import NAMES
from justmem_eval.tables import Grid

_COMPARE = Path("build/compare")
_PATIENCE = 300.0  # seconds without a sign of life, for three short sessions


def peer_check(
    adapter: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or the path of an adapter.")],
    python: Annotated[str, typer.Option(help="Python of the peer's environment.")] = sys.executable,
    model: Annotated[
        str, typer.Option(help="openai:NAME or openai:NAME@URL. Default: a scripted one.")
    ] = "",
    peer_embedder: PeerEmbedder = EMBEDDER,
) -> None:
    """Three sessions in, the process killed, a new one asked: evidence, sources, calls, tokens."""
    folder = Path(mkdtemp(prefix="justmem-peer-check-"))
    name, peer = named(adapter, python, peer_embedder)
    embedder = build_embedder(parse([]), cache_folder())
    peer = replace(peer, patience=_PATIENCE)
    found = checks.check(name, model, peer, folder, embedder)
    typer.echo(checks.shown(found))
    if checks.problems(found):
        typer.echo(f"The adapter's log: {folder / 'peer.log'}")
        raise typer.Exit(1)
    shutil.rmtree(folder)


def peers(
    data: Data,
    only: Annotated[list[str] | None, typer.Option("--system", help="Only these.")] = None,
    python: Pythons = None,
    histories: Annotated[int, typer.Option(help="The first so many conversations.")] = 1,
    sessions: Annotated[int, typer.Option(help="Their first so many sessions; 0: all.")] = 4,
    figures_file: Published = None,
    cache: Cache = None,
) -> None:
    """Costs and recall of JustMem and every installed peer on LoCoMo, with one scripted model."""
    systems = {**dict.fromkeys(sidebyside.OWN, sys.executable), **by_peer(python)}
    systems = {name: systems[name] for name in systems if not only or name in only}
    bench = sidebyside.slice_of(benchmarks.load("locomo", data), histories, sessions or None)
    known = recorded.read("locomo", data)
    embedder = build_embedder(parse([]), cache_folder(cache))
    shutil.rmtree(_COMPARE, ignore_errors=True)
    found = asyncio.run(sidebyside.compare(systems, bench, embedder, known, _COMPARE, typer.echo))
    turns = sum(len(s.turns) for id in bench.histories for s in bench.history(id).sessions)
    title = f"LoCoMo: {turns:,} turns, {len(bench.cases)} questions"
    headings = ["", *(heading for heading, _, _ in sidebyside.COLUMNS)]
    show(Grid(title, headings, sidebyside.cells(found)))
    typer.echo(sidebyside.NOTE)
    for each in found:
        for note in each.notes:
            typer.echo(f"{each.system}: {note}")
        if figures_file and not each.missing:
            words = f"--histories {histories} --sessions {sessions} --system {each.system}"
            name = f"peers-locomo-{histories}-{sessions}-{each.system}"
            figures.write(figures_file, name, figures.of_run(each), f"justmem-eval peers {words}")


def placed(data: Data, figures_file: Published = None) -> None:
    """How often the rule for systems without sources finds where a recorded LoCoMo card is from."""
    found = results.placed(benchmarks.load("locomo", data), recorded.read("locomo", data))
    for name, figure in found.items():
        typer.echo(f"{name} {figure}")
    if figures_file:
        figures.write(figures_file, "placed-locomo", found, "justmem-eval placed")


def mine(
    file: Annotated[Path, typer.Argument(help="Your chats: sessions as JSON or JSON Lines.")],
    asked: Annotated[
        Path | None, typer.Option("--questions", help="Your questions, as JSON Lines.")
    ] = None,
    count: Annotated[int, typer.Option(help="Questions to make, if you give none.")] = 100,
    switch: Switch = None,
    show_missed: Annotated[bool, typer.Option("--missed", help="List what was not found.")] = False,
) -> None:
    """Recall on your own chats, beside ten turns by likeness alone. Nothing is sent or kept."""
    with TemporaryDirectory(prefix="justmem-mine-") as temporary:
        folder = Path(temporary)
        sessions = asyncio.run(questions.read_sessions(file, folder / "read"))
        bench = questions.benchmark(sessions, asked, count)
        given = Settings(benchmark=bench, data=file, runs=1, switches=switch or ())
        systems = ("justmem", "naive_rag")
        found = [measure(replace(given, system=name), folder / name, folder) for name in systems]
        show(tables.recalls(found))
        typer.echo(questions.GIVEN if asked else questions.MADE)
        if show_missed:
            for line in questions.missed(Files(folder / "justmem").retrieved(bench.cases)):
                typer.echo(f"missed: {line}")


def data(folder: Annotated[Path, typer.Option("--data", help="Where they should be.")]) -> None:
    """Where to get each benchmark, and whether what is there is right."""
    for name in benchmarks.NAMES:
        for line in benchmarks.checked(name, folder):
            typer.echo(line)


def fill(
    documents: Annotated[list[Path], typer.Argument(help="Documents with marked figures.")],
    figures_file: Annotated[Path, typer.Option("--figures", help="The file of figures.")],
) -> None:
    """Write the published figures into documents, at their marks, and list what changes."""
    found = figures.read(figures_file)
    for path in documents:
        before = path.read_text("utf-8")
        after = figures.filled(before, found)
        path.write_text(after, "utf-8")
        for line in figures.changed(before, after):
            typer.echo(f"{path}: {line}")
