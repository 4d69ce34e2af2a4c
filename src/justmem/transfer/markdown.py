"""A space as Markdown, for people to read."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from datetime import datetime

from justmem.domain import Card, Session
from justmem.ports import Store, Whole
from justmem.transfer.moves import wholes

_MARKUP = re.compile(r"([\\`*_\[\]<>#|~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


async def markdown(store: Store, *, made: datetime) -> AsyncGenerator[str]:
    stats = await store.stats()
    yield f"# Memory of {_plain(store.space)}\n\n"
    yield (
        f"{sum(stats.sessions.values())} sessions, {stats.turns} turns, {stats.cards} cards, "
        f"exported {made:%Y-%m-%d %H:%M} UTC.\n"
    )
    async for whole in wholes(store):
        yield _section(whole)


def _section(whole: Whole) -> str:
    session, made = whole.session, whole.digested
    parts = [f"\n## {session.at:%Y-%m-%d %H:%M}, {_plain(session.id)}\n"]
    if made.state not in ("stored", "empty"):
        parts.append(f"\nIts cards are not made yet ({made.state}): {_plain(made.reason)}\n")
    parts.append(_quoted(session))
    if made.cards:
        parts += ["\n**Cards**\n\n", *(_item(card) for card in made.cards)]
    if made.quarantined:
        parts.append("\n**Quarantined**: no turn supports these\n\n")
        parts += [f"- {_plain(f'{q.subject} {q.fact}')}\n" for q in made.quarantined]
    if whole.waiting is not None:
        parts.append(f"\n**Changed since**, cards still to be made {_plain(whole.failure)}\n")
        parts.append(_quoted(whole.waiting))
    return "".join(parts)


def _quoted(session: Session) -> str:
    return "".join(
        f"\n> **{_plain(turn.speaker)}** ({number}): "
        + "\n> ".join(_plain(line) for line in turn.text.splitlines() or [""])
        + "\n"
        for number, turn in enumerate(session.turns, 1)
    )


def _item(card: Card) -> str:
    known = f", {card.event_date}" if card.event_date.precision != "unknown" else ""
    word = "turn" if len(card.turns) == 1 else "turns"
    place = f"{word} {', '.join(map(str, card.turns))}"
    return f"- {_plain(card.text)} ({card.kind}, {card.status}{known}; {place}; `{card.id}`)\n"


def _plain(text: str) -> str:
    """Remembered words are shown, never obeyed: no links, no pictures, no HTML."""
    return _MARKUP.sub(r"\\\1", " ".join(_CONTROL.sub("", text).split()))
