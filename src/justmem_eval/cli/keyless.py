"""What can be measured without a language model, and the commands around data and figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from justmem.errors import InvalidFile
from justmem_eval import benchmarks, cache, figures, fit, keyless, sources
from justmem_eval import gate as gates
from justmem_eval import mine as own
from justmem_eval.benchmarks import TITLES, recorded
from justmem_eval.cli.shared import Cache, Data, Json, Limit, Published, Switch, bar, grid, out
from justmem_eval.keyless import Summary, shown
from justmem_eval.rows import Row
from justmem_eval.switches import parse
from justmem_eval.systems.justmem import JustMem
from justmem_eval.systems.memories import Memories, Stages

Bench = Annotated[str, typer.Option(help=", ".join(TITLES))]


def recall(
    data: Data,
    benchmark: Bench = "locomo",
    cards: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    plans: Annotated[str, typer.Option(help="recorded or rules")] = "rules",
    limit: Limit = None,
    switch: Switch = None,
    json_file: Json = None,
    rows_file: Annotated[Path | None, typer.Option("--rows", help="Write each question.")] = None,
    figures_file: Published = None,
    cache_folder: Cache = None,
) -> None:
    """Recall, source, token and answer figures without a language model."""
    switches = switch or []
    summary, rows = measure(
        data, benchmark, cards, plans, switches, limit=limit, cache_folder=cache_folder
    )
    typer.echo(shown(summary))
    if json_file:
        json_file.write_text(summary.model_dump_json(indent=1) + "\n")
    if figures_file:
        _publish(figures_file, summary, switches, limit)
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
        if figures_file:
            _publish(figures_file, summary, switch or [], limit)
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(found, indent=1) + "\n")


def _publish(path: Path, summary: Summary, switches: list[str], limit: int | None) -> None:
    """A run over a part of the questions has figures of its own."""
    run = f"{summary.benchmark}-{summary.cards}-{summary.plans}"
    command = f"recall --benchmark {summary.benchmark}"
    command += f" --cards {summary.cards} --plans {summary.plans}"
    if limit:
        run, command = f"{run}-limit_{limit}", f"{command} --limit {limit}"
    figures.write(
        path, _named(run, switches), figures.of_recall(summary), _command(command, switches)
    )


def _named(run: str, switches: list[str]) -> str:
    """Runs with other switches have other figures."""
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
    histories: Sequence[str] = (),
    cache_folder: Path | None = None,
) -> tuple[Summary, list[Row]]:
    bench = benchmarks.load(name, data)
    if histories:
        bench = bench.only(lambda case: case.history in histories)
    bench = bench.limited(limit)
    known = recorded.read(name, data) if "recorded" in (cards, plans) else recorded.Recorded()
    stages = Stages(cards=cards, plans=plans, recorded=known)
    system = JustMem(Memories(bench, stages, parse(settings), cache.folder(cache_folder)))
    with bar() as shown_bar:
        label = f"{TITLES[name]}, {cards} cards, {plans} plans"
        task = shown_bar.add_task(label, total=len(bench.cases))
        rows = asyncio.run(
            keyless.run(system, bench, lambda done, _: shown_bar.update(task, completed=done))
        )
    return keyless.summarise(system, bench, rows), rows


def harm(
    data: Data,
    benchmark: Bench = "locomo",
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
    found = asyncio.run(keyless.harm(JustMem(memories), [bench.history(id) for id in ids]))
    typer.echo(str(found))
    if figures_file:
        command = _command(f"harm --benchmark {benchmark} --histories {histories}", switch or [])
        name = _named(f"harm-{benchmark}", switch or [])
        named = {"nothing": found.nothing, "tokens": found.tokens}
        figures.write(figures_file, name, named, command)
    if json_file:
        json_file.write_text(found.model_dump_json(indent=1) + "\n")


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
        summary, rows = measure(
            data,
            slice.benchmark,
            slice.cards,
            slice.plans,
            [*slice.set, *(switch or ())],
            histories=slice.histories,
            cache_folder=cache_folder,
        )
        for ok, text in gates.check(slice, summary, rows):
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
    with TemporaryDirectory(prefix="justmem-mine-") as folder:
        sessions = asyncio.run(own.read_sessions(file, Path(folder)))
    cases = own.asked(questions, sessions) if questions else own.made(sessions, count)
    if not cases:
        raise InvalidFile(f"{file} holds no statement long enough to make a question from.")
    found, missed = asyncio.run(own.measure(sessions, cases, parse(switch or [])))
    typer.echo(own.shown(found, own=questions is not None))
    for line in missed if show_missed else ():
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
