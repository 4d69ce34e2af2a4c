"""correct, pin, unpin, undo: changing a card by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from justmem.cli import render
from justmem.cli.context import Json, run_of
from justmem.cli.terminal import show
from justmem.domain import KINDS, STATUSES, Card
from justmem.memory import AsyncMemory

CardId = Annotated[str, typer.Argument(metavar="CARD", help="The id of the card.")]


def correct(
    context: typer.Context,
    card: CardId,
    fact: Annotated[str | None, typer.Option(help="What is true.")] = None,
    subject: Annotated[str | None, typer.Option(help="Whom or what it is about.")] = None,
    event_date: Annotated[
        str | None, typer.Option(help="When it happened: 2025-02-03, 2025-02, 2025, unknown.")
    ] = None,
    status: Annotated[str | None, typer.Option(help=", ".join(STATUSES))] = None,
    kind: Annotated[
        str | None, typer.Option(help=", ".join(kind for kind in KINDS if kind != "note"))
    ] = None,
    json: Json = False,
) -> None:
    """Replace a wrong card by a corrected one with the same source.

    The card has another id afterwards if its fact or subject changes.
    """
    changes = {"fact": fact, "subject": subject, "event_date": event_date}
    changes |= {"status": status, "kind": kind}
    _change(context, json, lambda memory: memory.correct(card, **changes))


def pin(context: typer.Context, card: CardId, json: Json = False) -> None:
    """Keep a card in every recall that names its subject."""
    _change(context, json, lambda memory: memory.pin(card))


def unpin(context: typer.Context, card: CardId, json: Json = False) -> None:
    """Take the pin off a card."""
    _change(context, json, lambda memory: memory.unpin(card))


def undo(context: typer.Context, card: CardId, json: Json = False) -> None:
    """Take back the last correction, pin or unpin of a card."""
    _change(context, json, lambda memory: memory.undo(card))


def _change(
    context: typer.Context, json: bool, work: Callable[[AsyncMemory], Awaitable[Card]]
) -> None:
    show(run_of(context).memory(work), json, lambda card: render.cards([card]))
