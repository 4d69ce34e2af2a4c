"""What a model said a card is -> a Card that code has checked.

A model's word is never enough for provenance: the turns it names must exist and share words
with the card. A card whose turns do not hold is moved to the turn that supports it best, and one
that no turn supports is quarantined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from justmem import deadlines
from justmem.domain import (
    UNKNOWN_DATE,
    Card,
    EventDate,
    Kind,
    Quarantined,
    Session,
    Status,
    card_id,
)
from justmem.language.en import dates
from justmem.words import clean, content, overlap

_KINDS = frozenset(get_args(Kind))
_STATUSES = frozenset(get_args(Status))

# The share of a card's words that its turns must hold: all recorded cards pass, and most do not
# when they are put on another session's turns (bench/cards.py).
_NAMED = 0.15
_LARGE = 10**9  # no year or turn; and spelling out an endless number is an attack
_MOVED = 0.3  # to be moved to a turn that nobody named, a card needs more


@dataclass(frozen=True, slots=True)
class Draft:
    subject: str
    fact: str
    event_date: str
    status: str
    kind: str
    turns: tuple[int, ...]


def read_draft(item: Any) -> Draft | None:
    """One item of a reply: a row of six fields, or the same fields as an object."""
    if isinstance(item, str):
        parts = [part.strip() for part in item.split("|")]
        if len(parts) < 6:
            return None
        subject, *fact, event_date, status, kind, turns = parts
        return _draft(subject, " | ".join(fact), event_date, status, kind, turns)
    if isinstance(item, Mapping):
        get = item.get
        return _draft(
            get("subject"),
            get("fact"),
            get("event_date"),
            get("status"),
            get("kind"),
            get("turns"),
        )
    return None


def _draft(
    subject: Any, fact: Any, event_date: Any, status: Any, kind: Any, turns: Any
) -> Draft | None:
    if not isinstance(subject, str) or not isinstance(fact, str):
        return None
    subject, fact = " ".join(clean(subject).split()), " ".join(clean(fact).split())
    if fact.lower().startswith(subject.lower() + " "):
        fact = fact[len(subject) + 1 :]
    if not subject or not fact:
        return None
    return Draft(subject, fact, _word(event_date), _word(status), _word(kind), _numbers(turns))


def _word(value: Any) -> str:
    if isinstance(value, int) and abs(value) < _LARGE:
        return str(value)
    return value.strip().lower() if isinstance(value, str) else ""


def _numbers(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        value = value.replace(";", ",").split(",")
    elif isinstance(value, int):
        value = [value]
    if not isinstance(value, Iterable):
        return ()
    digits = (_word(part).lstrip("#t") for part in value)
    # Longer numbers are no turn numbers, and int() of a million digits is an attack.
    return tuple(sorted({int(d) for d in digits if d.isascii() and d.isdigit() and len(d) < 7}))


@dataclass(slots=True)
class Checked:
    cards: list[Card] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(drafts: Sequence[Draft], session: Session) -> Checked:
    result = Checked()
    spoken = [_stems(turn.text) for turn in session.turns]
    seen: set[str] = set()
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
        card = _card(draft, session, turns)
        if card.id not in seen:
            seen.add(card.id)
            result.cards.append(card)
    if moved:
        result.notes.append(f"{moved} cards named a wrong turn and were moved to the right one")
    if result.quarantined:
        result.notes.append(f"{len(result.quarantined)} cards rest on no turn: quarantined")
    return result


def _stems(text: str) -> frozenset[str]:
    deadlines.check()
    return frozenset(content(text))


def _card(draft: Draft, session: Session, turns: tuple[int, ...]) -> Card:
    kind: Kind = draft.kind if draft.kind in _KINDS else "fact"  # type: ignore[assignment]
    status: Status = draft.status if draft.status in _STATUSES else "stable"  # type: ignore[assignment]
    return Card(
        id=card_id(session.id, draft.subject, draft.fact),
        subject=draft.subject,
        fact=draft.fact,
        event_date=_event_date(draft.event_date, session),
        status=status,
        kind=kind,
        session_id=session.id,
        said_at=session.at,
        turns=_with_replies(turns, session) if kind == "interaction" else turns,
    )


def _event_date(text: str, session: Session) -> EventDate:
    try:
        return EventDate.parse(text.upper().replace(" ", "") if text[:1].isdigit() else text)
    except ValueError:
        return dates.resolve(text, session.at) if text else UNKNOWN_DATE


def _provenance(
    draft: Draft, session: Session, spoken: Sequence[frozenset[str]]
) -> tuple[tuple[int, ...], str]:
    said = set(content(draft.fact))
    # Who speaks is no evidence for what is said, unless there is nothing else to go by.
    told = said - set(content(draft.subject)) or said
    named = tuple(n for n in draft.turns if 1 <= n <= len(session.turns))
    # A short answer is understood from the question before it: the turn before counts as context.
    context = {n: spoken[n - 1] | (spoken[n - 2] if n > 1 else frozenset()) for n in named}
    if named and overlap(told, frozenset().union(*context.values())) >= _NAMED:
        return tuple(n for n in named if told & context[n]), "named"
    if not told:
        return named, "named"  # nothing to compare ("is 31" in another script): in range is all
    best = max(range(len(spoken)), key=lambda i: overlap(told, spoken[i]))
    return ((best + 1,), "moved") if overlap(told, spoken[best]) >= _MOVED else ((), "")


def _with_replies(turns: tuple[int, ...], session: Session) -> tuple[int, ...]:
    """An interaction is anchored to the reply as well: that is where its value lies."""
    wider = set(turns)
    for number in turns:
        answered = session.turns[number : number + 1]  # the turn after it, if there is one
        if session.turn(number).role == "user" and answered and answered[0].role == "assistant":
            wider.add(number + 1)
    return tuple(sorted(wider))
