"""One run, the tables of the paper, two runs compared, and other systems."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

from justmem_eval import benchmarks, figures, results, sidebyside, tables
from justmem_eval import peer_check as checks
from justmem_eval.benchmarks import recorded
from justmem_eval.cli.shared import Cache, Data, Limit, Published, Switch, measure, show, show_run
from justmem_eval.estimate import estimate
from justmem_eval.models import cache_folder
from justmem_eval.records import Files
from justmem_eval.results import by_words
from justmem_eval.settings import (
    DIMENSIONS,
    EMBEDDER,
    OWN,
    Origin,
    PeerSettings,
    Settings,
    benchmark_of,
    parse,
    select,
)
from justmem_eval.systems.justmem import build_embedder
from justmem_eval.systems.peer import NAMES
from justmem_eval.tables import Grid

Model = Annotated[str, typer.Option(help="rules, openai:NAME, openai:NAME@URL, batch:NAME or ...")]
JudgeModel = Annotated[str, typer.Option("--judge", help="The judge's model. Default: --model.")]
Runs = Annotated[int, typer.Option("--runs", help="Answer-and-judge runs over fixed evidence.")]
Parallel = Annotated[int, typer.Option(help="Things done at once.")]
CapOption = Annotated[int | None, typer.Option("--cap", help="Tokens never to be passed.")]
Price = Annotated[
    tuple[float, float], typer.Option(help="Of a million tokens in, and of a million out.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Start without asking.")]
By = Annotated[Origin | None, typer.Option(help="recorded, rules or model.")]
Pythons = Annotated[list[str] | None, typer.Option("--python", help="PEER=PYTHON, for each peer.")]
PeerEmbedder = Annotated[str, typer.Option(help="A peer's embedder, as its server knows it.")]
PeerDimensions = Annotated[int, typer.Option(help="The length of its vectors.")]

FREE = (0.0, 0.0)
_SHOWN = 10  # flipped questions of each kind
_COMPARE = Path("build/compare")
_PATIENCE = 300.0  # seconds without a sign of life, for three short sessions


def run(
    data: Data,
    to: Annotated[Path, typer.Option("--out", help="The run's folder; resumed if there.")],
    benchmark: str = "locomo",
    system: Annotated[
        str, typer.Option(help="justmem, none, fulltext, naive_rag or a peer.")
    ] = "justmem",
    model: Model = "rules",
    judge: JudgeModel = "",
    cards: By = None,
    plans: By = None,
    switch: Switch = None,
    number: Runs = 5,
    parallel: Parallel = 4,
    limit: Limit = None,
    cap: CapOption = None,
    price: Price = FREE,
    python: Annotated[str, typer.Option(help="Python of a peer's environment.")] = "",
    adapter: Annotated[Path | None, typer.Option(help="An adapter of your own.")] = None,
    peer_embedder: PeerEmbedder = EMBEDDER,
    peer_dimensions: PeerDimensions = DIMENSIONS,
    yes: Yes = False,
    cache: Cache = None,
) -> None:
    """One system on one benchmark: build and retrieve once, answer and judge five times."""
    given = Settings(
        benchmark=select(benchmark, data, limit=limit),
        data=data,
        system=system,
        model=model,
        judge=judge or model,
        cards=cards,
        plans=plans,
        switches=switch or (),
        runs=number,
        parallel=parallel,
        limit=limit,
        cap=cap,
        peer=PeerSettings(python, adapter, peer_embedder, peer_dimensions),
    )
    _agree([given], price, yes)
    show_run(measure(given, to, cache))


def table(
    name: Annotated[str, typer.Argument(help=tables.NUMBERED)],
    data: Data,
    to: Annotated[Path, typer.Option("--out", help="A folder with one run in each folder.")],
    model: Model = "rules",
    judge: JudgeModel = "",
    benchmark: Annotated[list[str] | None, typer.Option(help="Only these.")] = None,
    python: Pythons = None,
    peer_embedder: PeerEmbedder = EMBEDDER,
    peer_dimensions: PeerDimensions = DIMENSIONS,
    switch: Switch = None,
    number: Runs = 5,
    parallel: Parallel = 4,
    limit: Limit = None,
    cap: CapOption = None,
    price: Price = FREE,
    yes: Yes = False,
    cache: Cache = None,
) -> None:
    """One of the paper's tables, ours beside the paper's figures."""
    pythons = _pythons(python)
    wanted = tables.table(name)
    given: dict[str, Settings] = {}
    for line in wanted.lines:
        if line.slug in given or (benchmark and line.benchmark not in benchmark):
            continue
        if line.system not in (*OWN, *pythons):
            typer.echo(f"{line.title}: left out, no --python {line.system}=... names its Python.")
            continue
        given[line.slug] = Settings(
            benchmark=select(line.benchmark, data, line.category, limit),
            data=data,
            system=line.system,
            label=line.title,
            model=model,
            judge=judge or model,
            switches=(*line.switches, *(switch or ())),
            runs=number,
            parallel=parallel,
            limit=limit,
            category=line.category,
            cap=cap,
            peer=PeerSettings(pythons.get(line.system, ""), None, peer_embedder, peer_dimensions),
        )
    _agree(list(given.values()), price, yes)
    ledger = to / "spent.txt"
    found = {slug: measure(each, to / slug, cache, ledger) for slug, each in given.items()}
    show(tables.grid(wanted, found))
    words = {}
    if any(each.placed_by_words for each in found.values()):
        words = {slug: by_words(to / slug, each.benchmark) for slug, each in given.items()}
    show(tables.recalls(found, words))
    if judged := {slug: each for slug, each in found.items() if each.judged}:
        if (tests := tables.tested(wanted, {slug: to / slug for slug in judged})).rows:
            show(tests)
        show(tables.judged(judged))
    for slug, each in found.items():
        if each.errors:
            typer.echo(f"{slug}: errors {each.errors}")


def compare(
    a: Annotated[Path, typer.Argument(help="The folder of a run.")],
    b: Annotated[Path, typer.Argument(help="The folder of another.")],
    data: Data,
) -> None:
    """Paired flips with the exact McNemar test, and the questions that flipped."""
    flips = results.compare(a, b)
    told = [(results.label(Files(each).pinned()), Files(each).predictions(1)) for each in (a, b)]
    typer.echo(" -> ".join(label for label, _ in told))
    gained, lost = len(flips.gained), len(flips.lost)
    typer.echo(f"wrong to right {gained}, right to wrong {lost}, both right {flips.both}")
    typer.echo(f"p {flips.p:.3g} (exact McNemar)")
    cases = {case.question.id: case for case in benchmark_of(a, data).cases}
    for kind, ids in (("wrong to right", flips.gained), ("right to wrong", flips.lost)):
        for id in ids[:_SHOWN]:
            typer.echo(f"{kind}  {id}  {cases[id].question.text}")
            typer.echo(f"    gold    {cases[id].gold.answer}")
            for label, answers in told:
                typer.echo(f"    {label}: {answers[id].answer}")


def _agree(given: list[Settings], price: tuple[float, float], yes: bool) -> None:
    """Says what it will cost before anything is spent."""
    for each in given:
        if each.is_peer:
            typer.echo(f"{each.system}: what a peer spends is metered, not estimated.")
    found = [estimate(each) for each in given]
    if not (calls := sum(each.calls for each in found)):
        return
    tokens = sum(each.tokens for each in found)
    money = sum(price[0] * each.tokens_in + price[1] * each.tokens_out for each in found) / 1e6
    cost = f", cost about {money:,.2f}" if money else ""
    typer.echo(f"About {calls:,} calls and {tokens / 1e6:,.2f} M tokens{cost}.")
    cap = given[0].cap
    if cap is not None and cap < tokens:
        typer.echo(f"The cap of {cap:,} tokens will stop it before the end.")
    if not yes and not typer.confirm("Start?"):
        raise typer.Abort


def _pythons(given: list[str] | None) -> dict[str, str]:
    """`--python PEER=PYTHON`, by peer."""
    found = {name: python for name, _, python in (text.partition("=") for text in given or ())}
    if not all(found.values()):
        raise typer.BadParameter("--python takes PEER=PYTHON.")
    return found


# ---------------------------------------------------------------- other systems


def peer_check(
    adapter: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or the path of an adapter.")],
    python: Annotated[str, typer.Option(help="Python of the peer's environment.")] = sys.executable,
    model: Annotated[
        str, typer.Option(help="openai:NAME or openai:NAME@URL. Default: a scripted one.")
    ] = "",
    peer_embedder: PeerEmbedder = EMBEDDER,
    peer_dimensions: PeerDimensions = DIMENSIONS,
) -> None:
    """Three sessions in, the process killed, a new one asked: evidence, sources, calls, tokens."""
    own = Path(adapter) if adapter.endswith(".py") else None
    folder = Path(mkdtemp(prefix="justmem-peer-check-"))
    peer = PeerSettings(python, own, peer_embedder, peer_dimensions, _PATIENCE)
    embedder = build_embedder(parse([]), cache_folder())
    found = checks.check(own.stem if own else adapter, model, peer, folder, embedder)
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
    systems = {**dict.fromkeys(sidebyside.OWN, sys.executable), **_pythons(python)}
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
