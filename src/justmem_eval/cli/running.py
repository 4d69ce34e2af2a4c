"""One run, the tables of the paper, and two runs compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from justmem.errors import InvalidSetting
from justmem_eval import cache, results, tables
from justmem_eval.cli.shared import (
    Cache,
    Data,
    Limit,
    Switch,
    grid,
    measure,
    out,
    pairs,
    show_run,
)
from justmem_eval.estimate import Estimate, estimate
from justmem_eval.metrics import Recalls
from justmem_eval.protocol import Files
from justmem_eval.results import RunFigures, by_words
from justmem_eval.runs import OWN, PeerSettings, Settings, benchmark_of, select

Model = Annotated[str, typer.Option(help="rules, openai:NAME, openai:NAME@URL, batch:NAME or ...")]
JudgeModel = Annotated[str, typer.Option("--judge", help="The judge's model. Default: --model.")]
Runs = Annotated[int, typer.Option("--runs", help="Answer-and-judge runs over fixed evidence.")]
Parallel = Annotated[int, typer.Option(help="Things done at once.")]
CapOption = Annotated[int | None, typer.Option("--cap", help="Tokens never to be passed.")]
Yes = Annotated[bool, typer.Option("--yes", help="Start without asking.")]
Origin = Annotated[str | None, typer.Option(help="recorded, rules or model.")]
In = Annotated[float, typer.Option("--price-in", help="Of a million input tokens.")]
Made = Annotated[float, typer.Option("--price-out", help="Of a million output tokens.")]
PeerEmbedder = Annotated[str, typer.Option(help="A peer's embedder, as its server knows it.")]
PeerDimensions = Annotated[int, typer.Option(help="The length of its vectors.")]


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
    category: Annotated[str | None, typer.Option(help="Only this category.")] = None,
    cap: CapOption = None,
    price_in: In = 0.0,
    price_out: Made = 0.0,
    python: Annotated[str, typer.Option(help="Python of a peer's environment.")] = "",
    adapter: Annotated[Path | None, typer.Option(help="An adapter of your own.")] = None,
    patience: Annotated[float, typer.Option(help="Seconds of silence of a peer.")] = 1800.0,
    peer_embedder: PeerEmbedder = "text-embedding-3-small",
    peer_dimensions: PeerDimensions = 1536,
    yes: Yes = False,
    cache_folder: Cache = None,
) -> None:
    """One system on one benchmark: build and retrieve once, answer and judge five times."""
    given = Settings(
        benchmark=select(benchmark, data, category, limit),
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
        category=category,
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
    cards: Origin = None,
    plans: Origin = None,
    system: Annotated[list[str] | None, typer.Option(help="Only these systems.")] = None,
    benchmark: Annotated[list[str] | None, typer.Option(help="Only these.")] = None,
    python: Annotated[list[str] | None, typer.Option(help="PEER=PYTHON, for each peer.")] = None,
    peer_embedder: PeerEmbedder = "text-embedding-3-small",
    peer_dimensions: PeerDimensions = 1536,
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
        wanted_systems, wanted_benchmarks = system or [line.system], benchmark or [line.benchmark]
        if line.system not in wanted_systems or line.benchmark not in wanted_benchmarks:
            continue
        if line.slug in given:
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
            cards=_origin(cards),
            plans=_origin(plans),
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
    words = {
        slug: told
        for slug, each in given.items()
        if each.benchmark.name in tables.placed_by_words(found)
        and (told := by_words(to / slug, each.benchmark))
    }
    _show_table(wanted, found, to, words)


def _show_table(
    table: tables.Table, found: Mapping[str, RunFigures], to: Path, words: Mapping[str, Recalls]
) -> None:
    out().print(grid(table.title, tables.headings(table, found), tables.cells(table, found)))
    out().print(grid("What recall counts", tables.RECALLS, tables.recalls(found, words)))
    judged = {slug: each for slug, each in found.items() if each.judged}
    if tests := tables.tested(table, {slug: to / slug for slug in judged}):
        out().print(grid("Flips, wrong to right / right to wrong", tables.TESTED, tests))
    if judged:
        out().print(grid("Judges and answer keys", tables.JUDGED, tables.judged(judged)))
    for slug, each in found.items():
        if each.errors:
            typer.echo(f"{slug}: errors {dict(each.errors)}")


def compare(
    a: Annotated[Path, typer.Argument(help="The folder of a run.")],
    b: Annotated[Path, typer.Argument(help="The folder of another.")],
    data: Annotated[Path | None, typer.Option(help="To show the questions' words.")] = None,
    most: Annotated[int, typer.Option(help="Questions shown of each kind.")] = 10,
) -> None:
    """Paired flips with the exact McNemar test, and the questions that flipped."""
    found = results.compare(a, b)
    named = [(f"run {n}", f) for n, f in enumerate(found.by_run, 1)]
    named.append(("majority", found.majority))
    rows = [
        [name, "", str(len(f.gained)), str(len(f.lost)), str(f.both), f"{f.p:.3g}"]
        for name, f in named
    ]
    title = f"{found.first} -> {found.second}"
    out().print(grid(title, ["", "", "wrong to right", "right to wrong", "both right", "p"], rows))
    cases = benchmark_of(a, data).cases if data is not None else ()
    texts = {c.question.id: (c.question.text, c.gold.answer) for c in cases}
    first, second = Files(a).predictions(1), Files(b).predictions(1)
    flipped = (("wrong to right", found.majority.gained), ("right to wrong", found.majority.lost))
    for kind, ids in flipped:
        for id in ids[:most]:
            text, gold = texts.get(id, ("", ""))
            typer.echo(f"{kind}  {id}  {text}")
            if gold:
                typer.echo(f"    gold    {gold}")
            for name, told in ((found.first, first.get(id)), (found.second, second.get(id))):
                typer.echo(f"    {name}: {told.answer if told else '-'}")


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
