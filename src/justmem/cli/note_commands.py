"""note, notes, note-at: texts under keys of one's own."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from justmem.cli import render
from justmem.cli.context import Json, moment, run_of
from justmem.cli.terminal import show, show_list
from justmem.domain import Note, dump

Label = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE. May be repeated.", metavar="NAME=VALUE")
]


def labels_of(given: list[str] | None) -> dict[str, str] | None:
    """["project=kitchen"] -> {"project": "kitchen"}."""
    if not given:
        return None
    pairs = [text.partition("=") for text in given]
    if wrong := [text for text, (_, equals, _) in zip(given, pairs, strict=True) if not equals]:
        raise typer.BadParameter(f"{wrong[0]!r} is not NAME=VALUE.", param_hint="--label")
    return {name: value for name, _, value in pairs}


def note(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="The text, stored exactly as it is.")],
    key: Annotated[
        str | None, typer.Option(help="Your key. A note with the same key is replaced.")
    ] = None,
    value: Annotated[str | None, typer.Option(help="JSON to keep with it.")] = None,
    at: Annotated[str | None, typer.Option(help="When it holds from. Default: now.")] = None,
    until: Annotated[str | None, typer.Option(help="When it expires.")] = None,
    label: Label = None,
    json: Json = False,
) -> None:
    """Store a text as a card, without extraction."""
    given: dict[str, Any] = {"key": key, "value": None if value is None else value.encode()}
    given |= {"at": moment(at), "until": moment(until, "--until"), "labels": labels_of(label)}
    card = run_of(context).memory(lambda memory: memory.note(text, **given), create=True)
    show(card, json, lambda card: f"Noted as {card.session_id.partition(':')[2]}.")


def notes(
    context: typer.Context,
    prefix: Annotated[str, typer.Argument(help="How their keys begin.")] = "",
    json: Json = False,
) -> None:
    """List the notes, in order of their keys."""
    found = run_of(context).memory(lambda memory: memory.notes(prefix))
    shown: Any = [_with_value(note) for note in found] if json else found
    show_list(shown, json, render.notes, "note")


def note_at(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The key.")],
    json: Json = False,
) -> None:
    """Show the note with a key."""
    note = run_of(context).memory(lambda memory: memory.note_at(key))
    lines = [note.text] if note.value_json is None else [note.text, note.value_json]
    show(_with_value(note), json, lambda _: "\n".join(lines))


def _with_value(note: Note) -> dict[str, object]:
    return {**dump(note), "value": note.value}
