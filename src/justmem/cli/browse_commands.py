"""cards, about, history, profile, show, sessions, spaces, stats, log: reading a space.

None of them calls a model.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from justmem.cli import render
from justmem.cli.context import Exit, Json, a_time, now, settings, with_memory, with_store
from justmem.cli.context import spaces as names_of
from justmem.cli.terminal import amount, say, show_list
from justmem.cli.terminal import show as show_value
from justmem.domain import KINDS, STATUSES, Checked
from justmem.errors import NotInMemory

if TYPE_CHECKING:
    from justmem.memory import AsyncMemory

At = Annotated[datetime | None, a_time("As of this time. Default: now.")]
Limit = Annotated[int, typer.Option(min=1, help="The most to show.")]
Offset = Annotated[int, typer.Option(min=0, help="Skip this many.")]


def cards(
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
    query: dict[str, Any] = {"subject": subject, "kind": kind, "status": status, "text": text}
    query |= {"session": session, "limit": limit, "offset": offset}
    found = with_memory(lambda memory: memory.cards(**query))
    show_list(found, json, render.cards, "card")
    if len(found) == limit and not json:
        say(f"more with --offset {offset + limit}")


def about(
    subject: Annotated[str, typer.Argument(help="A person or a thing.")],
    limit: Limit = 50,
    offset: Offset = 0,
    json: Json = False,
) -> None:
    """Show all cards and turns that name a subject.

    Exits with 1 if nothing names it.
    """
    found = with_memory(lambda memory: memory.about(subject, limit=limit, offset=offset))
    show_value(found, json, render.about)
    if found.next is not None and not json:
        say(f"more with --offset {found.next}")
    if not found.cards and not found.turns:
        raise typer.Exit(Exit.NOT_IN_MEMORY)


def history(
    subject: Annotated[str | None, typer.Argument(help="A person or thing.")] = None,
    card: Annotated[
        str | None,
        typer.Option(help="Instead: a card, with what it replaced and what replaced it."),
    ] = None,
    at: At = None,
    json: Json = False,
) -> None:
    """Show what was true when, newest first."""
    found = with_memory(lambda memory: memory.history(subject, card=card, at=at or now()))
    show_value(found, json, render.history)


def profile(
    subject: Annotated[
        str | None, typer.Argument(help="Default: the person most cards are about.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="At most this many tokens.")] = 400,
    prose: Annotated[bool, typer.Option("--prose", help="Let a model write it as a text.")] = False,
    at: At = None,
    json: Json = False,
) -> None:
    """Show short lines about a person, what holds now first."""
    found = with_memory(
        lambda memory: memory.profile(subject, tokens=tokens, at=at or now(), prose=prose)
    )
    show_value(found, json, lambda found: found.text)


def show(
    id: Annotated[str, typer.Argument(help="The id of a card or a session.")],
    json: Json = False,
) -> None:
    """Show a card in its source, with the exact words marked, or a whole session."""

    async def work(memory: AsyncMemory) -> tuple[Any, list[Any]]:
        with suppress(NotInMemory):
            card, source = await memory.card(id), await memory.source(id)
            return {"card": card, "source": source}, render.card(card, source)
        with suppress(NotInMemory):
            session = await memory.session(id)
            return session, render.session(session)
        raise NotInMemory(
            f"There is no card and no session {id!r}. `justmem cards` and `justmem sessions` "
            "list them."
        )

    value, shown = with_memory(work)
    show_value(value, json, lambda _: shown)


def sessions(json: Json = False) -> None:
    """List the remembered sessions and their states."""
    found = with_memory(lambda memory: memory.sessions())
    show_list(found, json, render.sessions, "session")


def spaces(json: Json = False) -> None:
    """List the spaces in the folder or the database."""
    found = asyncio.run(names_of(settings()))
    show_list(found, json, "\n".join, "space")


def stats(json: Json = False) -> None:
    """Count what a space holds and what it has cost."""
    show_value(with_store(lambda store: store.stats()), json, render.stats)


def log(
    of: Annotated[str | None, typer.Option(help="The id of a card or a session.")] = None,
    since: Annotated[datetime | None, a_time("From this time on: 2024-05-20.")] = None,
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
    if not check:
        query: dict[str, Any] = {"of": of, "since": since, "before": before, "limit": limit}
        show_list(with_memory(lambda memory: memory.log(**query)), json, render.log, "entry")
        return
    found = with_memory(lambda memory: memory.check_log(last=last))
    show_value(found, json, _check_result)
    if not found.whole:
        raise typer.Exit(Exit.STORE)


def _check_result(found: Checked) -> str:
    if not found.whole:
        return f"The log was changed: {found.problem}."
    result = f"{amount(found.entries, 'entry')}: none was changed, none is missing."
    if found.last:
        result += f"\nThe last hash is {found.last}\nKeep it elsewhere. --last HASH then shows "
        result += "whether the end was cut off."
    return result
