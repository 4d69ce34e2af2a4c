"""correct, pin, unpin, undo, forget, expire: changing what a space holds."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from justmem.cli import render
from justmem.cli.context import settings, with_memory
from justmem.cli.options import a_time, argument, flag, now, option
from justmem.cli.terminal import amount, plain, show
from justmem.domain import KINDS, STATUSES, Card, Certificate, Forgotten, Preview
from justmem.errors import InvalidSetting

if TYPE_CHECKING:
    from justmem.memory import AsyncMemory

_SHOWN = 20  # cards, sessions and turns of a preview
_KINDS = ", ".join(kind for kind in KINDS if kind != "note")
_CARD = argument("The id of the card.")
_PREVIEW = flag("Show what would be forgotten, and stop.", "--preview")
_YES = flag("Do not ask for confirmation.", "--yes", "-y")


def correct(
    card: str = _CARD,
    fact: str | None = option("What is true."),
    subject: str | None = option("Whom or what it is about."),
    event_date: str | None = option("When it happened: 2025-02-03, 2025-02, 2025, unknown."),
    status: str | None = option(", ".join(STATUSES)),
    kind: str | None = option(_KINDS),
) -> None:
    """Replace a wrong card by a corrected one with the same source.

    The card has another id afterwards if its fact or subject changes.
    """
    given = locals()
    _change(lambda memory: memory.correct(**given))


def pin(card: str = _CARD) -> None:
    """Keep a card in every recall that names its subject."""
    _change(lambda memory: memory.pin(card))


def unpin(card: str = _CARD) -> None:
    """Take the pin off a card."""
    _change(lambda memory: memory.unpin(card))


def undo(card: str = _CARD) -> None:
    """Take back the last correction, pin or unpin of a card."""
    _change(lambda memory: memory.undo(card))


def _change(work: Callable[[AsyncMemory], Awaitable[Card]]) -> None:
    show(with_memory(work), lambda card: render.cards([card]))


# ---------------------------------------------------------------- forgetting


def forget(
    card: str | None = option("One card."),
    turn: str | None = option("One turn, as in s12#3."),
    session: str | None = option("A session and all its cards."),
    subject: str | None = option("Every card about it, and the turns and labels that name it."),
    key: str | None = option("The note with this key."),
    since: str | None = option("What was said from this day on: 2024-05-20."),
    until: str | None = option("What was said up to this day."),
    everything: bool = flag("The whole space.", "--everything"),
    turns: bool | None = option(
        "Also the turns of the cards. Default: only for --subject.", None, "--turns/--no-turns"
    ),
    preview: bool = _PREVIEW,
    verify: bool = flag("Search all files for it afterwards.", "--verify"),
    yes: bool = _YES,
) -> None:
    """Forget a card, a turn, a session, a subject, a period or everything, for good.

    Exits with 1 if nothing matches, and with 6 if `--verify` still finds some of it.
    """
    what: dict[str, Any] = {"card": card, "turn": turn, "session": session, "subject": subject}
    what |= {"key": key, "since": since, "until": until, "everything": everything, "turns": turns}
    if preview and verify:
        raise typer.BadParameter("--preview and --verify cannot be combined.")
    if preview or not yes:
        found = with_memory(lambda memory: memory.preview_forget(**what))
        if preview:
            show(found, _preview)
            return
        target = ", ".join(
            name if value is True else f"{name} {plain(value, one_line=True)}"
            for name, value in what.items()
            if value not in (None, False)
        )
        _confirm(f"Forget {target} for good? ({_counted(found.forgotten)})")
    show(with_memory(lambda memory: memory.forget(**what, verify=verify)), _forgotten)


def expire(
    at: datetime | None = a_time("The moment to count ages to: 2024-05-20. Default: now."),
    preview: bool = _PREVIEW,
    yes: bool = _YES,
) -> None:
    """Forget for good what is older than the setting [retention] allows.

    Age is the time from the session to now, or to --at.
    """
    if not settings().retention.limited:
        raise InvalidSetting(
            "Nothing expires. Set an age in [retention] of justmem.toml, such as days = 365."
        )
    when = at or now()
    found = with_memory(lambda memory: memory.expiring(at=when))
    if preview or not (found.sessions or found.words):
        show(found, _preview)
        return
    if not yes:
        _confirm(f"Forget {_counted(found.forgotten)} for good?")
    show(with_memory(lambda memory: memory.expire(at=when)), _forgotten)


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("There is no terminal to ask for confirmation. Add --yes.")
    typer.confirm(question, abort=True, err=True)


def _preview(found: Preview) -> list[Any]:
    parts = [
        (len(found.sessions), render.sessions(found.sessions[:_SHOWN]), "session"),
        (len(found.turns), "turns " + ", ".join(map(plain, found.turns[:_SHOWN])), "turn"),
        (len(found.labels), "labels " + ", ".join(map(plain, found.labels[:_SHOWN])), "label"),
        (len(found.cards), render.cards(found.cards[:_SHOWN]), "card"),
    ]
    lines: list[Any] = [f"This would forget {_counted(found.forgotten)}."]
    for count, shown, noun in parts:
        lines += [shown] if count else []
        lines += [f"and {amount(count - _SHOWN, noun)} more"] if count > _SHOWN else []
    return lines


def _counted(gone: Forgotten) -> str:
    counts = [("card", gone.cards), ("session", gone.sessions), ("turn", gone.turns)]
    if gone.quarantined:
        counts.append(("quarantined card", gone.quarantined))
    if gone.labels:
        counts.append(("label", gone.labels))
    return ", ".join(amount(count, noun) for noun, count in counts)


def _forgotten(gone: Forgotten) -> str:
    told = f"Forgotten: {_counted(gone)}."
    return told if gone.certificate is None else f"{told}\n{_certificate(gone.certificate)}"


def _certificate(proof: Certificate) -> str:
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
    return "\n".join(lines)
