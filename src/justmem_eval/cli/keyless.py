"""recall, all, ablation, curve: what can be measured without a language model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from justmem_eval import ablation as ablations
from justmem_eval import benchmarks, cache, figures, fit, keyless, timing
from justmem_eval import harm as harms
from justmem_eval.benchmarks import TITLES, recorded
from justmem_eval.cli.shared import Cache, Data, Json, Limit, Published, Switch, bar, grid, out
from justmem_eval.keyless import Summary, shown
from justmem_eval.rows import Row
from justmem_eval.switches import parse
from justmem_eval.systems.justmem import JustMem
from justmem_eval.systems.memories import Memories, Stages


def recall(
    data: Data,
    benchmark: Annotated[str, typer.Option(help=", ".join(benchmarks.TITLES))] = "locomo",
    cards: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    plans: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    limit: Limit = None,
    switch: Switch = None,
    timed: Annotated[int, typer.Option("--timing", help="Recalls to time, uncached.")] = 0,
    category: Annotated[str | None, typer.Option(help="Only this category.")] = None,
    json_file: Json = None,
    rows_file: Annotated[Path | None, typer.Option("--rows", help="Write each question.")] = None,
    figures_file: Published = None,
    cache_folder: Cache = None,
) -> None:
    """Recall, routing, source, token and answer figures without a language model."""
    summary, rows = measure(
        data,
        benchmark,
        cards,
        plans,
        switch or [],
        limit=limit,
        timed=timed,
        category=category,
        cache_folder=cache_folder,
    )
    typer.echo(shown(summary))
    if json_file:
        json_file.write_text(summary.model_dump_json(indent=1) + "\n")
    if figures_file and not limit and not category:  # a part is not published
        _publish(figures_file, summary, switch or [])
    if rows_file:
        rows_file.write_text("".join(row.model_dump_json() + "\n" for row in rows))


# Benchmark, cards, plans.
_RUNS = (
    ("locomo", "rules", "rules"),
    ("locomo", "recorded", "recorded"),
    ("longmemeval", "rules", "rules"),
    ("locomo_plus", "rules", "rules"),
    ("living", "rules", "rules"),
)


def everything(
    data: Data,
    limit: Limit = None,
    switch: Switch = None,
    json_file: Json = None,
    figures_file: Published = None,
    cache_folder: Cache = None,
) -> None:
    """Every keyless figure: `recall` on each benchmark."""
    found: dict[str, Any] = {}
    for run in _RUNS:
        summary, _ = measure(data, *run, switch or [], limit=limit, cache_folder=cache_folder)
        typer.echo(shown(summary))
        found["-".join(run)] = summary.model_dump(mode="json")
        if figures_file and not limit:
            _publish(figures_file, summary, switch or [])
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(found, indent=1) + "\n")


def _publish(path: Path, summary: Summary, switches: list[str]) -> None:
    run = f"{summary.benchmark}-{summary.cards}-{summary.plans}"
    command = f"recall --benchmark {summary.benchmark}"
    command += f" --cards {summary.cards} --plans {summary.plans}"
    figures.write(
        path, _named(run, switches), figures.of_recall(summary), _command(command, switches)
    )


def _named(run: str, switches: list[str]) -> str:
    """Runs with other switches are other figures."""
    return "-".join([run, *(switch.replace("=", "_").replace(".", "_") for switch in switches)])


def _command(words: str, switches: list[str]) -> str:
    return " ".join(["justmem-eval", words, *(f"--set {switch}" for switch in switches)])


def measure(
    data: Path,
    name: str,
    cards: Any,
    plans: Any,
    settings: list[str],
    *,
    limit: int | None = None,
    timed: int = 0,
    category: str | None = None,
    histories: Sequence[str] = (),
    cache_folder: Path | None = None,
) -> tuple[Summary, list[Row]]:
    switches = parse(settings)
    bench = benchmarks.load(name, data, named=switches.named)
    if category:
        bench = bench.only(lambda case: case.gold.category == category)
    if histories:
        bench = bench.only(lambda case: case.history in histories)
    bench = bench.limited(limit)
    known = recorded.read(name, data) if "recorded" in (cards, plans) else recorded.Recorded()
    stages = Stages(cards=cards, plans=plans, recorded=known)
    system = JustMem(Memories(bench, stages, switches, cache.folder(cache_folder)))

    async def work() -> tuple[Summary, list[Row]]:
        start = time.perf_counter()
        with bar() as shown_bar:
            label = f"{TITLES[name]}, {cards} cards, {plans} plans"
            task = shown_bar.add_task(label, total=len(bench.cases))
            rows = await keyless.run(
                system, bench, lambda done, _: shown_bar.update(task, completed=done)
            )
        cpu = await timing.measure(system.memories, bench, timed)
        spent = time.perf_counter() - start
        return keyless.summarise(system, bench, known, rows, cpu, spent), rows

    return asyncio.run(work())


def answers(
    data: Data,
    benchmark: Annotated[str, typer.Option(help=", ".join(benchmarks.TITLES))] = "living",
    history: Annotated[list[str] | None, typer.Option(help="Only these histories.")] = None,
    switch: Switch = None,
    cache_folder: Cache = None,
) -> None:
    """Questions, right answers and answers by rules, side by side, for a judge to read."""
    chosen = history or []
    _, rows = measure(
        data, benchmark, "rules", "rules", switch or [], histories=chosen, cache_folder=cache_folder
    )
    cases = {case.question.id: case for case in benchmarks.load(benchmark, data).cases}
    for row in rows:
        case = cases[row.id]
        typer.echo(f"{row.id} ({case.gold.category}), asked on {case.question.at:%d %B %Y}")
        typer.echo(f"  question  {case.question.text}")
        typer.echo(f"  gold      {case.gold.answer or '(not in memory)'}")
        typer.echo("  answer    " + row.answer.replace("\n", "\n            ") + "\n")


def harm(
    data: Data,
    benchmark: Annotated[str, typer.Option(help=", ".join(benchmarks.TITLES))] = "locomo",
    histories: Annotated[int, typer.Option(help="Of so many histories.")] = 3,
    switch: Switch = None,
    json_file: Json = None,
    figures_file: Published = None,
    cache_folder: Cache = None,
) -> None:
    """On turns that need no memory: how often nothing is recalled, and the tokens added."""
    bench = benchmarks.load(benchmark, data)
    ids = list(dict.fromkeys(case.history for case in bench.cases))[:histories]
    memories = Memories(bench, Stages(), parse(switch or []), cache.folder(cache_folder))
    found = asyncio.run(harms.measure(JustMem(memories), [bench.history(id) for id in ids]))
    typer.echo(harms.shown(found))
    if figures_file:
        command = _command(f"harm --benchmark {benchmark} --histories {histories}", switch or [])
        name = _named(f"harm-{benchmark}", switch or [])
        figures.write(figures_file, name, figures.of_harm(found), command)
    if json_file:
        json_file.write_text(found.model_dump_json(indent=1) + "\n")


Only = Annotated[list[str] | None, typer.Option(help="Only these rows, by name.")]
Some = Annotated[
    list[str] | None, typer.Option(help="Only these. Default: locomo and locomo_plus.")
]


def ablation(
    data: Data,
    benchmark: Some = None,
    only: Only = None,
    limit: Limit = None,
    switch: Switch = None,
    json_file: Json = None,
    cache_folder: Cache = None,
) -> None:
    """Each weight set to zero by itself."""
    _compared(
        "Each weight by itself",
        [a for a in ablations.ablations() if not only or a.name in ("default", *only)],
        Comparison(data, benchmark, limit, 0, switch or [], json_file, cache_folder),
    )


def curve(
    data: Data,
    benchmark: Some = None,
    only: Only = None,
    limit: Limit = None,
    timed: Annotated[int, typer.Option("--timing", help="Recalls to time, uncached.")] = 20,
    json_file: Json = None,
    cache_folder: Cache = None,
) -> None:
    """Quality against time: sizes and models, with the CPU of a recall."""
    _compared(
        "Quality against time",
        [a for a in ablations.curve() if not only or a.name in ("default", *only)],
        Comparison(data, benchmark, limit, timed, [], json_file, cache_folder),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    data: Path
    benchmarks: list[str] | None
    limit: int | None
    timed: int
    switches: list[str]  # of every row
    json_file: Path | None
    cache: Path | None


def _compared(title: str, wanted: list[ablations.Ablation], asked: Comparison) -> None:
    raw: dict[str, dict[str, Any]] = {}

    def one(place: tuple[str, str, str], ablation: ablations.Ablation) -> dict[str, Any]:
        # Time is measured where model cards are read; elsewhere it would be the same again.
        often = asked.timed if place == ("locomo", "recorded", "recorded") else 0
        settings = [*asked.switches, *ablation.set]
        summary, _ = measure(
            asked.data,
            *place,
            settings,
            limit=asked.limit,
            timed=often,
            cache_folder=asked.cache,
        )
        found = summary.model_dump(mode="json")
        raw.setdefault(ablation.name, {})["-".join(place)] = found
        return found

    names = asked.benchmarks or ["locomo", "locomo_plus"]
    headings, rows = ablations.rows(wanted, names, one)
    out().print(grid(title, headings, rows))
    if asked.json_file:
        asked.json_file.parent.mkdir(parents=True, exist_ok=True)
        asked.json_file.write_text(json.dumps(raw, indent=1) + "\n")


def fitted(data: Data, cache_folder: Cache = None) -> None:
    """Fit the ranking weights, with whole data sets and conversations held out."""
    given = asyncio.run(fit.examples(data, cache.folder(cache_folder)))
    rows = [
        [
            held.name,
            str(held.questions),
            *(f"{weight:.2f}" for weight in held.weights),
            f"{held.recall:.1f}",
            f"{held.in_use:.1f}",
        ]
        for held in fit.held_out(given)
    ]
    everything = [f"{w:.2f}" for w in fit.fit(given)]
    rows.append(["fitted on everything", str(len(given)), *everything, "", ""])
    headings = ["held out", "questions", *fit.FITTED, "recall@10", "with the weights in use"]
    out().print(grid("Weights, and recall of the ten cards", headings, rows))
