"""export, import, about, log: yours to see and take."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Group
from rich.text import Text

from justmem.cli import drawing
from justmem.cli.asking import Json
from justmem.cli.run import Exit, moment, run_of
from justmem.cli.terminal import amount, out, plain, print_json, say, words
from justmem.domain import About, Checked, Entry, Loaded, dump
from justmem.errors import InputError
from justmem.memory import AsyncMemory

Format = Literal["jsonl", "markdown"]
_LONGEST = 300  # characters of a quote


def export(
    context: typer.Context,
    format: Annotated[
        str, typer.Option(help="jsonl, which `justmem import` takes, or markdown, to read.")
    ] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file. Default: standard output.")
    ] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Vectors too, so that importing need not embed.")
    ] = False,
) -> None:
    """Write everything in this space to a file that is yours.

    A file is written beside and put in place when it is whole; only you may read it.
    """
    chosen: Format | None = next((f for f in ("jsonl", "markdown") if f == format), None)
    if chosen is None:
        raise typer.BadParameter(f"{format!r} is not one of jsonl, markdown.")

    async def work(memory: AsyncMemory) -> int:
        async with aclosing(memory.export(format=chosen, vectors=vectors)) as lines:
            if output is None:
                return await _written(lines, sys.stdout.buffer)
            return await _filed(lines, output.expanduser())

    count = run_of(context).memory(work)
    if output is not None:
        say(f"{count:,} bytes written to {output}.", "dim")


async def _filed(lines: AsyncGenerator[str], path: Path) -> int:
    beside = path.with_name(path.name + ".part")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            count = await _written(lines, file)
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        beside.unlink(missing_ok=True)
    return count


async def _written(lines: AsyncGenerator[str], file: Any) -> int:
    count = 0
    async for line in lines:
        count += file.write(line.encode())
    file.flush()
    return count


def load(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="What `justmem export` wrote.")],
    json: Json = False,
) -> None:
    """Take an export into this space, on whichever store.

    Nothing is stored unless the whole file is as it was written. Sessions that are here already
    stay as they are; one that differs is an error. Interrupted, run it again.
    """

    def told(done: int, total: int) -> None:
        if done == total or done % 500 == 0:
            say(f"{done:,} of {amount(total, 'session')}", "dim")

    async def work(memory: AsyncMemory) -> Loaded:
        return await memory.load(file.expanduser(), on_loaded=told)

    done = run_of(context).memory(work, create=True)
    if json:
        print_json(dump(done))
        return
    out().print(
        f"{amount(done.sessions, 'session')} in the file, {done.brought:,} taken in now with "
        f"{amount(done.cards, 'card')}; {amount(done.embedded, 'text')} embedded."
    )


def about(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="Whom or what.")],
    limit: Annotated[int, typer.Option(min=1, help="At most so many cards and turns.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="Leave out the first so many.")] = 0,
    json: Json = False,
) -> None:
    """Show everything memory holds on a subject, by its words and without a model.

    Exits with 1 when it was never spoken of.
    """

    async def work(memory: AsyncMemory) -> About:
        return await memory.about(subject, limit=limit, offset=offset)

    found = run_of(context).memory(work)
    if json:
        print_json(dump(found))
    else:
        out().print(_about(found))
        if found.next is not None:
            say(f"more with --offset {found.next}", "dim")
    if not found.cards and not found.turns:
        raise typer.Exit(Exit.NOTHING)


def _about(found: About) -> Group:
    if found.first is None or found.last is None:
        return Group(words(f"{found.subject} was never spoken of.", "bold yellow"))
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
    parts: list[Any] = [
        Text.assemble(
            (plain(found.subject, one_line=True), "bold"),
            f": {amount(found.cards, 'card')}" + (f" ({kinds})" if kinds else ""),
            f", {amount(found.turns, 'turn')} of {amount(found.sessions, 'session')}, "
            f"{found.first:%Y-%m-%d} to {found.last:%Y-%m-%d}",
        )
    ]
    if found.known:
        parts.append(drawing.cards(found.known))
    for said in found.said:
        quote = plain(said.quote, one_line=True)
        short = quote if len(quote) <= _LONGEST else quote[: _LONGEST - 1] + "…"
        place = f"{plain(said.session_id, one_line=True)}#{said.turn}"
        line = Text.assemble((f"{said.said_at:%Y-%m-%d} ", "dim"), (place, "cyan"))
        line.append(f" {plain(said.speaker, one_line=True)}: {short}")
        parts.append(line)
    return Group(*parts)


def log(
    context: typer.Context,
    of: Annotated[str | None, typer.Option(help="A card's id, or a session's.")] = None,
    since: Annotated[str | None, typer.Option(help="From this time on: 2024-05-20.")] = None,
    before: Annotated[int | None, typer.Option(help="Entries before this number.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the latest.")] = 50,
    check: Annotated[
        bool, typer.Option("--check", help="Is every entry as it was written, and none missing?")
    ] = False,
    last: Annotated[
        str | None, typer.Option(help="With --check: a hash that an earlier check showed.")
    ] = None,
    json: Json = False,
) -> None:
    """Show who changed what in this space, or check that the log is whole.

    With --check, exits with 4 when an entry was changed or is missing.
    """
    if last is not None and not check:
        raise typer.BadParameter("--last goes with --check.")
    if check:
        _check(context, last, json)
        return
    when = moment(since, "--since")

    async def work(memory: AsyncMemory) -> list[Entry]:
        return await memory.log(since=when, of=of, before=before, limit=limit)

    found = run_of(context).memory(work)
    if json:
        print_json([dump(entry) for entry in found])
        return
    if found:
        out().print(_entries(found))
    say(amount(len(found), "entry"), "dim")


def _entries(found: list[Entry]) -> Any:
    rows: list[dict[str, str | Text]] = [
        {
            "id": str(entry.number),
            "when": f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}",
            "who": words(entry.actor, "cyan", one_line=True),
            "what": words(entry.verb, one_line=True),
            "how much": ", ".join(f"{n:,} {what}" for what, n in entry.counts.items() if n),
            "hash": Text(entry.hash[:12], "dim"),
        }
        for entry in found
    ]
    return drawing.table(rows, when="dim")


def _check(context: typer.Context, last: str | None, json: bool) -> None:
    async def work(memory: AsyncMemory) -> Checked:
        return await memory.check_log(last=last)

    found = run_of(context).memory(work)
    if json:
        print_json({**dump(found), "whole": found.whole})
    elif found.whole:
        out().print(f"{amount(found.entries, 'entry')}, none changed, none missing between them.")
        if found.last:
            out().print(f"The last is {found.last}", soft_wrap=True)
            say("Keep it elsewhere: --last HASH then shows whether the end was cut off.", "dim")
    else:
        out().print(words(f"The log is not as it was written: {found.problem}."), soft_wrap=True)
    if not found.whole:
        raise typer.Exit(Exit.STORE)
