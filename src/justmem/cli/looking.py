"""cards, show, sessions, stats: looking at what is there. None of them needs a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from justmem.cli import drawing
from justmem.cli.asking import Json
from justmem.cli.run import run_of
from justmem.cli.terminal import amount, out, print_json, say
from justmem.domain import KINDS, STATUSES, Card, Session, SessionRecord, Source, Stats, dump
from justmem.errors import NotInMemory
from justmem.memory import AsyncMemory


def cards(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="Words that must occur.")] = None,
    subject: Annotated[str | None, typer.Option(help="Whom or what they are about.")] = None,
    kind: Annotated[str | None, typer.Option(help=", ".join(KINDS))] = None,
    status: Annotated[str | None, typer.Option(help=", ".join(STATUSES))] = None,
    session: Annotated[str | None, typer.Option(help="The session they come from.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
    offset: Annotated[int, typer.Option(min=0, help="Leave out the first so many.")] = 0,
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
        out().print(drawing.cards(found))
    many = len(found) == limit
    say(
        amount(len(found), "card") + (f"; more with --offset {offset + limit}" if many else ""),
        "dim",
    )


def show(
    context: typer.Context,
    card: Annotated[str, typer.Argument(help="A card's id, or a session's.")],
    json: Json = False,
) -> None:
    """Show a card in its source, the exact words highlighted."""

    async def work(memory: AsyncMemory) -> tuple[Card, Source] | Session:
        try:
            source = await memory.source(card)
        except NotInMemory:
            try:
                return await memory.session(card)
            except NotInMemory:
                raise NotInMemory(
                    f"There is no card and no session {card!r}: `justmem cards` lists them."
                ) from None
        return await memory.card(card), source

    found = run_of(context).memory(work)
    console = out()
    if isinstance(found, Session):
        value: Any = dump(found)
        shown: Any = drawing.session(found)
    else:
        value = {"card": dump(found[0]), "source": dump(found[1])}
        shown = drawing.card(*found, marked=console.color_system is None)
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
        out().print(drawing.sessions(found))
    say(amount(len(found), "session"), "dim")


def stats(context: typer.Context, json: Json = False) -> None:
    """Count what this space holds and what it has cost."""

    async def work(memory: AsyncMemory) -> Stats:
        return await memory.stats()

    found = run_of(context).memory(work)
    if json:
        print_json(dump(found))
    else:
        out().print(drawing.stats(found))


def _one_of(value: str | None, known: Sequence[str], option: str) -> None:
    if value is not None and value not in known:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}.", param_hint=option)
