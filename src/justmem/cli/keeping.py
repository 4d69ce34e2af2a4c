"""remember, retry, reembed: what adds to the memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from justmem import transcripts
from justmem.cli import drawing
from justmem.cli.asking import Json
from justmem.cli.run import Exit, moment, run_of
from justmem.cli.terminal import amount, err, out, print_json, say
from justmem.domain import Remembered, Session, SessionState, dump
from justmem.memory import AsyncMemory
from justmem.validation import as_path


def remember(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(help="JSON, JSONL, or a ChatGPT or Claude export; - reads standard input."),
    ],
    at: Annotated[
        str | None,
        typer.Option(help="When sessions without a time took place: 2024-05-20T14:30, or now."),
    ] = None,
    json: Json = False,
) -> None:
    """Remember the conversations in files.

    Nothing is remembered unless every file can be read. Remembering the same again costs nothing.
    Exits with 5 when some sessions could not be remembered; what was said is kept all the same,
    and `justmem retry` tries again.
    """
    readings = [read_file(name, moment(at)) for name in files]
    sessions = [session for reading in readings for session in reading.sessions]
    problems = [problem for reading in readings for problem in reading.problems]
    blank = sum(reading.blank for reading in readings)
    for note in (note for reading in readings for note in reading.notes):
        say(note, "dim")
    if blank:
        say(f"{blank} conversations hold no words and were left out.", "dim")

    async def work(memory: AsyncMemory) -> list[Remembered]:
        with _progress(len(sessions)) as advance:
            return await memory.remember_many(sessions, on_done=advance)

    done = run_of(context).memory(work, create=True) if sessions else []
    report(done, sessions, problems, json)


def read_file(name: str, at: datetime | None) -> transcripts.Reading:
    if name == "-":
        return transcripts.read_bytes(sys.stdin.buffer.read(), name="standard input", at=at)
    return transcripts.read(as_path(name), at=at)


def report(
    done: Sequence[Remembered], sessions: Sequence[Session], problems: Sequence[str], json: bool
) -> None:
    if json:
        sums = [{**dump(each), "receipt": drawing.receipt_json(each.receipt)} for each in done]
        print_json({"sessions": sums, "problems": list(problems)})
    elif done:
        when = {session.id: f"{session.at:%Y-%m-%d}" for session in sessions}
        out().print(drawing.remembered(done, when))
    else:
        say("There was nothing to remember.")
    for problem in problems:
        say(f"Not read: {problem}", "red")
    if problems or any(each.state == SessionState.FAILED for each in done):
        raise typer.Exit(Exit.PARTLY)


def retry(context: typer.Context, json: Json = False) -> None:
    """Take up the sessions that are pending or failed."""

    async def work(memory: AsyncMemory) -> list[Remembered]:
        waiting = [
            record
            for record in await memory.sessions()
            if record.state in (SessionState.PENDING, SessionState.FAILED)
        ]
        with _progress(len(waiting)) as advance:
            return await memory.retry(on_done=advance)

    done = run_of(context).memory(work)
    report(done, (), (), json)


def reembed(context: typer.Context, json: Json = False) -> None:
    """Make all vectors anew, with the embedder that is set now."""

    async def work(memory: AsyncMemory) -> int:
        return await memory.reembed()

    count = run_of(context).memory(work)
    if json:
        print_json({"embedded": count})
    else:
        out().print(f"{amount(count, 'text')} embedded anew.")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Remembered], None]]:
    console = err()
    columns = (
        TextColumn("remembering"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[cards]} cards"),
    )
    hidden = not console.is_terminal or total < 2
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("remember", total=total, cards=0)
        cards = 0

        def advance(done: Remembered) -> None:
            nonlocal cards
            cards += len(done.cards)
            bar.update(task, advance=1, cards=cards)

        yield advance
