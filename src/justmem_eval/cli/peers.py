"""peer-check: try an adapter before a long run. peers: JustMem and other systems side by side."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any

import typer

from justmem.errors import InvalidSetting
from justmem.testing import serve_openai
from justmem_eval import benchmarks, cache, figures, peer_check, pictures, sidebyside
from justmem_eval.benchmarks import recorded
from justmem_eval.cli.shared import Cache, Data, Json, Published, grid, out, pairs
from justmem_eval.meter import metering
from justmem_eval.peer_check import Checked
from justmem_eval.records import write_json
from justmem_eval.runs import PeerSettings, peer_settings, upstream
from justmem_eval.scripted import Scripted, scripted_settings
from justmem_eval.switches import parse
from justmem_eval.systems.justmem import build_embedder
from justmem_eval.systems.peer import NAMES

_ENVIRONMENTS = Path("build/peers")
_COMPARE = Path("build/compare")


def check(
    adapter: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or the path of an adapter.")],
    python: Annotated[str, typer.Option(help="Python of the peer's environment.")] = sys.executable,
    model: Annotated[
        str, typer.Option(help="openai:NAME or openai:NAME@URL. Default: a scripted one.")
    ] = "",
    peer_embedder: Annotated[
        str, typer.Option(help="Its embedder, as its server knows it.")
    ] = "text-embedding-3-small",
    peer_dimensions: Annotated[int, typer.Option(help="The length of its vectors.")] = 1536,
    patience: Annotated[float, typer.Option(help="Seconds of silence of the peer.")] = 300.0,
) -> None:
    """Three sessions in, the process killed, a new one asked: evidence, sources, calls, tokens."""
    path = Path(adapter)
    own = path if path.suffix == ".py" else None
    name = path.stem if own else adapter
    folder = Path(mkdtemp(prefix="justmem-peer-check-"))

    async def work(url: str, settings: dict[str, Any]) -> Checked:
        with metering(url) as meter:
            return await peer_check.check(
                name, python, meter, settings, folder, adapter=own, patience=patience
            )

    if model:
        peer = PeerSettings(embedder=peer_embedder, dimensions=peer_dimensions)
        found = asyncio.run(work(upstream(model) or "", peer_settings(model, peer)))
    else:
        embedder = build_embedder(parse([]), cache.folder())
        played = Scripted([peer_check.HISTORY], embedder, plans=peer_check.QUESTIONS)
        with serve_openai(played) as served:
            found = asyncio.run(work(served.url, scripted_settings(embedder)))
    typer.echo(peer_check.shown(found))
    if not found.problems:
        shutil.rmtree(folder)
    else:
        typer.echo(f"The adapter's log: {folder / 'peer.log'}")
        raise typer.Exit(1)


def side_by_side(
    data: Data,
    only: Annotated[list[str] | None, typer.Option("--system", help="Only these.")] = None,
    python: Annotated[list[str] | None, typer.Option(help="PEER=PYTHON, for each peer.")] = None,
    install: Annotated[
        list[str] | None, typer.Option(help=f"Install with pip: {', '.join(sidebyside.PACKAGES)}.")
    ] = None,
    environments: Annotated[Path, typer.Option(help="Where they are installed.")] = _ENVIRONMENTS,
    to: Annotated[Path, typer.Option("--out", help="What the systems keep.")] = _COMPARE,
    benchmark: str = "locomo",
    histories: Annotated[int, typer.Option(help="The first so many conversations.")] = 1,
    sessions: Annotated[int, typer.Option(help="Their first so many sessions; 0: all.")] = 4,
    picture: Annotated[Path | None, typer.Option(help="NAME: write NAME-light.svg, ...")] = None,
    json_file: Json = None,
    figures_file: Published = None,
    patience: Annotated[float, typer.Option(help="Seconds of silence of a peer.")] = 900.0,
    cache_folder: Cache = None,
) -> None:
    """Costs and recall of JustMem and every installed peer, with one scripted model."""
    for name in install or ():
        typer.echo(f"Installing {name} into {environments / name}")
        sidebyside.install(name, environments, _run)
    systems = sidebyside.pythons(pairs(python or ()), environments)
    if only:
        systems = {name: systems[name] for name in systems if name in only}
    bench = sidebyside.slice_of(benchmarks.load(benchmark, data), histories, sessions or None)
    known = recorded.read(benchmark, data) if benchmark == "locomo" else recorded.Recorded()
    embedder = build_embedder(parse([]), cache.folder(cache_folder))
    shutil.rmtree(to, ignore_errors=True)
    found = asyncio.run(
        sidebyside.compare(systems, bench, embedder, known, to, typer.echo, patience)
    )
    turns = sum(
        len(session.turns)
        for name in dict.fromkeys(case.history for case in bench.cases)
        for session in bench.history(name).sessions
    )
    title = f"{benchmarks.TITLES[benchmark]}: {turns:,} turns, {len(bench.cases)} questions"
    out().print(grid(title, sidebyside.HEADINGS, sidebyside.cells(found)))
    typer.echo(sidebyside.NOTE)
    for each in found:
        if each.error:
            typer.echo(f"{each.system}: {each.error}")
    if json_file:
        write_json(json_file, [each.model_dump(mode="json") for each in found])
    if figures_file:
        run = f"peers --benchmark {benchmark} --histories {histories} --sessions {sessions}"
        for each in found:
            if not each.missing:
                name = f"peers-{benchmark}-{histories}-{sessions}-{each.system}"
                command = f"justmem-eval {run} --system {each.system}"
                figures.write(figures_file, name, figures.of_peer(each), command)
    if picture:
        for path in _drawn(picture, title, [each for each in found if not each.missing]):
            typer.echo(str(path))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        raise InvalidSetting(f"{' '.join(command)} failed with status {done.returncode}.")


def _drawn(path: Path, title: str, found: Sequence[sidebyside.Compared]) -> list[Path]:
    panels = [
        pictures.Panel(title="tokens to build (log scale)", logarithmic=True),
        pictures.Panel(title="tokens a question"),
        pictures.Panel(title="turns found, ten pieces, %", most=100.0),
    ]
    rows = [
        pictures.Bar(
            name=sidebyside.TITLES.get(each.system, each.system),
            values=(
                float(each.build_tokens),
                each.tokens + (each.evidence_tokens.value or 0.0),
                each.turn_by_words.value,
            ),
            ours=each.system in sidebyside.OWN,
        )
        for each in found
    ]
    return pictures.write(path, title, panels, rows)
