"""history, profile: what was true when, and what holds now."""

from __future__ import annotations

from typing import Annotated

import typer

from justmem.cli import render
from justmem.cli.context import Json, moment, now, run_of
from justmem.cli.terminal import out, plain, print_json
from justmem.domain import HistoryEntry, SubjectProfile, dump
from justmem.memory import AsyncMemory

At = Annotated[str | None, typer.Option(help="As of this time. Default: now.")]


def history(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="A person or thing.")] = None,
    card: Annotated[
        str | None,
        typer.Option(help="Instead: a card, with what it replaced and what replaced it."),
    ] = None,
    at: At = None,
    json: Json = False,
) -> None:
    """Show what was true when, newest first."""

    async def work(memory: AsyncMemory) -> list[HistoryEntry]:
        return await memory.history(subject, card=card, at=moment(at) or now())

    found = run_of(context).memory(work)
    if json:
        print_json([dump(entry) for entry in found])
    else:
        out().print(render.history(found))


def profile(
    context: typer.Context,
    subject: Annotated[
        str | None, typer.Argument(help="Default: the person most cards are about.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="At most this many tokens.")] = 400,
    at: At = None,
    json: Json = False,
) -> None:
    """Show short lines about a person, what holds now first."""

    async def work(memory: AsyncMemory) -> SubjectProfile:
        return await memory.profile(subject, tokens=tokens, at=moment(at) or now())

    found = run_of(context).memory(work)
    if json:
        print_json(dump(found))
    else:
        typer.echo(plain(found.text))
