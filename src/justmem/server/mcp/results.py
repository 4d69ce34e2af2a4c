"""What the tools return. A model reads it, so it is short: a card is one line with a short id."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pydantic import BaseModel

from justmem.domain import Card, Citation, HistoryEntry, Note, SessionRecord, Source
from justmem.errors import InputError
from justmem.memory import AsyncMemory
from justmem.prompts import fence, new_mark, one_line
from justmem.prompts.evidence import card_line, turn_lines

_ID = re.compile("c[0-9a-f]{12}")
_ALL = 2**31


class Result(BaseModel):
    @property
    def text(self) -> str:
        """For clients that show only text."""
        return self.model_dump_json()


class RecallResult(Result):
    access: str
    cards: list[str]
    sources: list[str]
    tokens: int  # spent by our models

    @property
    def text(self) -> str:
        return _fenced("\n".join(self.cards), *self.sources)


class ShowResult(Result):
    lines: list[str]

    @property
    def text(self) -> str:
        return _fenced("\n".join(self.lines))


class AskResult(Result):
    answer: str
    sufficient: bool
    quotes: list[str]
    tokens: int


class RememberResult(Result):
    session: str
    state: str  # pending: the words are stored, the cards follow
    reason: str = ""
    cards: list[str]


class CardResult(Result):
    card: str


class ForgetResult(Result):
    cards: int
    sessions: int
    turns: int
    verified: bool = False


# ---------------------------------------------------------------- lines


def _fenced(lines: str, *more: str) -> str:
    """In a fence that remembered text cannot close, so it cannot imitate the tool's own words."""
    return fence("memory", "\n\n".join([lines or "(nothing in memory)", *more]), new_mark())


def card_lines(cards: Sequence[Card], earlier: Collection[str] = ()) -> list[str]:
    """Each as `id day words`, without the day if it is that of the line above."""
    lines, above = [], ""
    for card in cards:
        day = f"{card.said_at:%Y-%m-%d} "
        line = card_line(card, earlier=card.id in earlier)
        # Seven characters tell the cards of a space apart; `full_id` finds the card again.
        id = card.id[:7] if _ID.fullmatch(card.id) else card.id
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
    if len(id) != 7:
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
            is_card = _ID.fullmatch(id) is not None
            entries = await memory.history(None if is_card else name, card=id if is_card else None)
            return [_held(entry) for entry in entries]
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
    counts = f"{record.turns} turns, {record.cards} cards"
    when, state = f"{record.at:%Y-%m-%d %H:%M}", record.state.value
    return f"{one_line(record.id)}: {when}, {state}, {counts}"
