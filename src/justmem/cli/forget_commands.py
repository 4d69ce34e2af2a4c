"""forget, expire: deleting for good, with a preview before and a certificate after."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from justmem.cli import render
from justmem.cli.context import Json, moment, now, run_of
from justmem.cli.terminal import amount, out, plain, print_json, say, show, words
from justmem.domain import Certificate, Expiring, Forgotten, Preview, dump
from justmem.errors import InvalidSetting

_SHOWN = 20  # cards, sessions and turns of a preview
Target = dict[str, Any]  # the arguments of `Memory.forget`
Show = Annotated[bool, typer.Option("--preview", help="Show what would be forgotten, and stop.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def forget(
    context: typer.Context,
    card: Annotated[str | None, typer.Option(help="One card.")] = None,
    turn: Annotated[str | None, typer.Option(help="One turn, as in s12#3.")] = None,
    session: Annotated[str | None, typer.Option(help="A session and all its cards.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Every card about it, and the turns that support them.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The note with this key.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Sessions from this day on: 2024-05-20.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Sessions up to this day.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="The whole space.")] = False,
    turns: Annotated[
        bool | None,
        typer.Option(
            "--turns/--no-turns",
            help="Also the turns that support the cards. Default: only for --subject.",
            show_default=False,
        ),
    ] = None,
    preview: Show = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Search all files for it afterwards."),
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget a card, a turn, a session, a subject, a period or everything, for good.

    Exits with 6 if `--verify` still finds some of it.
    """
    what: Target = {"card": card, "turn": turn, "session": session, "subject": subject, "key": key}
    what |= {"since": since, "until": until, "everything": everything, "turns": turns}
    if preview and verify:
        raise typer.BadParameter("--preview and --verify cannot be combined.")
    run = run_of(context)
    if preview or not yes:
        found = run.memory(lambda memory: memory.preview_forget(**what))
        if preview:
            _show_preview(found, json)
            return
        _confirm(f"Forget {_described(what)} for good? ({_counted(found.forgotten)})")
    gone = run.memory(lambda memory: memory.forget(**what, verify=verify))
    show(gone, json, lambda gone: f"Forgotten: {_counted(gone)}.")
    if gone.certificate is not None and not json:
        out().print(_certificate(gone.certificate))


def expire(
    context: typer.Context,
    at: Annotated[
        str | None, typer.Option(help="The moment to count ages to: 2024-05-20. Default: now.")
    ] = None,
    preview: Show = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget for good what is older than the setting [retention] allows.

    Age is the time from the session to now, or to --at.
    """
    run = run_of(context)
    if not run.settings().retention.limited:
        raise InvalidSetting(
            "Nothing expires. Set an age in [retention] of justmem.toml, such as days = 365."
        )
    when = moment(at) or now()
    found = run.memory(lambda memory: memory.expiring(at=when))
    if preview or found == Expiring():
        _show_expiring(found, json)
        return
    if not yes:
        _confirm(f"Forget {_counted(found.counted)} for good?")
    gone = run.memory(lambda memory: memory.expire(at=when))
    show(gone, json, lambda gone: f"Expired: {_counted(gone)}.")


def _show_expiring(found: Expiring, json: bool) -> None:
    if json:
        print_json({**dump(found), "preview": True, "forgotten": dump(found.counted)})
        return
    console, count = out(), found.counted
    if found.sessions:
        console.print(render.sessions(found.sessions[:_SHOWN]))
    if found.cards:
        console.print(render.cards(found.cards[:_SHOWN]))
    say(f"Older than [retention] allows: {_counted(count)}.", "dim")


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("There is no terminal to ask for confirmation. Add --yes.")
    typer.confirm(question, abort=True, err=True)


def _described(what: Target) -> str:
    if what["everything"]:
        return "everything in this space"
    if what["since"] or what["until"]:
        ends = [f"{name} {plain(what[name])}" for name in ("since", "until") if what[name]]
        return f"the sessions {' '.join(ends)}"
    return next(f"the {kind} {what[kind]!r}" for kind in what if what[kind])


def _show_preview(found: Preview, json: bool) -> None:
    if json:
        print_json(dump(found))
        return
    out().print(f"This would forget {_counted(found.forgotten)}.")
    parts = [
        (len(found.sessions), render.sessions(found.sessions[:_SHOWN]), "sessions"),
        (len(found.turns), words("turns " + ", ".join(found.turns[:_SHOWN])), "turns"),
        (len(found.cards), render.cards(found.cards[:_SHOWN]), "cards"),
    ]
    for count, shown, name in parts:
        if count:
            out().print(shown)
        if count > _SHOWN:
            say(f"and {count - _SHOWN} more {name}", "dim")


def _counted(gone: Forgotten) -> str:
    counts = [("card", gone.cards), ("session", gone.sessions), ("turn", gone.turns)]
    if gone.quarantined:
        counts.append(("quarantined card", gone.quarantined))
    return ", ".join(amount(count, noun) for noun, count in counts)


def _certificate(proof: Certificate) -> Text:
    """It contains none of the forgotten words."""
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
    return words("\n".join(lines))
