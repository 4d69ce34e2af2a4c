"""expire: keeping less."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from justmem.cli import drawing
from justmem.cli.asking import Json
from justmem.cli.run import moment, now, run_of
from justmem.cli.terminal import amount, out, print_json, say
from justmem.domain import Expiring, Forgotten, dump
from justmem.errors import InvalidSetting
from justmem.memory import AsyncMemory

Preview = Annotated[bool, typer.Option("--preview", help="Show what would go. Nothing does.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_SHOWN = 20


def expire(
    context: typer.Context,
    at: Annotated[
        str | None, typer.Option(help="Count the age to this moment: 2024-05-20, or now.")
    ] = None,
    preview: Preview = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget what is older than the setting [retention] allows, for good.

    Age is counted from the time of a session, to now or to --at.
    """
    run = run_of(context)
    if not run.settings().retention.limited:
        raise InvalidSetting(
            "Nothing expires: set how long things are kept in [retention], as in days = 365."
        )
    when = moment(at) or now()

    async def look(memory: AsyncMemory) -> Expiring:
        return await memory.expiring(at=when)

    async def work(memory: AsyncMemory) -> Forgotten:
        return await memory.expire(at=when)

    found = run.memory(look)
    count = found.counted
    if preview or found == Expiring():
        _show_expiring(found, json)
        return
    _confirm(
        f"Forget {amount(count.sessions, 'session')}, {amount(count.cards, 'card')} and "
        f"{amount(count.turns, 'turn')} for good?",
        yes,
    )
    gone = run.memory(work)
    if json:
        print_json(dump(gone))
    else:
        out().print(
            f"Expired: {amount(gone.cards, 'card')}, {amount(gone.sessions, 'session')}, "
            f"{amount(gone.turns, 'turn')}."
        )


def _show_expiring(found: Expiring, json: bool) -> None:
    if json:
        print_json({**dump(found), "preview": True, "forgotten": dump(found.counted)})
        return
    console, count = out(), found.counted
    if found.sessions:
        console.print(drawing.sessions(found.sessions[:_SHOWN]))
    if found.cards:
        console.print(drawing.cards(found.cards[:_SHOWN]))
    say(
        f"{amount(count.sessions, 'session')}, {amount(count.cards, 'card')} and "
        f"{amount(count.turns, 'turn')} are older than allowed.",
        "dim",
    )


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("To do this without being asked, add --yes.")
    typer.confirm(question, abort=True, err=True)
