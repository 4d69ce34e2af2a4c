"""What the tools return. A model reads it, so it is short: a card is one line with a short id.

The SDK writes a result as JSON, which remembered text cannot close.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pydantic import BaseModel

from justmem.domain import Card, Citation, HistoryEntry, Note, SessionRecord, Source
from justmem.errors import InputError
from justmem.memory import AsyncMemory
from justmem.prompts import one_line
from justmem.prompts.evidence import card_line, turn_lines

_ID = re.compile("c[0-9a-f]{12}")
_SHORT = 7  # characters that tell the cards of a space apart
_ALL = 2**31


class RecallResult(BaseModel):
    access: str
    cards: list[str]
    sources: list[str]
    tokens: int  # spent by our models


class AskResult(BaseModel):
    answer: str
    sufficient: bool
    quotes: list[str]
    tokens: int


class RememberResult(BaseModel):
    session: str
    state: str  # pending: the words are stored, the cards follow
    reason: str
    cards: list[str]


class CardResult(BaseModel):
    card: str


class ForgetResult(BaseModel):
    cards: int
    sessions: int
    turns: int
    labels: int
    verified: bool


class ShowResult(BaseModel):
    lines: list[str]


# ---------------------------------------------------------------- lines


def card_lines(cards: Sequence[Card], earlier: Collection[str] = ()) -> list[str]:
    """Each as `id day words`, without the day if it is that of the line above."""
    lines, above = [], ""
    for card in cards:
        day = f"{card.said_at:%Y-%m-%d} "
        line = card_line(card, earlier=card.id in earlier)
        id = card.id[:_SHORT] if _ID.fullmatch(card.id) else card.id
        lines.append(f"{id} {line.removeprefix(day) if day == above else line}")
        above = day
    return lines


def conversation(source: Source) -> str:
    turns = "\n".join(turn_lines(source, "s1.{}"))
    return f"Conversation {one_line(source.session_id)} of {source.at:%A %Y-%m-%d}:\n{turns}"


def quotation(citation: Citation) -> str:
    words = f"“{citation.quote}”" if citation.kept else "(the words are not kept)"
    return f"{citation.said_at:%Y-%m-%d} {one_line(citation.speaker)}: {words}"


async def full_id(memory: AsyncMemory, id: str) -> str:
    """The id that a short one stands for."""
    if len(id) != _SHORT:
        return id
    found = [card for card in await memory.cards(limit=_ALL) if card.id.startswith(id)]
    if len(found) > 1:
        choices = "; ".join(f"{card.id} ({one_line(card.text)[:60]})" for card in found[:5])
        raise InputError(f"{id} stands for several cards: give one of {choices}.")
    return found[0].id if found else id


# ---------------------------------------------------------------- what the tool `show` lists


async def show(memory: AsyncMemory, what: str, name: str | None) -> list[str]:
    given = name or ""
    match what:
        case "profile":
            return (await memory.profile(name)).text.splitlines()
        case "history":
            id = await full_id(memory, given)
            of = {"card": id} if _ID.fullmatch(id) else {"subject": given}
            return [_held(entry) for entry in await memory.history(**of)]
        case "about":
            found = await memory.about(given)
            return [*card_lines(found.known), *map(quotation, found.said)]
        case "notes":
            return [_note(note) for note in await memory.notes(given)]
        case "sessions":  # the latest first
            records = reversed(await memory.sessions())
            return [_record(record) for record in records if given in record.id]
        case "session":
            session = await memory.session(given)
            turns = [f"{turn.speaker}: {turn.text}" for turn in session.turns if not turn.forgotten]
            return [f"{session.at:%A %Y-%m-%d}", *turns]
        case _:  # the source of a card
            id = await full_id(memory, given)
            card, source = await memory.card(id), await memory.source(id)
            return [card_line(card), *conversation(source).splitlines()]


def _held(entry: HistoryEntry) -> str:
    when = entry.note if entry.corrected_at else f"{entry.since} to {entry.until or 'now'}"
    return f"{when}: {card_lines([entry.card])[0]}"


def _note(note: Note) -> str:
    return f"{note.key}: {note.text}" + (f" = {note.value_json}" if note.value_json else "")


def _record(record: SessionRecord) -> str:
    counts = f"turns: {record.turns}, cards: {record.cards}"
    when, state = f"{record.at:%Y-%m-%d %H:%M}", record.state.value
    return f"{one_line(record.id)}: {when}, {state}, {counts}"
