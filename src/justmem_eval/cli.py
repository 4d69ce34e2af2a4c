"""The `justmem-eval` command."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from justmem.errors import JustMemError
from justmem_eval import benchmarks, cache, goals, keyless, timing
from justmem_eval.benchmarks import TITLES, recorded
from justmem_eval.keyless import Summary
from justmem_eval.rows import Row
from justmem_eval.switches import parse
from justmem_eval.systems.local import LocalJustMem

app = typer.Typer(
    help="Measure memory systems so that anyone can check it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Data = Annotated[Path, typer.Option(help="The folder with the official files.")]


@app.callback()
def options() -> None:
    """Measure memory systems so that anyone can check it."""


@app.command()
def recall(
    data: Data,
    benchmark: Annotated[str, typer.Option(help=", ".join(benchmarks.NAMES))] = "locomo",
    cards: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    plans: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    limit: Annotated[int | None, typer.Option(help="About so many questions.")] = None,
    set: Annotated[list[str] | None, typer.Option(help="A switch: name=value.")] = None,
    timed: Annotated[int, typer.Option("--timing", help="Recalls to time, nothing cached.")] = 0,
    category: Annotated[str | None, typer.Option(help="Only this category.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    rows_file: Annotated[Path | None, typer.Option("--rows", help="Write each question.")] = None,
    cache_folder: Annotated[Path | None, typer.Option("--cache")] = None,
) -> None:
    """Recall, routing, source, token and answer figures without a language model."""
    summary, rows = measure(
        data, benchmark, cards, plans, set or [], limit, timed, category, cache_folder
    )
    typer.echo(shown(summary))
    if json_file:
        json_file.write_text(json.dumps(summary.model_dump(mode="json"), indent=1) + "\n")
    if rows_file:
        rows_file.write_text("".join(row.model_dump_json() + "\n" for row in rows))


@app.command("all")
def everything(
    data: Data,
    only: Annotated[list[str] | None, typer.Option(help="Only these rows, by name.")] = None,
    limit: Annotated[int | None, typer.Option(help="About so many questions a row.")] = None,
    set: Annotated[list[str] | None, typer.Option(help="A switch: name=value.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    cache_folder: Annotated[Path | None, typer.Option("--cache")] = None,
) -> None:
    """Every keyless figure, with the figure to reach beside it."""
    wanted = [goal for goal in goals.goals() if not only or goal.name in only]
    summaries: dict[str, Summary] = {}

    def one(goal: goals.Goal) -> Summary:
        summary, _ = measure(
            data,
            goal.benchmark,
            goal.cards,
            goal.plans,
            set or [],
            limit,
            goal.timing,
            None,
            cache_folder,
        )
        summaries[goal.name] = summary
        return summary

    found = goals.results(wanted, one)
    Console().print(goals.table(found))
    for goal in wanted:
        typer.echo(f"{goal.name:20} {goal.command}")
    if json_file:
        dumped = {name: s.model_dump(mode="json") for name, s in summaries.items()}
        rows = [result.model_dump(mode="json") for result in found]
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps({"goals": rows, "runs": dumped}, indent=1) + "\n")


def measure(
    data: Path,
    name: str,
    cards: Any,
    plans: Any,
    settings: list[str],
    limit: int | None,
    timed: int,
    category: str | None,
    cache_folder: Path | None,
) -> tuple[Summary, list[Row]]:
    switches = parse(settings)
    bench = benchmarks.load(name, data, named=switches.named)
    if category:
        bench = bench.only(lambda case: case.gold.category == category)
    bench = bench.limited(limit)
    known = recorded.read(name, data) if "recorded" in (cards, plans) else recorded.Recorded()
    system = LocalJustMem(
        bench, known, cards=cards, plans=plans, switches=switches, cache=cache.folder(cache_folder)
    )

    async def work() -> tuple[Summary, list[Row]]:
        start = time.perf_counter()
        label = f"{TITLES[name]}, {cards} cards, {plans} plans"
        with _bar() as bar:
            task = bar.add_task(label, total=len(bench.cases))
            rows = await keyless.run(
                system, bench, lambda done, _: bar.update(task, completed=done)
            )
        cpu = await timing.measure(system, bench, timed)
        spent = time.perf_counter() - start
        return keyless.summarise(system, bench, known, rows, cpu, spent), rows

    return asyncio.run(work())


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


def shown(s: Summary) -> str:
    def three(name: str, r: Any) -> str:
        return f"  {name:34} any {r.any}   all {r.all}   fraction {r.fraction}"

    lines = [
        f"{TITLES[s.benchmark]}: {s.questions} questions, {s.cards} cards, {s.plans} plans",
        three("turn recall@10 (slots)", s.turn.slot),
        three("turn recall@10 (head cards only)", s.turn.head),
        three("turn recall with sources", s.turn.source),
        three("turn recall of the pool", s.turn.pool),
        three("session recall@10 (slots)", s.session.slot),
        three("session recall@10 (head only)", s.session.head),
        three("session recall with sources", s.session.source),
        three("session recall of the pool", s.session.pool),
        three("session recall@5", s.session_at_5),
        three("spanning: turn recall@10", s.spanning_turn),
        three("spanning: session recall@10", s.spanning_session),
        three("spanning: turn recall of the pool", s.spanning_pool),
    ]
    for name, group in s.by_category.items():
        lines.append(three(f"{name}: turn", group["turn"]))
        lines.append(three(f"{name}: session", group["session"]))
    r, h, a, c = s.routing, s.sources, s.answers, s.costs
    lines += [
        f"  needs_source precision {r.precision}   recall {r.recall}   access {dict(r.access)}",
        f"  source hit@1 {h.session_at_1}   turn in first {h.turn_at_1}   in any {h.turn_any}",
        f"  rules answers: exact {a.exact}   F1 {a.f1}   contained {a.contained}",
        f"  refused: answerable {a.refused}   unanswerable {a.refused_rightly}",
        f"  tokens: per card {c.card_tokens}   cards/session {c.cards_per_session}   "
        f"evidence/question {c.evidence_tokens}",
        f"  estimated with a model: construction/history {c.construction}   infer/question "
        f"{c.infer}",
        f"  slots {c.slots}   pairs reranked {c.pairs}   CPU ms {dict(c.cpu_ms)}",
        f"  CPU of a recall in percent of 60 pairs through the L-12: {c.cpu_share}",
        f"  {s.seconds} s",
    ]
    for name, score in s.answers_by_category.items():
        lines.append(f"  {name}: F1 {score.f1}  contained {score.contained}")
    return "\n".join([*lines, *(f"  note: {note}" for note in s.notes[:12])])


def main() -> None:
    try:
        app()
    except JustMemError as error:
        Console(stderr=True).print(f"Error: {error}", style="red", highlight=False, markup=False)
        raise SystemExit(2) from None
