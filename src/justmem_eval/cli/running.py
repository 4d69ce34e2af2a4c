"""One run, the tables of the paper, and two runs compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from justmem.errors import InvalidSetting
from justmem_eval import cache, report, results, tables
from justmem_eval.cli.shared import (
    Cache,
    Data,
    Limit,
    PeerDimensions,
    PeerEmbedder,
    Pythons,
    Switch,
    measure,
    pairs,
    show,
    show_run,
)
from justmem_eval.estimate import Estimate, estimate
from justmem_eval.records import Files
from justmem_eval.results import by_words
from justmem_eval.runs import (
    DIMENSIONS,
    EMBEDDER,
    OWN,
    PeerSettings,
    Settings,
    benchmark_of,
    select,
)

Model = Annotated[str, typer.Option(help="rules, openai:NAME, openai:NAME@URL, batch:NAME or ...")]
JudgeModel = Annotated[str, typer.Option("--judge", help="The judge's model. Default: --model.")]
Runs = Annotated[int, typer.Option("--runs", help="Answer-and-judge runs over fixed evidence.")]
Parallel = Annotated[int, typer.Option(help="Things done at once.")]
CapOption = Annotated[int | None, typer.Option("--cap", help="Tokens never to be passed.")]
Yes = Annotated[bool, typer.Option("--yes", help="Start without asking.")]
Origin = Annotated[str | None, typer.Option(help="recorded, rules or model.")]
In = Annotated[float, typer.Option("--price-in", help="Of a million input tokens.")]
Made = Annotated[float, typer.Option("--price-out", help="Of a million output tokens.")]
_SHOWN = 10  # flipped questions of each kind


def run(
    data: Data,
    to: Annotated[Path, typer.Option("--out", help="The run's folder; resumed if there.")],
    benchmark: str = "locomo",
    system: Annotated[
        str, typer.Option(help="justmem, none, fulltext, naive_rag or a peer.")
    ] = "justmem",
    model: Model = "rules",
    judge: JudgeModel = "",
    cards: Origin = None,
    plans: Origin = None,
    switch: Switch = None,
    number: Runs = 5,
    parallel: Parallel = 4,
    limit: Limit = None,
    cap: CapOption = None,
    price_in: In = 0.0,
    price_out: Made = 0.0,
    python: Annotated[str, typer.Option(help="Python of a peer's environment.")] = "",
    adapter: Annotated[Path | None, typer.Option(help="An adapter of your own.")] = None,
    patience: Annotated[float, typer.Option(help="Seconds of silence of a peer.")] = 1800.0,
    peer_embedder: PeerEmbedder = EMBEDDER,
    peer_dimensions: PeerDimensions = DIMENSIONS,
    yes: Yes = False,
    cache_folder: Cache = None,
) -> None:
    """One system on one benchmark: build and retrieve once, answer and judge five times."""
    given = Settings(
        benchmark=select(benchmark, data, limit=limit),
        data=data,
        system=system,
        model=model,
        judge=judge or ("" if model == "rules" else model),
        cards=_origin(cards),
        plans=_origin(plans),
        switches=tuple(switch or ()),
        runs=number,
        parallel=parallel,
        limit=limit,
        cap=cap,
        peer=PeerSettings(
            python=python,
            adapter=adapter,
            patience=patience,
            embedder=peer_embedder,
            dimensions=peer_dimensions,
        ),
    )
    _agree([given], price_in, price_out, yes)
    show_run(measure(given, to, cache.folder(cache_folder)), to)


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
    price_in: In = 0.0,
    price_out: Made = 0.0,
    yes: Yes = False,
    cache_folder: Cache = None,
) -> None:
    """One of the paper's tables, ours beside the paper's figures."""
    pythons = pairs(python or ())
    wanted = tables.table(name)
    given: dict[str, Settings] = {}
    for line in wanted.lines:
        if line.slug in given or (benchmark and line.benchmark not in benchmark):
            continue
        if line.system not in OWN and line.system not in pythons:
            typer.echo(f"{line.title}: left out, no --python {line.system}=... names its Python.")
            continue
        given[line.slug] = Settings(
            benchmark=select(line.benchmark, data, line.category, limit),
            data=data,
            system=line.system,
            label=line.title,
            model=model,
            judge=judge or ("" if model == "rules" else model),
            switches=(*line.switches, *(switch or ())),
            runs=number,
            parallel=parallel,
            limit=limit,
            category=line.category,
            cap=cap,
            peer=PeerSettings(
                python=pythons.get(line.system, ""),
                embedder=peer_embedder,
                dimensions=peer_dimensions,
            ),
        )
    _agree(list(given.values()), price_in, price_out, yes)
    found = {
        slug: measure(each, to / slug, cache.folder(cache_folder), to / "spent.txt")
        for slug, each in given.items()
    }
    show(tables.grid(wanted, found))
    words = {}
    if any(each.placed_by_words for each in found.values()):
        words = {slug: by_words(to / slug, each.benchmark) for slug, each in given.items()}
    show(report.recalls(found, words))
    judged = {slug: each for slug, each in found.items() if each.judged}
    if (tests := tables.tested(wanted, {slug: to / slug for slug in judged})).rows:
        show(tests)
    if judged:
        show(report.judged(judged))
    for slug, each in found.items():
        if each.errors:
            typer.echo(f"{slug}: errors {dict(each.errors)}")


def compare(
    a: Annotated[Path, typer.Argument(help="The folder of a run.")],
    b: Annotated[Path, typer.Argument(help="The folder of another.")],
    data: Data,
) -> None:
    """Paired flips with the exact McNemar test, and the questions that flipped."""
    before, after = Files(a), Files(b)
    flips = results.compare(before, after)
    gained, lost = len(flips.gained), len(flips.lost)
    typer.echo(f"{results.label(before.pinned())} -> {results.label(after.pinned())}")
    typer.echo(f"wrong to right {gained}, right to wrong {lost}, both right {flips.both}")
    typer.echo(f"p {flips.p:.3g} (exact McNemar)")
    cases = {case.question.id: case for case in benchmark_of(a, data).cases}
    for kind, ids in (("wrong to right", flips.gained), ("right to wrong", flips.lost)):
        for id in ids[:_SHOWN]:
            typer.echo(f"{kind}  {id}  {cases[id].question.text}")
            typer.echo(f"    gold    {cases[id].gold.answer}")
            for files in (before, after):
                told = files.predictions(1).get(id)
                typer.echo(f"    {results.label(files.pinned())}: {told.answer if told else '-'}")


def _agree(given: list[Settings], price_in: float, price_out: float, yes: bool) -> None:
    """Says what it will cost before anything is spent."""
    total = Estimate()
    for each in given:
        if not estimate(each, total):
            typer.echo(f"{each.system}: what a peer spends is metered, not estimated.")
    if not total.calls:
        return
    money = (total.tokens_in * price_in + total.tokens_out * price_out) / 1e6
    cost = f", cost about {money:,.2f}" if money else ""
    typer.echo(f"About {total.calls:,} calls and {total.tokens / 1e6:,.2f} M tokens{cost}.")
    cap = given[0].cap
    if cap is not None and cap < total.tokens:
        typer.echo(f"The cap of {cap:,} tokens will stop it before the end.")
    if not yes and not typer.confirm("Start?"):
        raise typer.Abort


def _origin(given: str | None) -> Any:
    if given not in (None, "recorded", "rules", "model"):
        raise InvalidSetting(f"Cards and plans are recorded, rules or model, not {given!r}.")
    return given
