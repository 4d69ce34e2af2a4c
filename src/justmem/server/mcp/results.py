"""What the tools return. A model reads it, so it is short: a card is one line with a short id."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pydantic import BaseModel

from justmem.domain import (
    Answer,
    Card,
    Citation,
    Evidence,
    Forgotten,
    HistoryEntry,
    Remembered,
    Source,
)
from justmem.errors import InputError
from justmem.memory import AsyncMemory
from justmem.prompts import fence, new_mark, one_line
from justmem.prompts.evidence import card_line, turn_lines

_ID = re.compile("c[0-9a-f]{12}")
_ALL = 2**31


class RecallResult(BaseModel):
    access: str
    cards: list[str]
    sources: list[str]
    tokens: int  # spent by our models

    @classmethod
    def of(cls, evidence: Evidence) -> RecallResult:
        return cls(
            access=evidence.access.value,
            cards=card_lines(evidence.cards, evidence.earlier),
            sources=[conversation(source) for source in evidence.sources],
            tokens=evidence.receipt.tokens,
        )

    @property
    def text(self) -> str:
        return fenced(["\n".join(self.cards) or "(nothing in memory)", *self.sources])


class AskResult(BaseModel):
    answer: str
    sufficient: bool
    quotes: list[str]
    tokens: int

    @classmethod
    def of(cls, answer: Answer) -> AskResult:
        return cls(
            answer=answer.text,
            sufficient=answer.sufficient,
            quotes=[quotation(citation) for citation in answer.citations],
            tokens=answer.receipt.tokens,
        )


class RememberResult(BaseModel):
    session: str
    state: str  # pending: the words are stored, the cards follow
    reason: str = ""
    cards: list[str]

    @classmethod
    def of(cls, done: Remembered) -> RememberResult:
        state, cards = done.state.value, card_lines(done.cards)
        return cls(session=done.session_id, state=state, reason=done.reason, cards=cards)


class CardResult(BaseModel):
    card: str

    @classmethod
    def of(cls, card: Card) -> CardResult:
        return cls(card=card_lines([card])[0])


class ForgetResult(BaseModel):
    cards: int
    sessions: int
    turns: int
    verified: bool = False

    @classmethod
    def of(cls, gone: Forgotten) -> ForgetResult:
        verified = gone.certificate is not None
        return cls(cards=gone.cards, sessions=gone.sessions, turns=gone.turns, verified=verified)


class ShowResult(BaseModel):
    lines: list[str]

    @property
    def text(self) -> str:
        return fenced(["\n".join(self.lines) or "(nothing in memory)"])


# ---------------------------------------------------------------- lines


def fenced(parts: Sequence[str]) -> str:
    """In a fence that remembered text cannot close, so it cannot imitate the tool's own words."""
    return fence("memory", "\n\n".join(parts), new_mark())


def card_lines(cards: Sequence[Card], earlier: Collection[str] = ()) -> list[str]:
    """Each as `id day words`, without the day if it is that of the line above."""
    lines, above = [], ""
    for card in cards:
        day = f"{card.said_at:%Y-%m-%d} "
        line = card_line(card, earlier=card.id in earlier)
        lines.append(f"{short_id(card.id)} {line.removeprefix(day) if day == above else line}")
        above = day
    return lines


def conversation(source: Source) -> str:
    turns = "\n".join(turn_lines(source, "s1.{}"))
    return f"Conversation {one_line(source.session_id)} of {source.at:%A %Y-%m-%d}:\n{turns}"


def quotation(citation: Citation) -> str:
    words = f"“{citation.quote}”" if citation.kept else "(the words are not kept)"
    return f"{citation.said_at:%Y-%m-%d} {one_line(citation.speaker)}: {words}"


def short_id(id: str) -> str:
    """Seven characters tell the cards of a space apart; `full_id` finds the card again."""
    return id[:7] if _ID.fullmatch(id) else id


async def full_id(memory: AsyncMemory, id: str) -> str:
    """The id that a short one stands for."""
    if len(id) != 7:
        return id
    found = [card for card in await memory.cards(limit=_ALL) if card.id.startswith(id)]
    if len(found) > 1:
        choices = "; ".join(f"{card.id} ({one_line(card.text)[:60]})" for card in found[:5])
        raise InputError(f"{id} stands for several cards: give one of {choices}.")
    return found[0].id if found else id


# ---------------------------------------------------------------- what `show` lists


async def show_profile(memory: AsyncMemory, name: str | None) -> list[str]:
    return (await memory.profile(name)).text.splitlines()


async def show_history(memory: AsyncMemory, name: str | None) -> list[str]:
    card = await full_id(memory, name or "")
    by_card = _ID.fullmatch(card) is not None
    entries = await memory.history(None if by_card else name, card=card if by_card else None)
    return [f"{_held(each)}: {card_lines([each.card])[0]}" for each in entries]


def _held(entry: HistoryEntry) -> str:
    return entry.note if entry.corrected_at else f"{entry.since} to {entry.until or 'now'}"


async def show_about(memory: AsyncMemory, name: str | None) -> list[str]:
    found = await memory.about(name or "")
    return [*card_lines(found.known), *map(quotation, found.said)]


async def show_notes(memory: AsyncMemory, name: str | None) -> list[str]:
    return [
        f"{note.key}: {note.text}" + (f" = {note.value_json}" if note.value_json else "")
        for note in await memory.notes(name or "")
    ]


async def show_sessions(memory: AsyncMemory, name: str | None) -> list[str]:
    """The latest first."""
    return [
        f"{one_line(each.id)}: {each.at:%Y-%m-%d %H:%M}, {each.state.value}, {each.turns} turns, "
        f"{each.cards} cards"
        for each in reversed(await memory.sessions())
        if (name or "") in each.id
    ]


async def show_session(memory: AsyncMemory, name: str | None) -> list[str]:
    found = await memory.session(name or "")
    turns = [f"{turn.speaker}: {turn.text}" for turn in found.turns if not turn.forgotten]
    return [f"{found.at:%A %Y-%m-%d}", *turns]


async def show_source(memory: AsyncMemory, name: str | None) -> list[str]:
    id = await full_id(memory, name or "")
    card, source = await memory.card(id), await memory.source(id)
    return [card_line(card), *conversation(source).splitlines()]


SHOW = {
    "profile": show_profile,
    "history": show_history,
    "about": show_about,
    "notes": show_notes,
    "sessions": show_sessions,
    "session": show_session,
    "source": show_source,
}
