"""run, table: with a language model, from build to verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from justmem.errors import InvalidSetting
from justmem_eval import cache, runs, tables
from justmem_eval.calls import CapReached
from justmem_eval.cli.shared import Cache, Data, Limit, Switch, bar, grid, out
from justmem_eval.estimate import NOTHING, Price
from justmem_eval.results import Recalls, RunFigures, by_words, failures, figures
from justmem_eval.runs import Description, Prepared
from justmem_eval.statistics import Spread

Model = Annotated[str, typer.Option(help="rules, openai:NAME or openai:NAME@URL.")]
JudgeModel = Annotated[str, typer.Option("--judge", help="The judge's model. Default: --model.")]
Out = Annotated[Path, typer.Option(help="The run's folder: it goes on where it was.")]
Runs = Annotated[int, typer.Option(help="Answer-and-judge runs over fixed evidence.")]
Parallel = Annotated[int, typer.Option(help="Things done at once.")]
CapOption = Annotated[int | None, typer.Option("--cap", help="Tokens never to be passed.")]
Yes = Annotated[bool, typer.Option("--yes", help="Start without asking.")]
JudgePrompt = Annotated[Path | None, typer.Option(help="A judge prompt of your own.")]
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
    judge_prompt: JudgePrompt = None,
    cards: Origin = None,
    plans: Origin = None,
    switch: Switch = None,
    number: Annotated[int, typer.Option("--runs", help="Answer-and-judge runs.")] = 5,
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
        judge_prompt=judge_prompt,
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
    _agree([prepared], Price(given=price_in, made=price_out), yes)
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
    number: Annotated[int, typer.Option("--runs", help="Answer-and-judge runs.")] = 5,
    parallel: Parallel = 4,
    limit: Limit = None,
    cap: CapOption = None,
    price_in: In = 0.0,
    price_out: Made = 0.0,
    yes: Yes = False,
    cache_folder: Cache = None,
) -> None:
    """One of the paper's tables, ours beside the paper's figures."""
    pythons = dict(_pair(each) for each in python or ())
    prepared: dict[str, Prepared] = {}
    for line in tables.table(name).lines:
        own = line.system in runs.OWN
        if (system and line.system not in system) or (
            benchmark and line.benchmark not in benchmark
        ):
            continue
        if not own and line.system not in pythons:
            typer.echo(f"{line.title}: left out, no --python {line.system}=... names its Python.")
            continue
        if line.slug not in prepared:
            given = Description(
                data=data,
                benchmark=line.benchmark,
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
                python=pythons.get(line.system, ""),
                peer_embedder=peer_embedder,
                peer_dimensions=peer_dimensions,
                peer_processes=peer_processes,
            )
            prepared[line.slug] = runs.prepare(given)
    _agree(list(prepared.values()), Price(given=price_in, made=price_out), yes)
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
    show_table(tables.table(name), found, {slug: to / slug for slug in found}, words)


def show_table(
    table: tables.Table,
    found: dict[str, RunFigures],
    folders: dict[str, Path],
    words: dict[str, Recalls],
) -> None:
    out().print(grid(table.title, tables.headings(table, found), tables.cells(table, found)))
    out().print(grid("What recall counts", tables.RECALLS, tables.recalls(found, words)))
    judged = {slug: folder for slug, folder in folders.items() if found[slug].judged}
    if tests := tables.tested(table, judged):
        out().print(grid("Flips, wrong to right / right to wrong", tables.TESTED, tests))
    if judged:
        rows = tables.judged({slug: found[slug] for slug in judged})
        out().print(grid("Judges and answer keys", tables.JUDGED, rows))
    for slug, each in found.items():
        if each.unjudged:
            typer.echo(f"{slug}: {each.unjudged} questions without a verdict in some run")
        if each.errors:
            typer.echo(f"{slug}: errors {dict(each.errors)}")


def show_run(found: RunFigures, folder: Path) -> None:
    rows = [
        ["accuracy", _spread(found.accuracy), f"{found.judged} judged"],
        ["  judge accepts wrong", str(found.false_positives), "planted wrong answers"],
        ["  judge refuses right", str(found.false_negatives), "planted right answers"],
        ["accuracy, lenient judge", _spread(found.lenient), "the same answers"],
        ["  judge accepts wrong", str(found.lenient_positives), ""],
        ["  judge refuses right", str(found.lenient_negatives), ""],
        [
            "accuracy, corrected key",
            _spread(found.corrected),
            f"{found.corrections} answers corrected",
        ],
        *(
            [f"  {name}", str(value) if value else "–", ""]
            for name, value in found.by_category.items()
        ),
        ["turn recall@10, fraction", str(found.turn_at_10.fraction), _counted(found, ten=True)],
        ["session recall@10, fraction", str(found.session_at_10.fraction), ""],
        ["turn recall, everything read", str(found.turn.fraction), _counted(found, ten=False)],
        ["session recall, everything read", str(found.session.fraction), ""],
        ["tokens: evidence", str(found.tokens.evidence), "per question"],
        ["session any@5", str(found.sessions_at_5.any), "first five sessions"],
        [
            "session all@5, strict",
            str(found.sessions_at_5.all),
            f"can reach {found.most_all_at_5}",
        ],
        ["source hit@1", str(found.sources.session_at_1), ""],
        ["tokens: construction", str(found.tokens.construction), "per history"],
        ["tokens: planning", str(found.tokens.planning), "per question"],
        ["tokens: answering", str(found.tokens.answering), "per question and run"],
        ["words per answer", str(found.words), ""],
        ["tokens: judging", str(found.tokens.judging), "not counted in the above"],
        *([f"errors: {stage}", str(count), ""] for stage, count in found.errors.items()),
    ]
    label = tables.titled(found.label, found)
    title = f"{label} on {found.benchmark}: {found.questions} questions, model {found.model}"
    out().print(grid(title, ["", "", ""], rows))
    for stage, id, reason in failures(folder)[:5]:
        typer.echo(f"  {stage}, {id}: {reason}")


def _spread(value: Spread | None) -> str:
    return str(value) if value else "–"


def _counted(found: RunFigures, *, ten: bool) -> str:
    """What a recall counts."""
    shown = found.shown
    cards, turns = (shown.cards_at_10, shown.turns_at_10) if ten else (shown.cards, shown.turns)
    if cards.value is None or turns.value is None:
        return ""
    placed = f", {shown.aligned.value:.0f} % placed by words" if shown.aligned.value else ""
    return f"{cards.value:.1f} cards, {turns.value:.1f} turns claimed{placed}"


def _agree(prepared: list[Prepared], price: Price, yes: bool) -> None:
    """Says what it will cost before anything is spent."""
    total = NOTHING
    for each in prepared:
        if each.estimate is not None:
            total = total.plus(each.estimate)
        elif each.description.model != "rules":
            typer.echo(f"{each.description.system}: what a peer spends is metered, not estimated.")
    if not total.calls:
        return
    cost = f", cost about {total.cost(price):,.2f}" if price.given or price.made else ""
    typer.echo(f"About {total.calls:,} calls and {total.tokens / 1e6:,.2f} M tokens{cost}.")
    cap = prepared[0].description.cap
    if cap is not None and cap < total.tokens:
        typer.echo(f"The cap of {cap:,} tokens will stop it before the end.")
    if not yes and not typer.confirm("Start?"):
        raise typer.Abort


def _do(prepared: Prepared, folder: Path, cache_folder: Path, ledger: Path | None = None) -> None:
    given = prepared.description
    with bar() as shown:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(f"{given.system} {stage}", total=total)
            shown.update(tasks[stage], completed=done)

        try:
            asyncio.run(runs.run(prepared, folder, cache_folder, progress, ledger=ledger))
        except CapReached as error:
            raise InvalidSetting(str(error)) from None


def _origin(given: str | None) -> Any:
    if given not in (None, "recorded", "rules", "model"):
        raise InvalidSetting(f"Cards and plans are recorded, rules or model, not {given!r}.")
    return given


def _pair(text: str) -> tuple[str, str]:
    name, equals, python = text.partition("=")
    if not equals:
        raise InvalidSetting(f"--python takes PEER=PYTHON here, not {text!r}.")
    return name, python
