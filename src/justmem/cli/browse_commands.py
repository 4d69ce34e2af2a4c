"""cards, about, show, sessions, spaces, stats, log: reading what a space holds.

None of them calls a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from justmem.cli import render
from justmem.cli.context import Exit, Json, moment, run_of
from justmem.cli.context import spaces as names_of
from justmem.cli.terminal import amount, out, plain, print_json, say, words
from justmem.domain import (
    KINDS,
    STATUSES,
    About,
    Card,
    Checked,
    Entry,
    Session,
    SessionRecord,
    Source,
    Stats,
    dump,
)
from justmem.errors import NotInMemory

if TYPE_CHECKING:
    from justmem.memory import AsyncMemory

Limit = Annotated[int, typer.Option(min=1, help="The most to show.")]
Offset = Annotated[int, typer.Option(min=0, help="Skip this many.")]


def cards(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="Words that must occur.")] = None,
    subject: Annotated[str | None, typer.Option(help="The subject of the cards.")] = None,
    kind: Annotated[str | None, typer.Option(help=", ".join(KINDS))] = None,
    status: Annotated[str | None, typer.Option(help=", ".join(STATUSES))] = None,
    session: Annotated[str | None, typer.Option(help="The session they come from.")] = None,
    limit: Limit = 100,
    offset: Offset = 0,
    json: Json = False,
) -> None:
    """List cards, the atomic memories."""
    _one_of(kind, KINDS, "--kind")
    _one_of(status, STATUSES, "--status")

    async def work(memory: AsyncMemory) -> Sequence[Card]:
        return await memory.cards(
            subject=subject,
            kind=kind,
            status=status,
            session=session,
            text=text,
            limit=limit,
            offset=offset,
        )

    found = run_of(context).memory(work)
    if json:
        print_json([dump(card) for card in found])
        return
    if found:
        out().print(render.cards(found))
    more = f"; more with --offset {offset + limit}" if len(found) == limit else ""
    say(amount(len(found), "card") + more, "dim")


def about(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="A person or a thing.")],
    limit: Limit = 50,
    offset: Offset = 0,
    json: Json = False,
) -> None:
    """Show all cards and turns that name a subject.

    Exits with 1 if nothing names it.
    """

    async def work(memory: AsyncMemory) -> About:
        return await memory.about(subject, limit=limit, offset=offset)

    found = run_of(context).memory(work)
    if json:
        print_json(dump(found))
    else:
        out().print(render.about(found))
        if found.next is not None:
            say(f"more with --offset {found.next}", "dim")
    if not found.cards and not found.turns:
        raise typer.Exit(Exit.NOT_IN_MEMORY)


def show(
    context: typer.Context,
    id: Annotated[str, typer.Argument(help="The id of a card or a session.")],
    json: Json = False,
) -> None:
    """Show a card in its source, with the exact words marked, or a whole session."""

    async def work(memory: AsyncMemory) -> tuple[Card, Source] | Session:
        try:
            source = await memory.source(id)
        except NotInMemory:
            try:
                return await memory.session(id)
            except NotInMemory:
                raise NotInMemory(
                    f"There is no card and no session {id!r}. `justmem cards` and "
                    "`justmem sessions` list them."
                ) from None
        return await memory.card(id), source

    found = run_of(context).memory(work)
    console = out()
    if isinstance(found, Session):
        value: Any = dump(found)
        shown: Any = render.session(found)
    else:
        value = {"card": dump(found[0]), "source": dump(found[1])}
        shown = render.card(*found, marked=console.color_system is None)
    if json:
        print_json(value)
    else:
        console.print(shown)


def sessions(context: typer.Context, json: Json = False) -> None:
    """List the remembered sessions and their states."""

    async def work(memory: AsyncMemory) -> Sequence[SessionRecord]:
        return await memory.sessions()

    found = run_of(context).memory(work)
    if json:
        print_json([dump(record) for record in found])
        return
    if found:
        out().print(render.sessions(found))
    say(amount(len(found), "session"), "dim")


def spaces(context: typer.Context, json: Json = False) -> None:
    """List the spaces in the folder or the database."""
    found = asyncio.run(names_of(run_of(context).settings()))
    if json:
        print_json(found)
        return
    for name in found:
        typer.echo(plain(name, one_line=True))
    say(amount(len(found), "space"), "dim")


def stats(context: typer.Context, json: Json = False) -> None:
    """Count what a space holds and what it has cost."""

    async def work(memory: AsyncMemory) -> Stats:
        return await memory.stats()

    found = run_of(context).memory(work)
    if json:
        print_json(dump(found))
    else:
        out().print(render.stats(found))


def log(
    context: typer.Context,
    of: Annotated[str | None, typer.Option(help="The id of a card or a session.")] = None,
    since: Annotated[str | None, typer.Option(help="From this time on: 2024-05-20.")] = None,
    before: Annotated[int | None, typer.Option(help="Entries before this number.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most to show, the latest.")] = 50,
    check: Annotated[
        bool, typer.Option("--check", help="Check that no entry was changed or removed.")
    ] = False,
    last: Annotated[
        str | None, typer.Option(help="With --check: the hash that an earlier check printed.")
    ] = None,
    json: Json = False,
) -> None:
    """Show who changed what in this space, or check the log.

    With --check, exits with 4 if an entry was changed or is missing.
    """
    if last is not None and not check:
        raise typer.BadParameter("--last needs --check.")
    if check:
        _check_log(context, last, json)
        return
    when = moment(since, "--since")

    async def work(memory: AsyncMemory) -> list[Entry]:
        return await memory.log(since=when, of=of, before=before, limit=limit)

    found = run_of(context).memory(work)
    if json:
        print_json([dump(entry) for entry in found])
        return
    if found:
        out().print(render.log(found))
    say(amount(len(found), "entry"), "dim")


def _check_log(context: typer.Context, last: str | None, json: bool) -> None:
    async def work(memory: AsyncMemory) -> Checked:
        return await memory.check_log(last=last)

    found = run_of(context).memory(work)
    if json:
        print_json(dump(found))
    elif found.whole:
        out().print(f"{amount(found.entries, 'entry')}: none was changed, none is missing.")
        if found.last:
            out().print(f"The last hash is {found.last}", soft_wrap=True)
            say("Keep it elsewhere. --last HASH then shows whether the end was cut off.", "dim")
    else:
        out().print(words(f"The log was changed: {found.problem}."), soft_wrap=True)
    if not found.whole:
        raise typer.Exit(Exit.STORE)


def _one_of(value: str | None, known: Sequence[str], option: str) -> None:
    if value is not None and value not in known:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}.", param_hint=option)
