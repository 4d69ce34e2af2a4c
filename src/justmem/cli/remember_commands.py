"""add, remember, append, retry, rebuild, note."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from justmem.cli import render
from justmem.cli.context import Exit, with_memory
from justmem.cli.options import LABELS, a_time, argument, labels_of, now, option
from justmem.cli.terminal import JSON, amount, console, say, show
from justmem.domain import Remembered, Session, SessionState
from justmem.errors import InvalidFile
from justmem.runtime.validation import as_path

if TYPE_CHECKING:
    from justmem.memory import AsyncMemory
    from justmem.transcripts import Reading


def add(
    text: str = argument("What was said; - reads standard input."),
    at: datetime | None = a_time("When it was said. Default: now."),
    speaker: str | None = option("Who said it. Default: User."),
) -> None:
    """Remember a text, as one turn of a session of its own.

    Exits with 5 if it could not be remembered. The words are stored all the same, and
    `justmem retry` tries again.
    """
    said = sys.stdin.read() if text == "-" else text
    if not said.strip():
        raise typer.BadParameter("The text is empty.")
    turn = {"role": "user", "content": said} | ({"name": speaker} if speaker else {})
    done = with_memory(lambda memory: memory.remember([turn], at=at or now()), create=True)
    nothing = "The words are stored. No card was made of them."
    show(done, lambda done: render.cards(done.cards) if done.cards else nothing)
    _exit_with([done])


def remember(
    files: list[str] = argument(
        "JSON, JSONL, text, an export of ChatGPT, Claude, WhatsApp, mem0, Zep; - is standard input."
    ),
    at: datetime | None = a_time("The time of sessions that have none, or now."),
    timezone: str | None = option(
        "Where you live, such as Europe/Vienna: UTC times become local times."
    ),
) -> None:
    """Remember the conversations in files.

    If one file cannot be read, nothing is remembered. Remembering the same session again costs
    nothing. Exits with 5 if some sessions could not be remembered. Their words are stored all the
    same, and `justmem retry` tries again.
    """
    zone = _zone(timezone)
    readings = [_read(name, at, zone) for name in files]
    sessions = [session for reading in readings for session in reading.sessions]
    problems = [problem for reading in readings for problem in reading.problems]
    skipped = sum((reading.skipped for reading in readings), Counter[str]())
    if skipped:
        named = ", ".join(amount(count, name) for name, count in skipped.most_common())
        say(f"Not imported: {named}.")

    async def work(memory: AsyncMemory) -> list[Remembered]:
        with _progress(len(sessions)) as advance:
            return await memory.remember_many(sessions, on_done=advance)

    done = with_memory(work, create=True) if sessions else []
    _report(done, sessions, problems, skipped)


def append(
    session: str = argument("The id of the session."),
    file: str = argument("JSON: a session or a list of turns; - reads standard input.", "-"),
    at: datetime | None = a_time("When the turns were said, if they have no time. Default: now."),
) -> None:
    """Add turns to a session, and make cards of them.

    A turn with a `key` that the session has already is left out. A session that is not there yet
    is made.
    """
    when = at or now()
    found = _read(file, when).sessions
    if len(found) != 1:
        raise InvalidFile(f"{file} holds {len(found)} conversations: append takes one.")
    turns = [turn.model_dump(exclude_none=True) for turn in found[0].turns]
    given = {"turns": turns, "labels": found[0].labels}
    _report([with_memory(lambda memory: memory.append(given, id=session, at=when), create=True)])


def retry() -> None:
    """Try the pending and failed sessions again."""

    async def work(memory: AsyncMemory) -> list[Remembered]:
        with _progress(len(await memory.waiting())) as advance:
            return await memory.retry(on_done=advance)

    _report(with_memory(work), nothing="No session is pending or failed.")


def rebuild(
    session: str | None = argument("Default: all sessions.", None),
) -> None:
    """Make cards again from the stored words, with the current model.

    Corrections and pins stay. After an interruption or a failure, run it again.
    """
    _report(with_memory(lambda memory: memory.rebuild(session)))


def note(
    text: str = argument("The text, stored exactly as it is."),
    key: str | None = option("Your key. A note with the same key is replaced."),
    value: str | None = option("JSON to keep with it."),
    at: datetime | None = a_time("When it holds from. Default: now."),
    until: str | None = option("When it expires: 2024-05-20T14:30."),
    label: list[str] | None = LABELS,
) -> None:
    """Store a text as a card, without extraction."""
    given: dict[str, Any] = {"key": key, "value": None if value is None else value.encode()}
    given |= {"at": at, "until": until, "labels": labels_of(label)}
    card = with_memory(lambda memory: memory.note(text, **given), create=True)
    show(card, lambda card: f"Noted as {card.session_id.partition(':')[2]}.")


# ---------------------------------------------------------------- reading and reporting


def _read(name: str, at: datetime | None, zone: ZoneInfo | None = None) -> Reading:
    from justmem import transcripts

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


def _report(
    done: Sequence[Remembered],
    sessions: Sequence[Session] = (),
    problems: Sequence[str] = (),
    skipped: Counter[str] | None = None,
    nothing: str = "There was nothing to remember.",
) -> None:
    when = {session.id: f"{session.at:%Y-%m-%d}" for session in sessions}
    if done or JSON.get():
        value: dict[str, Any] = {"sessions": done, "problems": problems, "skipped": skipped or {}}
        show(value, lambda _: render.remembered(done, when))
    else:
        say(nothing)
    for problem in problems:
        say(f"Not read: {problem}", "red")
    _exit_with(done, problems)


def _exit_with(done: Sequence[Remembered], problems: Sequence[str] = ()) -> None:
    if problems or any(each.state == SessionState.FAILED for each in done):
        raise typer.Exit(Exit.PARTLY)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Remembered], None]]:
    from rich.progress import Progress

    screen = console(stderr=True)
    hidden = not screen.is_terminal or total < 2
    with Progress(console=screen, transient=True, disable=hidden) as bar:
        task = bar.add_task("remembering", total=total)
        yield lambda _: bar.advance(task)
