"""One run, all keyless runs, the tables of the paper, and two runs compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from justmem_eval import figures, results, tables
from justmem_eval.benchmarks import LOADERS
from justmem_eval.cli.measuring import placed
from justmem_eval.cli.shared import (
    Cache,
    Data,
    Limit,
    PeerEmbedder,
    Published,
    Pythons,
    Switch,
    by_peer,
    measure,
    named,
    show,
    show_run,
)
from justmem_eval.estimate import estimate
from justmem_eval.records import Files
from justmem_eval.results import Measured, with_words
from justmem_eval.settings import (
    EMBEDDER,
    OWN,
    Origin,
    Settings,
    benchmark_of,
    code_digest,
    select,
)

Model = Annotated[
    str, typer.Option(help="rules, openai:NAME[@URL], batch:NAME[@URL], recorded:FILE")
]
JudgeModel = Annotated[str, typer.Option("--judge", help="The judge's model. Default: --model.")]
Runs = Annotated[int, typer.Option("--runs", help="Times to answer and judge, with a model.")]
Parallel = Annotated[int, typer.Option(help="Things done at once.")]
CapOption = Annotated[int | None, typer.Option("--cap", help="Tokens never to be passed.")]
Price = Annotated[
    tuple[float, float], typer.Option(help="Of a million tokens in, and of a million out.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Start without asking.")]
By = Annotated[Origin | None, typer.Option(help="recorded, rules or model.")]

FREE = (0.0, 0.0)
_SHOWN = 10  # flipped questions of each kind


def run(
    data: Data,
    to: Annotated[
        Path | None, typer.Option("--out", help="The run's folder; resumed if there.")
    ] = None,
    benchmark: Annotated[str, typer.Option(help=", ".join(LOADERS))] = "locomo",
    system: Annotated[
        str,
        typer.Option(help="justmem, none, fulltext, naive_rag, a peer, or an adapter's path."),
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
    peer_embedder: PeerEmbedder = EMBEDDER,
    yes: Yes = False,
    figures_file: Published = None,
    cache: Cache = None,
) -> None:
    """One system on one benchmark: build and retrieve once, then answer and judge. Without a
    model: recall, tokens, and what the answers by rules cite."""
    name, peer = named(system, python, peer_embedder)
    given = Settings(
        benchmark=select(benchmark, data, limit=limit),
        data=data,
        system=name,
        model=model,
        judge=judge or model,
        cards=cards,
        plans=plans,
        switches=switch or (),
        runs=1 if model == "rules" else number,
        parallel=parallel,
        limit=limit,
        cap=cap,
        peer=peer,
    )
    _agree([given], price, yes)
    with TemporaryDirectory(prefix="justmem-eval-") as folder:
        found = measure(given, to or Path(folder), cache)
    show_run(found)
    if figures_file:
        figures.publish(figures_file, given, found)


# Benchmark, cards, plans, questions.
KEYLESS: tuple[tuple[str, Origin, Origin, int | None], ...] = (
    ("locomo", "rules", "rules", None),
    ("locomo", "rules", "recorded", None),
    ("locomo", "recorded", "recorded", None),
    ("longmemeval", "rules", "rules", 26),
    ("locomo_plus", "rules", "rules", None),
    ("locomo_plus", "recorded", "recorded", None),
    ("living", "rules", "rules", None),
    ("harm", "rules", "rules", None),
)


def everything(
    data: Data,
    limit: Limit = None,
    switch: Switch = None,
    to: Annotated[Path, typer.Option("--out", help="Keep the runs here.")] = Path("build/eval"),
    figures_file: Published = None,
    cache: Cache = None,
) -> None:
    """The figures of the documents that need no model. A killed run continues where it was, as
    long as the code is the same."""
    for name, cards, plans, most in KEYLESS:
        given = Settings(
            benchmark=select(name, data, limit=limit or most),
            data=data,
            cards=cards,
            plans=plans,
            switches=("reranker=none", *(switch or ())),
            runs=1,
            limit=limit or most,
        )
        found = measure(given, to / code_digest() / f"{name}-{cards}-{plans}", cache)
        show_run(found)
        if figures_file:
            figures.publish(figures_file, given, found)
    placed(data, figures_file)


def table(
    name: Annotated[str, typer.Argument(help=tables.NUMBERED)],
    data: Data,
    to: Annotated[Path, typer.Option("--out", help="A folder with one run in each folder.")],
    model: Model = "rules",
    judge: JudgeModel = "",
    benchmark: Annotated[list[str] | None, typer.Option(help="Only these.")] = None,
    python: Pythons = None,
    peer_embedder: PeerEmbedder = EMBEDDER,
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
    pythons = by_peer(python)
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
            runs=1 if model == "rules" else number,
            parallel=parallel,
            limit=limit,
            category=line.category,
            cap=cap,
            peer=named(line.system, pythons.get(line.system, ""), peer_embedder)[1],
        )
    _agree(list(given.values()), price, yes)
    ledger = to / "spent.txt"
    found = {slug: measure(each, to / slug, cache, ledger) for slug, each in given.items()}
    if any(each.placed_by_words for each in found.values()):
        found = {slug: with_words(found[slug], to / slug, given[slug].benchmark) for slug in given}
    _show_table(wanted, found, to)


def _show_table(wanted: tables.Table, found: Mapping[str, Measured], to: Path) -> None:
    show(tables.grid(wanted, found))
    show(tables.recalls(found.values()))
    if judged := {slug: each for slug, each in found.items() if each.judged}:
        if (tests := tables.tested(wanted, {slug: to / slug for slug in judged})).rows:
            show(tests)
        show(tables.judged(judged.values()))
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
