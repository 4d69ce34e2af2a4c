"""Commands that read a space. None of them calls a model."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from justmem.cli import render
from justmem.cli.context import Exit, settings, with_memory, with_store
from justmem.cli.context import spaces as names_of
from justmem.cli.options import a_time, argument, flag, now, option
from justmem.cli.terminal import JSON, amount, plain, say, show_list
from justmem.cli.terminal import show as show_value
from justmem.domain import KINDS, STATUSES, Checked, Health, Note
from justmem.errors import NotInMemory

if TYPE_CHECKING:
    from justmem.memory import AsyncMemory
    from justmem.ports import Store

_AT = a_time("As of this time. Default: now.")
_OFFSET = option("Skip this many.", 0, min=0)


def cards(
    text: str | None = argument("Words that must occur.", None),
    subject: str | None = option("The subject of the cards."),
    kind: str | None = option(", ".join(KINDS)),
    status: str | None = option(", ".join(STATUSES)),
    session: str | None = option("The session they come from."),
    limit: int = option("The most to show.", 100, min=1),
    offset: int = _OFFSET,
) -> None:
    """List cards, the atomic memories."""
    query = locals()
    found = with_memory(lambda memory: memory.cards(**query))
    show_list(found, render.cards, "card")
    if len(found) == limit:
        _more(offset + limit)


def about(
    subject: str = argument("A person or a thing."),
    limit: int = option("The most to show.", 50, min=1),
    offset: int = _OFFSET,
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
    subject: str | None = argument("A person or thing.", None),
    card: str | None = option("Instead: a card, with what it replaced and what replaced it."),
    at: datetime | None = _AT,
) -> None:
    """Show what was true when, newest first."""
    found = with_memory(lambda memory: memory.history(subject, card=card, at=at or now()))
    show_value(found, render.history)


def profile(
    subject: str | None = argument("Default: the person most cards are about.", None),
    tokens: int = option("At most this many tokens.", 400, min=1),
    prose: bool = flag("Let a model write it as a text.", "--prose"),
    at: datetime | None = _AT,
) -> None:
    """Show short lines about a person, what holds now first."""
    query: dict[str, Any] = {"tokens": tokens, "at": at or now(), "prose": prose}
    show_value(
        with_memory(lambda memory: memory.profile(subject, **query)), lambda found: found.text
    )


def show(id: str = argument("The id of a card or session, or a key.")) -> None:
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


def notes(prefix: str = argument("How their keys begin.", "")) -> None:
    """List the notes, in order of their keys."""
    found = with_memory(lambda memory: memory.notes(prefix))
    show_list([_note(note) for note in found] if JSON.get() else found, render.notes, "note")


def _note(note: Note) -> dict[str, object]:
    return {**note.model_dump(mode="json"), "value": note.value}


def sessions() -> None:
    """List the remembered sessions and their states."""
    show_list(with_memory(lambda memory: memory.sessions()), render.sessions, "session")


def spaces() -> None:
    """List the spaces in the folder or the database."""
    show_list(asyncio.run(names_of(settings())), "\n".join, "space")


def stats() -> None:
    """Show what a space holds and what it has cost."""
    show_value(with_store(lambda store: store.metadata()).stats, render.stats)


def log(
    of: str | None = option("The id of a card or a session."),
    since: datetime | None = a_time("From this time on: 2024-05-20."),
    before: int | None = option("Entries before this number."),
    limit: int = option("The most to show, the latest.", 50, min=1),
) -> None:
    """Show who changed what in this space, oldest first."""
    query = locals()
    show_list(with_memory(lambda memory: memory.log(**query)), render.log, "entry")


def check(
    last: str | None = option(
        "The last hash of an earlier check: is the log complete since then?", metavar="HASH"
    ),
) -> None:
    """Check a space for damage: read all of it, and its change log. Nothing is changed.

    Exits with 4 if something is damaged, or if an entry of the log was changed or removed.
    """

    from justmem.edits.change_log import check as check_log

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
