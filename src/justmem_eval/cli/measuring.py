"""What can be measured without a language model, and the commands around data and figures."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from justmem_eval import benchmarks, figures, results
from justmem_eval import questions as asked
from justmem_eval.benchmarks import TITLES, recorded
from justmem_eval.cli.shared import Cache, Data, Limit, Published, Switch, measure, show_run
from justmem_eval.metrics import Pairs
from justmem_eval.records import Files
from justmem_eval.results import Measured
from justmem_eval.settings import Origin, Settings, code_digest, select

Bench = Annotated[str, typer.Option(help=", ".join(TITLES))]
By = Annotated[Origin, typer.Option(help="recorded or rules")]
Out = Annotated[Path | None, typer.Option("--out", help="Keep the run's files here.")]


def recall(
    data: Data,
    benchmark: Bench = "locomo",
    cards: By = "rules",
    plans: By = "rules",
    limit: Limit = None,
    switch: Switch = None,
    to: Out = None,
    figures_file: Published = None,
    cache: Cache = None,
) -> None:
    """Recall, source, token and answer figures without a language model."""
    given = Settings(
        benchmark=select(benchmark, data, limit=limit),
        data=data,
        cards=cards,
        plans=plans,
        switches=switch or (),
        runs=1,
        limit=limit,
    )
    found, _ = _measured(given, to, cache)
    show_run(found)
    name, command = f"{benchmark}-{cards}-{plans}", f"recall --benchmark {benchmark}"
    command += f" --cards {cards} --plans {plans}"
    if limit:  # a part of the questions has figures of its own
        name, command = f"{name}-limit_{limit}", f"{command} --limit {limit}"
    _publish(figures_file, name, given, found, command)


# Benchmark, cards, plans, questions.
RUNS: tuple[tuple[str, Origin, Origin, int | None], ...] = (
    ("locomo", "rules", "rules", None),
    ("locomo", "rules", "recorded", None),
    ("locomo", "recorded", "recorded", None),
    ("longmemeval", "rules", "rules", 26),
    ("locomo_plus", "rules", "rules", None),
    ("locomo_plus", "recorded", "recorded", None),
    ("living", "rules", "rules", None),
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
    switches = ["reranker=none", *(switch or ())]
    folder = to / code_digest()
    for name, cards, plans, most in RUNS:
        place = folder / f"{name}-{cards}-{plans}"
        recall(data, name, cards, plans, limit or most, switches, place, figures_file, cache)
    harm(data, "living", 3, switches, folder / "harm", figures_file, cache)
    placed(data, figures_file)


def harm(
    data: Data,
    benchmark: Bench = "locomo",
    histories: Annotated[int, typer.Option(help="Of so many histories.")] = 3,
    switch: Switch = None,
    to: Out = None,
    figures_file: Published = None,
    cache: Cache = None,
) -> None:
    """On turns that need no memory: how often nothing is recalled, and the tokens added."""
    bench = asked.needless(select(benchmark, data), histories)
    given = Settings(benchmark=bench, data=data, switches=switch or (), runs=1)
    found, rows = _measured(given, to, cache)
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
        bench = asked.benchmark(sessions, questions, count)
        ours = Settings(benchmark=bench, data=file, runs=1, switches=switch or ())
        found = measure(ours, folder / "justmem", folder)
        naive = measure(replace(ours, system="naive_rag"), folder / "naive_rag", folder)
        typer.echo(asked.shown(bench, found, naive))
        typer.echo(asked.GIVEN if questions else asked.MADE)
        if show_missed:
            for line in asked.missed(Files(folder / "justmem").retrieved(bench.cases)):
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


def _measured(given: Settings, to: Path | None, cache: Path | None) -> tuple[Measured, Pairs]:
    """The figures, and the evidence of each question."""
    temporary = nullcontext(to) if to else TemporaryDirectory(prefix="justmem-eval-")
    with temporary as folder:
        found = measure(given, Path(str(folder)), cache)
        return found, Files(Path(str(folder))).retrieved(given.benchmark.cases)


def _publish(path: Path | None, name: str, given: Settings, found: Measured, command: str) -> None:
    """Runs with other switches have figures of their own."""
    if path is not None:
        more = (switch.replace("=", "_").replace(".", "_") for switch in given.switches)
        words = ["justmem-eval", command, *(f"--set {switch}" for switch in given.switches)]
        figures.write(path, "-".join([name, *more]), figures.of_run(found), " ".join(words))
