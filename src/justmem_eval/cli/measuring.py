"""What can be measured without a language model, and the commands around data and figures."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from justmem.errors import InvalidFile
from justmem_eval import benchmarks, figures, results
from justmem_eval import questions as asked
from justmem_eval.benchmarks import TITLES, recorded
from justmem_eval.cli.shared import (
    Cache,
    Data,
    Limit,
    Published,
    Switch,
    measure,
    show_run,
)
from justmem_eval.records import Files
from justmem_eval.results import Measured
from justmem_eval.settings import Settings, select

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
    cache: Cache = None,
) -> None:
    """Recall, source, token and answer figures without a language model."""
    name, command = f"{benchmark}-{cards}-{plans}", f"recall --benchmark {benchmark}"
    command += f" --cards {cards} --plans {plans}"
    if limit:  # a part of the questions has figures of its own
        name, command = f"{name}-limit_{limit}", f"{command} --limit {limit}"
    given = _settings(data, benchmark, switch, limit=limit, cards=cards, plans=plans)
    with TemporaryDirectory(prefix="justmem-eval-") as folder:
        found = measure(given, to or Path(folder), cache)
    show_run(found)
    _publish(figures_file, name, given, found, command)


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
    cache: Cache = None,
) -> None:
    """Every keyless figure: `recall` on each benchmark."""
    for run in RUNS:
        recall(data, *run, limit, switch, None, figures_file, cache)


def _settings(
    data: Path, name: str, switch: list[str] | None, *, limit: int | None = None, **more: Any
) -> Settings:
    bench = select(name, data, limit=limit)
    switches = tuple(switch or ())
    return Settings(benchmark=bench, data=data, runs=1, switches=switches, limit=limit, **more)


def _publish(path: Path | None, name: str, given: Settings, found: Measured, command: str) -> None:
    """Runs with other switches have figures of their own."""
    if path is not None:
        more = (switch.replace("=", "_").replace(".", "_") for switch in given.switches)
        words = ["justmem-eval", command, *(f"--set {switch}" for switch in given.switches)]
        figures.write(path, "-".join([name, *more]), figures.of_run(found), " ".join(words))


def harm(
    data: Data,
    benchmark: Bench = "locomo",
    histories: Annotated[int, typer.Option(help="Of so many histories.")] = 3,
    switch: Switch = None,
    figures_file: Published = None,
    cache: Cache = None,
) -> None:
    """On turns that need no memory: how often nothing is recalled, and the tokens added."""
    given = _settings(data, benchmark, switch)
    given = replace(given, benchmark=asked.needless(given.benchmark, histories))
    with TemporaryDirectory(prefix="justmem-eval-") as folder:
        found = measure(given, Path(folder), cache)
        rows = Files(Path(folder)).retrieved(given.benchmark.cases)
    typer.echo(f"turns that need no memory: nothing recalled {found['costs.nothing_read']}")
    typer.echo(f"tokens added {found['tokens.evidence']}")
    for text in dict.fromkeys(case.question.text for case, row in rows if row.evidence_tokens):
        typer.echo(f"  something is recalled for: {text}")
    command = f"harm --benchmark {benchmark} --histories {histories}"
    _publish(figures_file, f"harm-{benchmark}", given, found, command)


def placed(data: Data, figures_file: Published = None) -> None:
    """How often the rule for systems without sources finds where a recorded LoCoMo card is from."""
    found = results.placed(benchmarks.load("locomo", data), recorded.read("locomo", data))
    for name, figure in found.items():
        typer.echo(f"{name} {figure}")
    if figures_file:
        figures.write(figures_file, "placed-locomo", found, "justmem-eval placed")


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
        sessions = asyncio.run(asked.read_sessions(file, folder / "read"))
        cases = asked.own(questions, sessions) if questions else asked.made(sessions, count)
        if not cases:
            raise InvalidFile(f"{file} holds no statement long enough to make a question from.")
        bench = asked.benchmark(sessions, cases)
        found = {}
        for system in ("justmem", "naive_rag"):
            given = Settings(
                benchmark=bench, data=file, system=system, runs=1, switches=switch or ()
            )
            found[system] = measure(given, folder / system, folder)
        typer.echo(asked.shown(bench, found["justmem"], found["naive_rag"]))
        typer.echo(asked.GIVEN if questions else asked.MADE)
        for line in asked.missed(Files(folder / "justmem").retrieved(cases)) if show_missed else ():
            typer.echo(f"missed: {line}")


def data(folder: Annotated[Path, typer.Option("--data", help="Where they should be.")]) -> None:
    """Where to get each benchmark, and whether what is there is right."""
    for name in benchmarks.NAMES:
        for line in benchmarks.checked(name, folder):
            typer.echo(line)


def fill(
    documents: Annotated[list[Path], typer.Argument(help="Documents with marked figures.")],
    figures_file: Annotated[Path, typer.Option("--figures", help="The file of figures.")],
) -> None:
    """Write the published figures into documents, at their marks."""
    found = figures.read(figures_file)
    for path in documents:
        path.write_text(figures.filled(path.read_text("utf-8"), found), "utf-8")
