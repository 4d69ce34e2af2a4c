"""forget: what goes, with a look before and a proof after."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from justmem.cli import drawing
from justmem.cli.asking import Json
from justmem.cli.run import run_of
from justmem.cli.terminal import amount, out, plain, print_json, say, words
from justmem.domain import Certificate, Forgotten, Preview, dump
from justmem.errors import InputError
from justmem.forget.forgetting import Target
from justmem.memory import AsyncMemory

_SHOWN = 20  # cards, sessions and turns of a preview
Given = dict[str, Any]


def forget(
    context: typer.Context,
    card: Annotated[str | None, typer.Option(help="One card.")] = None,
    turn: Annotated[str | None, typer.Option(help="One turn, as in s12#3.")] = None,
    session: Annotated[str | None, typer.Option(help="A session and all its cards.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Every card about it, and the turns they rest on.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Sessions of this day and later: 2024-05-20.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Sessions up to this day.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="The whole space.")] = False,
    turns: Annotated[
        bool | None,
        typer.Option(
            "--turns/--no-turns",
            help="Of a card or subject: the turns it rests on too. Default: of a subject yes.",
            show_default=False,
        ),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would go.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Look for it everywhere afterwards.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Forget a card, a turn, a session, a subject, a period or everything, for good.

    Exits with 6 when `--verify` still finds anything of it.
    """
    what: Given = {
        "card": card or None,
        "turn": turn or None,
        "session": session or None,
        "subject": subject or None,
        "since": since or None,
        "until": until or None,
        "everything": everything,
        "turns": turns,
    }
    _check(what)
    if preview and verify:
        raise typer.BadParameter("--preview shows, --verify proves: say one of them.")
    if preview:
        found = _preview(context, what)
        _show(found, json)
        if subject and not found.cards and not json:
            _tell_of_mentions(subject)
        return
    if not yes:
        _ask(context, what)

    async def work(memory: AsyncMemory) -> Forgotten:
        return await memory.forget(**what, verify=verify)

    gone = run_of(context).memory(work)
    if json:
        print_json(dump(gone))
        return
    out().print(f"Forgotten: {_counted(gone)}.")
    if subject and not gone.cards:
        _tell_of_mentions(subject)
    if gone.certificate is not None:
        out().print(_certificate(gone.certificate))


def _tell_of_mentions(subject: str) -> None:
    """Whoever is only spoken of in the cards of others stays: that has to be said."""
    say(
        f"No card is about {plain(subject, one_line=True)}. Where it is only mentioned, "
        "`justmem about` shows the cards and turns: forget those.",
        "dim",
    )


def _check(what: Given) -> None:
    try:
        Target(**what)
    except InputError as error:
        if what["turns"] is not None and (what["turn"] or what["session"] or what["everything"]):
            raise typer.BadParameter(
                "--turns and --no-turns go with --card or --subject."
            ) from error
        raise typer.BadParameter(
            "Say one of --card, --turn, --session, --subject, --since and --until, or --everything."
        ) from error


def _ask(context: typer.Context, what: Given) -> None:
    named = _named(what)
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"To forget {named} without being asked, add --yes.")
    gone = _preview(context, what).forgotten
    typer.confirm(f"Forget {named} for good? {_counted(gone)} would go.", abort=True, err=True)


def _named(what: Given) -> str:
    if what["everything"]:
        return "everything in this space"
    if what["since"] or what["until"]:
        ends = (("since", what["since"]), ("until", what["until"]))
        days = " ".join(f"{word} {plain(day)}" for word, day in ends if day)
        return f"the sessions {days}"
    kinds = ("card", "turn", "session", "subject")
    return next(f"the {kind} {what[kind]!r}" for kind in kinds if what[kind])


def _preview(context: typer.Context, what: Given) -> Preview:
    async def work(memory: AsyncMemory) -> Preview:
        return await memory.preview_forget(**what)

    return run_of(context).memory(work)


def _show(found: Preview, json: bool) -> None:
    if json:
        print_json(dump(found))
        return
    out().print(f"This would forget {_counted(found.forgotten)}.")
    parts = [
        (len(found.sessions), drawing.sessions(found.sessions[:_SHOWN]), "sessions"),
        (len(found.turns), words("turns " + ", ".join(found.turns[:_SHOWN])), "turns"),
        (len(found.cards), drawing.cards(found.cards[:_SHOWN]), "cards"),
    ]
    for count, shown, name in parts:
        if count:
            out().print(shown)
        if count > _SHOWN:
            out().print(Text(f"and {count - _SHOWN} more {name}", "dim"))


def _counted(gone: Forgotten) -> str:
    always = (("card", gone.cards), ("session", gone.sessions), ("turn", gone.turns))
    beside = (("quarantined card", gone.quarantined), ("recorded reply", gone.replies))
    counts = (*always, *(each for each in beside if each[1]))
    return ", ".join(amount(count, noun) for noun, count in counts)


def _certificate(proof: Certificate) -> Group:
    """No words are in it: it may be printed and kept."""
    lines = [
        f"Certificate: {proof.target}, space {proof.space}, {proof.at:%Y-%m-%d %H:%M}",
        f"  deleted    {amount(len(proof.digests), 'text')}, {amount(proof.vectors, 'vector')}",
        f"  searched   {amount(len(proof.files), 'file')}, "
        f"{amount(len(proof.tables), 'table')}, {proof.bytes:,} bytes",
        f"  remains    {proof.remains}",
    ]
    lines += [f"  not searched  {file}" for file in proof.unsearched]
    lines += [f"  still said elsewhere  {one} in {where}" for one, where in proof.held.items()]
    lines += [f"  sha256     {one}" for one in proof.digests]
    return Group(*(words(line, one_line=False) for line in lines))
