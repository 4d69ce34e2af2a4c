"""Commands that read a space. None of them calls a model."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from justmem.cli import render
from justmem.cli.context import Exit, a_time, now, settings, with_memory, with_store
from justmem.cli.context import spaces as names_of
from justmem.cli.terminal import JSON, amount, plain, say, show_list
from justmem.cli.terminal import show as show_value
from justmem.domain import KINDS, STATUSES, Checked, Health, Note, dump
from justmem.edits.change_log import check as check_log
from justmem.errors import NotInMemory

if TYPE_CHECKING:
    from justmem.memory import AsyncMemory
    from justmem.ports import Store

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
) -> None:
    """List cards, the atomic memories."""
    query: dict[str, Any] = {"subject": subject, "kind": kind, "status": status, "text": text}
    query |= {"session": session, "limit": limit, "offset": offset}
    found = with_memory(lambda memory: memory.cards(**query))
    show_list(found, render.cards, "card")
    if len(found) == limit:
        _more(offset + limit)


def about(
    subject: Annotated[str, typer.Argument(help="A person or a thing.")],
    limit: Limit = 50,
    offset: Offset = 0,
) -> None:
    """Show all cards and turns that name a subject.

    Exits with 1 if nothing names it.
    """
    found = with_memory(lambda memory: memory.about(subject, limit=limit, offset=offset))
    show_value(found, render.about)
    if found.next is not None:
        _more(found.next)
    if not found.cards and not found.turns:
        raise typer.Exit(Exit.NOT_IN_MEMORY)


def _more(offset: int) -> None:
    if not JSON.get():
        say(f"more with --offset {offset}")


def history(
    subject: Annotated[str | None, typer.Argument(help="A person or thing.")] = None,
    card: Annotated[
        str | None,
        typer.Option(help="Instead: a card, with what it replaced and what replaced it."),
    ] = None,
    at: At = None,
) -> None:
    """Show what was true when, newest first."""
    found = with_memory(lambda memory: memory.history(subject, card=card, at=at or now()))
    show_value(found, render.history)


def profile(
    subject: Annotated[
        str | None, typer.Argument(help="Default: the person most cards are about.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="At most this many tokens.")] = 400,
    prose: Annotated[bool, typer.Option("--prose", help="Let a model write it as a text.")] = False,
    at: At = None,
) -> None:
    """Show short lines about a person, what holds now first."""
    query: dict[str, Any] = {"tokens": tokens, "at": at or now(), "prose": prose}
    show_value(
        with_memory(lambda memory: memory.profile(subject, **query)), lambda found: found.text
    )


def show(id: Annotated[str, typer.Argument(help="The id of a card or session, or a key.")]) -> None:
    """Show a card in its source, with the exact words marked, a session, or the note with a key."""

    async def work(memory: AsyncMemory) -> tuple[Any, Any]:
        with suppress(NotInMemory):
            card, source = await memory.card(id), await memory.source(id)
            return {"card": card, "source": source}, render.card(card, source)
        with suppress(NotInMemory):
            session = await memory.session(id)
            return session, render.session(session)
        with suppress(NotInMemory):
            note = await memory.note_at(id)
            return _note(note), "\n".join(filter(None, [note.text, note.value_json]))
        raise NotInMemory(
            f"There is no card, session or note {id!r}. `justmem cards`, `justmem sessions` and "
            "`justmem notes` list them."
        )

    value, shown = with_memory(work)
    show_value(value, lambda _: shown)


def notes(prefix: Annotated[str, typer.Argument(help="How their keys begin.")] = "") -> None:
    """List the notes, in order of their keys."""
    found = with_memory(lambda memory: memory.notes(prefix))
    show_list([_note(note) for note in found] if JSON.get() else found, render.notes, "note")


def _note(note: Note) -> dict[str, object]:
    return {**dump(note), "value": note.value}


def sessions() -> None:
    """List the remembered sessions and their states."""
    show_list(with_memory(lambda memory: memory.sessions()), render.sessions, "session")


def spaces() -> None:
    """List the spaces in the folder or the database."""
    show_list(asyncio.run(names_of(settings())), "\n".join, "space")


def stats() -> None:
    """Count what a space holds and what it has cost."""
    show_value(with_store(lambda store: store.stats()), render.stats)


def log(
    of: Annotated[str | None, typer.Option(help="The id of a card or a session.")] = None,
    since: Annotated[datetime | None, a_time("From this time on: 2024-05-20.")] = None,
    before: Annotated[int | None, typer.Option(help="Entries before this number.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most to show, the latest.")] = 50,
) -> None:
    """Show who changed what in this space, oldest first."""
    query: dict[str, Any] = {"of": of, "since": since, "before": before, "limit": limit}
    show_list(with_memory(lambda memory: memory.log(**query)), render.log, "entry")


def check(
    last: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="The last hash of an earlier check: is the log complete since then?",
        ),
    ] = None,
) -> None:
    """Check a space for damage: read all of it, and its change log. Nothing is changed.

    Exits with 4 if something is damaged, or if an entry of the log was changed or removed.
    """

    async def work(store: Store) -> tuple[Health, Checked]:
        return await store.check(), await check_log(store, last)

    health, log = with_store(work)
    show_value({"damage": health.damage, "log": log}, lambda _: _checked(health, log))
    if not (health.sound and log.whole):
        raise typer.Exit(Exit.STORE)


def _checked(health: Health, log: Checked) -> str:
    lines = [plain(f"{each.what}\n  → {each.fix}") for each in health.damage]
    if health.sound:
        lines.append("The stored words are unchanged, and cards and index fit them.")
    if log.whole:
        lines.append(f"The change log is complete: {amount(log.entries, 'entry')}.")
        lines.append(f"Its last hash is {log.last or 'none'}. `check --last` compares with it.")
    else:
        lines.append(f"The change log was changed: {log.problem}.")
    return "\n".join(lines)
