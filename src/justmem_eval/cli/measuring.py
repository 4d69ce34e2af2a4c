"""What can be measured without a language model, and the commands around data and figures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from justmem.errors import InvalidFile
from justmem_eval import benchmarks, cache, figures, fit, results, sources
from justmem_eval import gate as gates
from justmem_eval import harm as harms
from justmem_eval import mine as own
from justmem_eval.benchmarks import TITLES, recorded
from justmem_eval.cli.shared import (
    Cache,
    Data,
    Limit,
    Published,
    Switch,
    measure,
    show,
    show_run,
)
from justmem_eval.records import Files
from justmem_eval.report import Grid
from justmem_eval.results import Measured
from justmem_eval.runs import Settings, select

Bench = Annotated[str, typer.Option(help=", ".join(TITLES))]


def recall(
    data: Data,
    benchmark: Bench = "locomo",
    cards: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    plans: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    limit: Limit = None,
    switch: Switch = None,
    to: Annotated[Path | None, typer.Option("--out", help="Keep the run's files here.")] = None,
    figures_file: Published = None,
    cache_folder: Cache = None,
) -> None:
    """Recall, source, token and answer figures without a language model."""
    given = _settings(data, benchmark, cards, plans, limit, switch)
    _measured(given, to, cache_folder, figures_file)


# Benchmark, cards, plans.
RUNS = (
    ("locomo", "rules", "rules"),
    ("locomo", "rules", "recorded"),
    ("locomo", "recorded", "recorded"),
    ("longmemeval", "rules", "rules"),
    ("locomo_plus", "rules", "rules"),
    ("locomo_plus", "recorded", "recorded"),
    ("living", "rules", "rules"),
)


def everything(
    data: Data,
    limit: Limit = None,
    switch: Switch = None,
    figures_file: Published = None,
    cache_folder: Cache = None,
) -> None:
    """Every keyless figure: `recall` on each benchmark."""
    for run in RUNS:
        _measured(_settings(data, *run, limit, switch), None, cache_folder, figures_file)


def _settings(
    data: Path, name: str, cards: Any, plans: Any, limit: int | None, switch: list[str] | None
) -> Settings:
    return Settings(
        benchmark=select(name, data, limit=limit),
        data=data,
        cards=cards,
        plans=plans,
        runs=1,
        switches=switch or (),
        limit=limit,
    )


def _measured(
    given: Settings, to: Path | None, cache_folder: Path | None, figures_file: Path | None
) -> None:
    """Measured, shown and published. A run over a part of the questions, or with other switches,
    has figures of its own."""
    with TemporaryDirectory(prefix="justmem-eval-") as folder:
        found = measure(given, to or Path(folder), cache.folder(cache_folder))
        show_run(found, to or Path(folder))
    part = [f"limit_{given.limit}"] if given.limit else []
    name = "-".join([given.benchmark.name, given.cards_by, given.plans_by, *part])
    command = f"recall --benchmark {given.benchmark.name}"
    command += f" --cards {given.cards_by} --plans {given.plans_by}"
    command += f" --limit {given.limit}" if given.limit else ""
    if figures_file:
        _publish(figures_file, name, given.switches, found, command)


def _publish(path: Path, name: str, switches: Sequence[str], found: Measured, command: str) -> None:
    name = "-".join([name, *(switch.replace("=", "_").replace(".", "_") for switch in switches)])
    words = ["justmem-eval", command, *(f"--set {switch}" for switch in switches)]
    figures.write(path, name, figures.of_run(found), " ".join(words))


def harm(
    data: Data,
    benchmark: Bench = "locomo",
    histories: Annotated[int, typer.Option(help="Of so many histories.")] = 3,
    switch: Switch = None,
    figures_file: Published = None,
    cache_folder: Cache = None,
) -> None:
    """On turns that need no memory: how often nothing is recalled, and the tokens added."""
    given = _settings(data, benchmark, "rules", "rules", None, switch)
    given = replace(given, benchmark=harms.asked_of(given.benchmark, histories))
    with TemporaryDirectory(prefix="justmem-eval-") as folder:
        found = measure(given, Path(folder), cache.folder(cache_folder))
        rows = Files(Path(folder)).retrieved(given.benchmark.cases)
    typer.echo(f"turns that need no memory: nothing recalled {found['costs.nothing_read']}")
    typer.echo(f"tokens added {found['tokens.evidence']}")
    for text in dict.fromkeys(case.question.text for case, row in rows if row.evidence_tokens):
        typer.echo(f"  something is recalled for: {text}")
    if figures_file:
        command = f"harm --benchmark {benchmark} --histories {histories}"
        _publish(figures_file, f"harm-{benchmark}", given.switches, found, command)


def placed(data: Data, figures_file: Published = None) -> None:
    """How often the rule for systems without sources finds where a recorded LoCoMo card is from."""
    found = results.placed(benchmarks.load("locomo", data), recorded.read("locomo", data))
    for name, figure in found.items():
        typer.echo(f"{name} {figure}")
    if figures_file:
        figures.write(figures_file, "placed-locomo", found, "justmem-eval placed")


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
    show(Grid("Weights, and recall of the ten cards", headings, rows))


def gate(
    data: Data,
    slices: Annotated[Path, typer.Option(help="The gate file: slices and what they must find.")],
    switch: Switch = None,
    cache_folder: Cache = None,
) -> None:
    """Fails if retrieval no longer finds what the gate file lists."""
    failed = 0
    for slice in gates.read(slices):
        bench = benchmarks.load(slice.benchmark, data)
        if slice.histories:
            bench = bench.only(lambda case, of=slice.histories: case.history in of)  # type: ignore[misc]
        given = Settings(
            benchmark=bench,
            data=data,
            cards=slice.cards,
            plans=slice.plans,
            runs=1,
            switches=(*slice.set, *(switch or ())),
        )
        with TemporaryDirectory(prefix="justmem-gate-") as folder:
            found = measure(given, Path(folder), cache.folder(cache_folder))
            checks = list(gates.check(slice, found, Files(Path(folder))))
        for ok, text in checks:
            failed += not ok
            typer.echo(("ok    " if ok else "FAIL  ") + text)
    if failed:
        typer.echo(f"{failed} checks failed.")
        raise typer.Exit(1)


def mine(
    file: Annotated[Path, typer.Argument(help="Your chats: sessions as JSON or JSON Lines.")],
    questions: Annotated[Path | None, typer.Option(help="Your questions, as JSON Lines.")] = None,
    count: Annotated[int, typer.Option(help="Questions to make, if you give none.")] = 100,
    switch: Switch = None,
    show_missed: Annotated[bool, typer.Option("--missed", help="List what was not found.")] = False,
) -> None:
    """Recall on your own chats. Nothing is sent, and nothing is kept."""
    with TemporaryDirectory(prefix="justmem-mine-") as temporary:
        folder = Path(temporary)
        sessions = asyncio.run(own.read_sessions(file, folder / "read"))
        cases = own.asked(questions, sessions) if questions else own.made(sessions, count)
        if not cases:
            raise InvalidFile(f"{file} holds no statement long enough to make a question from.")
        bench = own.benchmark(sessions, cases)
        found = {
            system: measure(
                Settings(benchmark=bench, data=file, system=system, runs=1, switches=switch or ()),
                folder / system,
                folder,
            )
            for system in ("justmem", "naive_rag")
        }
        typer.echo(own.shown(bench, found["justmem"], found["naive_rag"]))
        typer.echo(own.GIVEN if questions else own.MADE)
        for line in own.missed(Files(folder / "justmem").retrieved(cases)) if show_missed else ():
            typer.echo(f"missed: {line}")


def data(folder: Annotated[Path, typer.Option("--data", help="Where they should be.")]) -> None:
    """Where to get each benchmark, and whether what is there is right."""
    for name in benchmarks.NAMES:
        for line in sources.checked(name, folder):
            typer.echo(line)


def fill(
    documents: Annotated[list[Path], typer.Argument(help="Documents with marked figures.")],
    figures_file: Annotated[Path, typer.Option("--figures", help="The file of figures.")],
) -> None:
    """Write the published figures into documents, at their marks."""
    found = figures.read(figures_file)
    for path in documents:
        path.write_text(figures.filled(path.read_text("utf-8"), found), "utf-8")
