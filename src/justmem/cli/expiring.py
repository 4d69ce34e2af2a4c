"""expire, drop-sources: keeping less."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from justmem.cli import drawing
from justmem.cli.asking import Json
from justmem.cli.run import moment, now, run_of
from justmem.cli.terminal import amount, out, print_json, say
from justmem.domain import Expiring, Forgotten, SessionRecord, SessionState, dump
from justmem.errors import InvalidSetting
from justmem.memory import AsyncMemory

Preview = Annotated[bool, typer.Option("--preview", help="Show what would go. Nothing does.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_SETTLED = (SessionState.STORED, SessionState.EMPTY)
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
    if preview or not (count.cards or count.sessions):
        _show_expiring(found, json)
        return
    _confirm(
        f"Forget {amount(count.sessions, 'session')} and {amount(count.cards, 'card')} for good?",
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
        f"{amount(count.sessions, 'session')} and {amount(count.cards, 'card')} "
        "are older than allowed.",
        "dim",
    )


def drop_sources(
    context: typer.Context, preview: Preview = False, yes: Yes = False, json: Json = False
) -> None:
    """Let the words of all sessions go and keep the cards, now and from now on.

    There is no way back. Citations then name the session and the turn, without its words. Sessions
    whose cards are still to be made keep their words until then.
    """
    run = run_of(context)

    async def look(memory: AsyncMemory) -> tuple[bool, list[SessionRecord]]:
        return (await memory.stats()).sources == "drop", await memory.sessions()

    async def work(memory: AsyncMemory) -> Forgotten:
        return await memory.drop_sources()

    dropped, records = run.memory(look)
    settled = [record for record in records if record.state in _SETTLED and not dropped]
    turns = sum(record.turns for record in settled)
    waiting = sum(record.state not in _SETTLED for record in records)
    if preview:
        _say_dropped({"preview": True, "turns": turns, "waiting": waiting}, json)
        return
    _confirm(
        f"Let the words of {amount(len(settled), 'session')} "
        f"({amount(turns, 'turn')}) go for good?",
        yes,
    )
    gone = run.memory(work)
    _say_dropped({"preview": False, "turns": gone.turns, "waiting": waiting}, json)


def _say_dropped(told: dict[str, Any], json: bool) -> None:
    if json:
        print_json(told)
        return
    verb = "would go" if told["preview"] else "gone"
    text = f"{amount(told['turns'], 'turn')} {verb}; the cards stay."
    if told["waiting"]:
        text += (
            f" {amount(told['waiting'], 'session')} keep their words until their cards are made."
        )
    out().print(text)


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("To do this without being asked, add --yes.")
    typer.confirm(question, abort=True, err=True)
