"""peer-check: try an adapter before a long run. peers: JustMem and other systems side by side."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

from justmem.errors import InvalidSetting
from justmem.testing import serve_openai
from justmem_eval import benchmarks, cache, figures, peer_check, pictures, sidebyside
from justmem_eval.benchmarks import recorded
from justmem_eval.cli.shared import (
    Cache,
    Data,
    PeerDimensions,
    PeerEmbedder,
    Published,
    Pythons,
    pairs,
    show,
)
from justmem_eval.records import Files
from justmem_eval.report import Grid
from justmem_eval.runs import DIMENSIONS, EMBEDDER, PeerSettings
from justmem_eval.scripted import Scripted
from justmem_eval.switches import parse
from justmem_eval.systems.justmem import build_embedder
from justmem_eval.systems.peer import NAMES

_ENVIRONMENTS = Path("build/peers")
_COMPARE = Path("build/compare")
_PATIENCE = 300.0  # seconds without a sign of life, for three short sessions


def check(
    adapter: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or the path of an adapter.")],
    python: Annotated[str, typer.Option(help="Python of the peer's environment.")] = sys.executable,
    model: Annotated[
        str, typer.Option(help="openai:NAME or openai:NAME@URL. Default: a scripted one.")
    ] = "",
    peer_embedder: PeerEmbedder = EMBEDDER,
    peer_dimensions: PeerDimensions = DIMENSIONS,
) -> None:
    """Three sessions in, the process killed, a new one asked: evidence, sources, calls, tokens."""
    path = Path(adapter)
    own = path if path.suffix == ".py" else None
    name = path.stem if own else adapter
    folder = Path(mkdtemp(prefix="justmem-peer-check-"))

    def checked(model: str, embedder: str, dimensions: int) -> Files:
        peer = PeerSettings(
            python=python,
            adapter=own,
            patience=_PATIENCE,
            embedder=embedder,
            dimensions=dimensions,
        )
        return asyncio.run(peer_check.check(name, model, peer, folder))

    if model:
        found = checked(model, peer_embedder, peer_dimensions)
    else:
        embedder = build_embedder(parse([]), cache.folder())
        played = Scripted([peer_check.HISTORY], embedder, plans=peer_check.PLANS)
        with serve_openai(played) as served:
            found = checked(f"openai:scripted@{served.url}", embedder.name, embedder.dim)
    typer.echo(peer_check.shown(found))
    if not peer_check.problems(found):
        shutil.rmtree(folder)
    else:
        typer.echo(f"The adapter's log: {folder / 'peer.log'}")
        raise typer.Exit(1)


def side_by_side(
    data: Data,
    only: Annotated[list[str] | None, typer.Option("--system", help="Only these.")] = None,
    python: Pythons = None,
    install: Annotated[
        list[str] | None, typer.Option(help=f"Install with pip: {', '.join(sidebyside.PACKAGES)}.")
    ] = None,
    benchmark: str = "locomo",
    histories: Annotated[int, typer.Option(help="The first so many conversations.")] = 1,
    sessions: Annotated[int, typer.Option(help="Their first so many sessions; 0: all.")] = 4,
    figures_file: Published = None,
    picture: Annotated[
        Path | None, typer.Option(help="NAME: draw that file as NAME-light.svg and NAME-dark.svg.")
    ] = None,
    cache_folder: Cache = None,
) -> None:
    """Costs and recall of JustMem and every installed peer, with one scripted model."""
    for name in install or ():
        typer.echo(f"Installing {name} into {_ENVIRONMENTS / name}")
        sidebyside.install(name, _ENVIRONMENTS, _run)
    systems = sidebyside.pythons(pairs(python or ()), _ENVIRONMENTS)
    if only:
        systems = {name: systems[name] for name in systems if name in only}
    bench = sidebyside.slice_of(benchmarks.load(benchmark, data), histories, sessions or None)
    known = recorded.read(benchmark, data) if benchmark == "locomo" else recorded.Recorded()
    embedder = build_embedder(parse([]), cache.folder(cache_folder))
    shutil.rmtree(_COMPARE, ignore_errors=True)
    found = asyncio.run(sidebyside.compare(systems, bench, embedder, known, _COMPARE, typer.echo))
    turns = sum(
        len(session.turns)
        for name in dict.fromkeys(case.history for case in bench.cases)
        for session in bench.history(name).sessions
    )
    title = f"{benchmarks.TITLES[benchmark]}: {turns:,} turns, {len(bench.cases)} questions"
    headings = ["", *(heading for heading, _, _ in sidebyside.COLUMNS)]
    show(Grid(title, headings, sidebyside.cells(found)))
    typer.echo(sidebyside.NOTE)
    for each in found:
        for note in each.notes:
            typer.echo(f"{each.system}: {note}")
    if not figures_file:
        return
    command = f"peers --benchmark {benchmark} --histories {histories} --sessions {sessions}"
    run = f"peers-{benchmark}-{histories}-{sessions}"
    for each in found:
        if not each.missing:
            words = f"justmem-eval {command} --system {each.system}"
            figures.write(figures_file, f"{run}-{each.system}", figures.of_run(each), words)
    for theme in pictures.THEMES if picture else ():
        drawn = sidebyside.drawn(run, figures.read(figures_file), theme)
        Path(f"{picture}-{theme}.svg").write_text(drawn, "utf-8")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        raise InvalidSetting(f"{' '.join(command)} failed with status {done.returncode}.")
