"""What a model said a card is -> a Card that code has checked.

A model's word is never enough for provenance: the turns it names must exist and share words
with the card. A card whose turns do not hold is moved to the turn that supports it best, and one
that no turn supports is quarantined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from justmem.domain import (
    UNKNOWN_DATE,
    Card,
    EventDate,
    Kind,
    Quarantined,
    Session,
    Status,
    card_id,
    merge_repeated,
)
from justmem.language.words import content_stems, overlap
from justmem.ports import Language
from justmem.prompts.parse import Line, otherwise
from justmem.runtime import deadlines

# The share of a card's words that its turns must hold: all recorded cards pass, and most do not
# when they are put on another session's turns (bench/cards.py).
_NAMED = 0.15
_TURN = re.compile(r"[0-9]{1,6}")
_LONGEST = 10  # characters of a turn number that are looked at: a reply can hold endless ones
_MOVED = 0.3  # to be moved to a turn that nobody named, a card needs more


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _kind(value: Any) -> Any:
    """Only callers write notes."""
    kind = _lower(value)
    return "fact" if kind == "note" else kind


def _numbers(value: Any) -> Any:
    """ "3,5", 3, ["#3", 5] -> turn numbers. Whatever is no number of a turn is left out."""
    parts = value.replace(";", ",").split(",") if isinstance(value, str) else value
    if not isinstance(parts, list):
        parts = [parts]
    texts = (_lower(part).lstrip("#t") if isinstance(part, str) else part for part in parts)
    return sorted({int(m[0]) for text in texts if (m := _TURN.fullmatch(str(text)[:_LONGEST]))})


class Draft(BaseModel):
    """One item of a reply: a row of six fields, or the same fields as an object."""

    subject: Annotated[Line, Field(min_length=1)]
    fact: Annotated[Line, Field(min_length=1)]
    event_date: Annotated[Line, otherwise("")] = ""
    status: Annotated[Status, BeforeValidator(_lower), otherwise("stable")] = "stable"
    kind: Annotated[Kind, BeforeValidator(_kind), otherwise("fact")] = "fact"
    turns: Annotated[tuple[int, ...], BeforeValidator(_numbers)] = ()

    @model_validator(mode="before")
    @classmethod
    def _row(cls, item: Any) -> Any:
        if not isinstance(item, str):
            return item
        parts = item.split("|")
        if len(parts) < len(cls.model_fields):
            raise ValueError("a row has six fields")
        subject, *fact, event_date, status, kind, turns = parts
        values = (subject, "|".join(fact), event_date, status, kind, turns)
        return dict(zip(cls.model_fields, values, strict=True))

    @field_validator("fact")
    @classmethod
    def _continues(cls, fact: str, info: ValidationInfo) -> str:
        """A fact continues the sentence that the subject begins."""
        subject = info.data.get("subject", "")
        return fact[len(subject) + 1 :] if fact.lower().startswith(f"{subject} ".lower()) else fact


def read_draft(item: Any) -> Draft | None:
    try:
        return Draft.model_validate(item)
    except ValidationError:
        return None


@dataclass(slots=True)
class Checked:
    cards: list[Card] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(drafts: Sequence[Draft], session: Session, language: Language) -> Checked:
    result = Checked()
    spoken = [_stems(turn.text) for turn in session.turns]
    moved = 0
    for draft in drafts:
        deadlines.check()
        turns, how = _provenance(draft, session, spoken)
        if not turns:
            result.quarantined.append(
                Quarantined(
                    subject=draft.subject, fact=draft.fact, reason="no turn of the session says so"
                )
            )
            continue
        moved += how == "moved"
        result.cards.append(_card(draft, session, turns, language))
    result.cards = merge_repeated(result.cards)
    if moved:
        result.notes.append(f"{moved} cards named a wrong turn and were moved to the right one")
    if result.quarantined:
        result.notes.append(f"{len(result.quarantined)} cards have no supporting turn: quarantined")
    return result


def _stems(text: str) -> frozenset[str]:
    deadlines.check()
    return frozenset(content_stems(text))


def _card(draft: Draft, session: Session, turns: tuple[int, ...], language: Language) -> Card:
    said_at = session.said_at(turns[0])
    return Card(
        id=card_id(session.id, draft.subject, draft.fact),
        subject=draft.subject,
        fact=draft.fact,
        event_date=_event_date(draft.event_date.lower(), said_at, language),
        status=draft.status,
        kind=draft.kind,
        session_id=session.id,
        said_at=said_at,
        turns=with_replies(turns, session) if draft.kind == "interaction" else turns,
    )


def _event_date(text: str, said_at: datetime, language: Language) -> EventDate:
    try:
        return EventDate.parse(text.upper().replace(" ", "") if text[:1].isdigit() else text)
    except ValueError:
        return language.resolve_date(text, said_at) if text else UNKNOWN_DATE


def _provenance(
    draft: Draft, session: Session, spoken: Sequence[frozenset[str]]
) -> tuple[tuple[int, ...], str]:
    said = set(content_stems(draft.fact))
    # Who speaks is no evidence for what is said, unless there is nothing else to go by.
    told = said - set(content_stems(draft.subject)) or said
    named = tuple(n for n in draft.turns if 1 <= n <= len(session.turns))
    # A short answer is understood from the question before it: the turn before counts as context.
    context = {n: spoken[n - 1] | (spoken[n - 2] if n > 1 else frozenset()) for n in named}
    if named and overlap(told, frozenset().union(*context.values())) >= _NAMED:
        return tuple(n for n in named if told & context[n]), "named"
    if not told:
        return named, "named"  # nothing to compare ("is 31" in another script): in range is all
    best = max(range(len(spoken)), key=lambda i: overlap(told, spoken[i]))
    return ((best + 1,), "moved") if overlap(told, spoken[best]) >= _MOVED else ((), "")


def with_replies(turns: tuple[int, ...], session: Session) -> tuple[int, ...]:
    """An interaction is anchored to the reply as well: that is where its value lies."""
    wider = set(turns)
    for number in turns:
        answered = session.turns[number : number + 1]  # the turn after it, if there is one
        if session.turn(number).role == "user" and answered and answered[0].role == "assistant":
            wider.add(number + 1)
    return tuple(sorted(wider))
