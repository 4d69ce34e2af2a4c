"""What the tools return. A model reads it, so it is short: a card is one line with a short id."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from pydantic import BaseModel

from justmem.domain import Answer, Card, Citation, Evidence, Forgotten, SessionRecord, Source
from justmem.errors import InputError
from justmem.memory import AsyncMemory
from justmem.prompts import fence, new_mark, one_line
from justmem.prompts.evidence import card_line, turn_lines

_ID = re.compile("c[0-9a-f]{12}")


class Said(BaseModel):
    """One turn of the conversation to remember."""

    text: str
    role: Literal["user", "assistant"] = "user"
    speaker: str | None = None


class RememberResult(BaseModel):
    session: str
    state: str  # pending: the words are stored, the cards follow
    reason: str = ""
    cards: list[str]


class RecallResult(BaseModel):
    access: str
    cards: list[str]
    sources: list[str]
    tokens: int  # spent by our models

    @classmethod
    def of(cls, evidence: Evidence) -> RecallResult:
        return cls(
            access=evidence.access.value,
            cards=lines(evidence.cards, evidence.earlier),
            sources=[said(source) for source in evidence.sources],
            tokens=evidence.receipt.tokens,
        )

    @property
    def text(self) -> str:
        """Fenced: nothing that was said may pass for the tool's own words."""
        parts = ["\n".join(self.cards) or "(nothing in memory)", *self.sources]
        return fence("memory", "\n\n".join(parts), new_mark())


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
            quotes=[quoted(citation) for citation in answer.citations],
            tokens=answer.receipt.tokens,
        )


class ReplayResult(BaseModel):
    card: str
    session: str
    at: str
    quotes: list[str]
    source: str


class ForgetResult(BaseModel):
    cards: int
    sessions: int
    turns: int
    verified: bool = False

    @classmethod
    def of(cls, gone: Forgotten) -> ForgetResult:
        verified = gone.certificate is not None
        return cls(cards=gone.cards, sessions=gone.sessions, turns=gone.turns, verified=verified)


class SessionsResult(BaseModel):
    sessions: dict[str, str]
    total: int


class SearchResult(BaseModel):
    """As ChatGPT's connectors want it: each with id, title and url."""

    results: list[dict[str, str]]


class FetchResult(BaseModel):
    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str]


def lines(cards: Sequence[Card], earlier: Collection[str] = ()) -> list[str]:
    """Each as `id date words`."""
    return [f"{short(card.id)} {card_line(card, earlier=card.id in earlier)}" for card in cards]


def short(id: str) -> str:
    """Seven characters tell the cards of a space apart; `full` finds the card again."""
    return id[:7] if _ID.fullmatch(id) else id


async def full(memory: AsyncMemory, id: str) -> str:
    """The id that a short one stands for."""
    if len(id) != 7:
        return id
    found = [card for card in await memory.cards() if card.id.startswith(id)]
    if len(found) > 1:
        choices = "; ".join(f"{card.id} ({one_line(card.text)[:60]})" for card in found[:5])
        raise InputError(f"{id} stands for several cards: give one of {choices}.")
    return found[0].id if found else id


def session_line(record: SessionRecord) -> str:
    at, state = record.at.isoformat(" ", "minutes"), record.state.value
    return f"{at}, {state}, {record.turns} turns, {record.cards} cards"


def said(source: Source) -> str:
    turns = "\n".join(turn_lines(source, "s1.{}"))
    return f"Conversation {one_line(source.session_id)} of {source.at:%A %Y-%m-%d}:\n{turns}"


def quoted(citation: Citation) -> str:
    words = f"“{citation.quote}”" if citation.kept else "(the words are not kept)"
    return f"{citation.said_at:%Y-%m-%d} {one_line(citation.speaker)}: {words}"
