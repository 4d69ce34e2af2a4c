"""run, table, compare: with a language model, from build to verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from justmem.errors import InvalidSetting
from justmem_eval import cache, results, runs, tables
from justmem_eval.calls import CapReached
from justmem_eval.cli.shared import Cache, Data, Limit, Switch, bar, grid, out, pairs
from justmem_eval.estimate import Estimate, estimate
from justmem_eval.metrics import Recalls
from justmem_eval.protocol import Files
from justmem_eval.results import RunFigures, by_words, failures, figures
from justmem_eval.runs import Description, Prepared
from justmem_eval.tables import shown

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
PeerProcesses = Annotated[int, typer.Option(help="Processes of a peer, each with its histories.")]


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
    peer_processes: PeerProcesses = 1,
    yes: Yes = False,
    cache_folder: Cache = None,
) -> None:
    """One system on one benchmark: build and retrieve once, answer and judge five times."""
    given = Description(
        data=data,
        benchmark=benchmark,
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
        python=python,
        adapter=adapter,
        patience=patience,
        peer_embedder=peer_embedder,
        peer_dimensions=peer_dimensions,
        peer_processes=peer_processes,
    )
    prepared = runs.prepare(given)
    _agree([prepared], price_in, price_out, yes)
    _do(prepared, to, cache.folder(cache_folder))
    show_run(figures(to, prepared.benchmark), to)


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
    peer_processes: PeerProcesses = 1,
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
    common = Description(
        data=data,
        benchmark="",
        model=model,
        judge=judge or ("" if model == "rules" else model),
        cards=_origin(cards),
        plans=_origin(plans),
        runs=number,
        parallel=parallel,
        limit=limit,
        cap=cap,
        peer_embedder=peer_embedder,
        peer_dimensions=peer_dimensions,
        peer_processes=peer_processes,
    )
    pythons = pairs(python or ())
    wanted = tables.table(name)
    prepared: dict[str, Prepared] = {}
    for line in wanted.lines:
        if (system and line.system not in system) or (
            benchmark and line.benchmark not in benchmark
        ):
            continue
        if line.system not in runs.OWN and line.system not in pythons:
            typer.echo(f"{line.title}: left out, no --python {line.system}=... names its Python.")
            continue
        if line.slug not in prepared:
            own = {
                "benchmark": line.benchmark,
                "system": line.system,
                "label": line.title,
                "switches": (*line.switches, *(switch or ())),
                "category": line.category,
                "python": pythons.get(line.system, ""),
            }
            prepared[line.slug] = runs.prepare(common.model_copy(update=own))
    _agree(list(prepared.values()), price_in, price_out, yes)
    found: dict[str, RunFigures] = {}
    for slug, each in prepared.items():
        _do(each, to / slug, cache.folder(cache_folder), to / "spent.txt")
        found[slug] = figures(to / slug, each.benchmark)
    words = {
        slug: told
        for slug, each in prepared.items()
        if each.description.benchmark in tables.placed_by_words(found)
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


def show_run(found: RunFigures, folder: Path) -> None:
    turn, session, costs, tokens = found.turn, found.session, found.costs, found.tokens
    ten = f"{costs.cards_at_10.short()} cards, {costs.turns_at_10.short()} turns claimed"
    read = f"{costs.cards_read.short()} cards, {costs.turns_claimed.short()} turns claimed"
    rows = [["accuracy", shown(found.accuracy), f"{found.judged} judged"]]
    for name, judge in found.judges.items():
        rows.append([f"  {name} judge", shown(judge.accuracy), "the same answers"])
        rows.append(["    accepts wrong", str(judge.accepts_wrong), "planted wrong answers"])
        rows.append(["    refuses right", str(judge.refuses_right), "planted right answers"])
    corrections = f"{found.corrections} answers corrected"
    rows.append(["  corrected key", shown(found.corrected), corrections])
    rows += [[f"  {name}", shown(value), ""] for name, value in found.by_category.items()]
    rows += [
        ["turn recall@10, fraction", str(turn.ten.fraction), ten],
        ["session recall@10, fraction", str(session.ten.fraction), ""],
        ["turn recall, everything read", str(turn.read.fraction), read],
        ["session recall, everything read", str(session.read.fraction), ""],
        ["  placed by words", str(costs.aligned), "percent of the pieces"],
        ["session any@5", str(found.sessions_at_5.any), "first five sessions"],
        ["session all@5", str(found.sessions_at_5.all), f"can reach {found.most_all_at_5}"],
        ["source hit@1", str(found.source_hit), ""],
        ["tokens: evidence", str(tokens.evidence), "per question"],
        ["tokens: construction", str(tokens.construction), "per history"],
        ["tokens: planning", str(tokens.planning), "per question"],
        ["tokens: answering", str(tokens.answering), "per question and run"],
        ["tokens: judging", str(tokens.judging), "not counted in the above"],
        ["words per answer", str(found.words), ""],
        *([f"errors: {stage}", str(count), ""] for stage, count in found.errors.items()),
    ]
    label = found.titled(found.label)
    title = f"{label} on {found.benchmark}: {found.questions} questions, model {found.model}"
    out().print(grid(title, ["", "", ""], rows))
    for stage, id, reason in failures(folder)[:5]:
        typer.echo(f"  {stage}, {id}: {reason}")


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
    cases = runs.benchmark_of(a, data).cases if data is not None else ()
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


def _agree(prepared: list[Prepared], price_in: float, price_out: float, yes: bool) -> None:
    """Says what it will cost before anything is spent."""
    total = Estimate()
    for each in prepared:
        if not estimate(each, total):
            typer.echo(f"{each.description.system}: what a peer spends is metered, not estimated.")
    if not total.calls:
        return
    money = (total.tokens_in * price_in + total.tokens_out * price_out) / 1e6
    cost = f", cost about {money:,.2f}" if money else ""
    typer.echo(f"About {total.calls:,} calls and {total.tokens / 1e6:,.2f} M tokens{cost}.")
    cap = prepared[0].description.cap
    if cap is not None and cap < total.tokens:
        typer.echo(f"The cap of {cap:,} tokens will stop it before the end.")
    if not yes and not typer.confirm("Start?"):
        raise typer.Abort


def _do(prepared: Prepared, folder: Path, cache_folder: Path, ledger: Path | None = None) -> None:
    given = prepared.description
    with bar() as shown_bar:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown_bar.add_task(f"{given.system} {stage}", total=total)
            shown_bar.update(tasks[stage], completed=done)

        try:
            asyncio.run(runs.run(prepared, folder, cache_folder, progress, ledger=ledger))
        except CapReached as error:
            raise InvalidSetting(str(error)) from None


def _origin(given: str | None) -> Any:
    if given not in (None, "recorded", "rules", "model"):
        raise InvalidSetting(f"Cards and plans are recorded, rules or model, not {given!r}.")
    return given
