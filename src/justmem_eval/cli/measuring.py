"""What can be measured without a language model, and the commands around data and figures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from justmem.errors import InvalidFile
from justmem_eval import benchmarks, cache, figures, fit, sources
from justmem_eval import gate as gates
from justmem_eval import harm as harms
from justmem_eval import mine as own
from justmem_eval.benchmarks import TITLES
from justmem_eval.cli.shared import (
    Cache,
    Data,
    Json,
    Limit,
    Published,
    Switch,
    grid,
    measure,
    out,
    show_run,
)
from justmem_eval.protocol import Files, retrieved
from justmem_eval.records import write_json
from justmem_eval.results import RunFigures
from justmem_eval.runs import Settings, justmem_system, select
from justmem_eval.switches import parse

Bench = Annotated[str, typer.Option(help=", ".join(TITLES))]


def recall(
    data: Data,
    benchmark: Bench = "locomo",
    cards: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    plans: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    limit: Limit = None,
    switch: Switch = None,
    to: Annotated[Path | None, typer.Option("--out", help="Keep the run's files here.")] = None,
    json_file: Json = None,
    figures_file: Published = None,
    cache_folder: Cache = None,
) -> None:
    """Recall, source, token and answer figures without a language model."""
    given = _settings(data, benchmark, cards, plans, limit, switch)
    found = _measured(given, to, cache_folder, figures_file)
    if json_file:
        write_json(json_file, found.model_dump(mode="json"))


# Benchmark, cards, plans.
RUNS = (
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
    for run in RUNS:
        given = _settings(data, *run, limit, switch)
        made = _measured(given, None, cache_folder, figures_file)
        found["-".join(run)] = made.model_dump(mode="json")
    if json_file:
        write_json(json_file, found)


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
) -> RunFigures:
    """Measured, shown and published. A run over a part of the questions, or with other switches,
    has figures of its own."""
    with TemporaryDirectory(prefix="justmem-eval-") as folder:
        found = measure(given, to or Path(folder), cache.folder(cache_folder))
        show_run(found, to or Path(folder))
    if figures_file:
        part = [f"limit_{given.limit}"] if given.limit else []
        name = "-".join([given.benchmark.name, given.cards_by, given.plans_by, *part])
        command = f"recall --benchmark {given.benchmark.name}"
        command += f" --cards {given.cards_by} --plans {given.plans_by}"
        command += f" --limit {given.limit}" if given.limit else ""
        _publish(figures_file, name, given.switches, figures.of_run(found), command)
    return found


def _publish(path: Path, name: str, switches: Any, found: Any, command: str) -> None:
    name = "-".join([name, *(switch.replace("=", "_").replace(".", "_") for switch in switches)])
    words = ["justmem-eval", command, *(f"--set {switch}" for switch in switches)]
    figures.write(path, name, found, " ".join(words))


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
    ids = list(dict.fromkeys(case.history for case in given.benchmark.cases))[:histories]
    with TemporaryDirectory(prefix="justmem-eval-") as folder:
        system = justmem_system(
            given, parse(given.switches), None, Path(folder), cache.folder(cache_folder)
        )
        asked = [given.benchmark.history(id) for id in ids]
        found = asyncio.run(harms.harm(system, asked))
    typer.echo(str(found))
    if figures_file:
        command = f"harm --benchmark {benchmark} --histories {histories}"
        named = {"nothing": found.nothing, "tokens": found.tokens}
        _publish(figures_file, f"harm-{benchmark}", given.switches, named, command)


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
        for line in own.missed(retrieved(Files(folder / "justmem"), cases)) if show_missed else ():
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
