"""add, remember, append, retry, rebuild."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from justmem import transcripts
from justmem.cli import render
from justmem.cli.context import Exit, Json, moment, now, run_of
from justmem.cli.terminal import amount, err, out, print_json, say
from justmem.domain import Remembered, Session, SessionState, dump
from justmem.errors import InvalidFile
from justmem.memory import AsyncMemory
from justmem.runtime.validation import as_path


def add(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="What was said; - reads standard input.")],
    at: Annotated[
        str | None, typer.Option(help="When it was said: 2024-05-20T14:30. Default: now.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(help="Who said it. Default: User.")] = None,
    json: Json = False,
) -> None:
    """Remember a text, as one turn of a session of its own.

    Exits with 5 if it could not be remembered. The words are stored all the same, and
    `justmem retry` tries again.
    """
    said = sys.stdin.read() if text == "-" else text
    turn = {"role": "user", "content": said} | ({"name": speaker} if speaker else {})
    when = moment(at) or now()
    done = run_of(context).memory(lambda memory: memory.remember([turn], at=when), create=True)
    if json:
        print_json(dump(done))
    elif done.cards:
        out().print(render.cards(done.cards))
    else:
        out().print("The words are stored. No card was made of them.")
    _exit_with([done])


def remember(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            help="JSON, JSONL, text, or an export of ChatGPT, Claude, WhatsApp, mem0 or Zep; "
            "- reads standard input."
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option(help="The time of sessions that have none: 2024-05-20T14:30, or now."),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(help="Where you live, such as Europe/Vienna: UTC times become local times."),
    ] = None,
    json: Json = False,
) -> None:
    """Remember the conversations in files.

    If one file cannot be read, nothing is remembered. Remembering the same session again costs
    nothing. Exits with 5 if some sessions could not be remembered. Their words are stored all the
    same, and `justmem retry` tries again.
    """
    readings = [read_file(name, moment(at), _zone(timezone)) for name in files]
    sessions = [session for reading in readings for session in reading.sessions]
    problems = [problem for reading in readings for problem in reading.problems]
    skipped = sum((Counter(reading.skipped) for reading in readings), Counter[str]())
    for note in (note for reading in readings for note in reading.notes):
        say(note, "dim")
    if skipped:
        named = ", ".join(amount(count, name) for name, count in skipped.most_common())
        say(f"Not imported: {named}.", "dim")

    async def work(memory: AsyncMemory) -> list[Remembered]:
        with _progress(len(sessions)) as advance:
            return await memory.remember_many(sessions, on_done=advance)

    done = run_of(context).memory(work, create=True) if sessions else []
    report(done, sessions, problems, json, skipped)


def append(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="The id of the session.")],
    file: Annotated[
        str, typer.Argument(help="A JSON list of turns; - reads standard input.")
    ] = "-",
    at: Annotated[
        str | None,
        typer.Option(help="When the turns were said, if they have no time. Default: now."),
    ] = None,
    json: Json = False,
) -> None:
    """Add turns to a session, and make cards of them.

    A turn with a `key` that the session has already is left out. A session that is not there yet
    is made.
    """
    when = moment(at) or now()
    found = read_file(file, when).sessions
    if len(found) != 1:
        raise InvalidFile(f"{file} holds {len(found)} conversations: append takes one.")
    turns = [turn.model_dump(exclude_none=True) for turn in found[0].turns]
    done = run_of(context).memory(
        lambda memory: memory.append(turns, id=session, at=when), create=True
    )
    report([done], (), (), json)


def retry(context: typer.Context, json: Json = False) -> None:
    """Try the pending and failed sessions again."""

    async def work(memory: AsyncMemory) -> list[Remembered]:
        waiting = [
            record
            for record in await memory.sessions()
            if record.state in (SessionState.PENDING, SessionState.FAILED)
        ]
        with _progress(len(waiting)) as advance:
            return await memory.retry(on_done=advance)

    report(run_of(context).memory(work), (), (), json, nothing="No session is pending or failed.")


def rebuild(
    context: typer.Context,
    session: Annotated[str | None, typer.Argument(help="The id of one session.")] = None,
    json: Json = False,
) -> None:
    """Make the cards of a session, or of all, again from the stored words.

    Corrections and pins stay. If it is interrupted, run it again.
    """
    report(run_of(context).memory(lambda memory: memory.rebuild(session)), (), (), json)


def read_file(name: str, at: datetime | None, zone: ZoneInfo | None = None) -> transcripts.Reading:
    if name == "-":
        data = sys.stdin.buffer.read()
        return transcripts.read_bytes(data, name="standard input", at=at, zone=zone)
    return transcripts.read(as_path(name), at=at, zone=zone)


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name is not None else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise typer.BadParameter(
            f"There is no time zone {name!r}. Write it as Europe/Vienna.", param_hint="--timezone"
        ) from None


def report(
    done: Sequence[Remembered],
    sessions: Sequence[Session],
    problems: Sequence[str],
    json: bool,
    skipped: Mapping[str, int] | None = None,
    nothing: str = "There was nothing to remember.",
) -> None:
    if json:
        sums = [dump(each) for each in done]
        print_json({"sessions": sums, "problems": list(problems), "skipped": dict(skipped or {})})
    elif done:
        when = {session.id: f"{session.at:%Y-%m-%d}" for session in sessions}
        out().print(render.remembered(done, when))
    else:
        say(nothing)
    for problem in problems:
        say(f"Not read: {problem}", "red")
    if problems:
        raise typer.Exit(Exit.PARTLY)
    _exit_with(done)


def _exit_with(done: Sequence[Remembered]) -> None:
    if any(each.state == SessionState.FAILED for each in done):
        raise typer.Exit(Exit.PARTLY)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Remembered], None]]:
    from rich.progress import Progress

    console = err()
    hidden = not console.is_terminal or total < 2
    with Progress(console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("remembering", total=total)
        yield lambda _: bar.advance(task)
