"""A space as lines of text: JSON Lines to load again, Markdown to read.

The JSON Lines are described in docs/export.md, and stay as described: what changes them changes
VERSION. One session is in memory at a time (or a few, as the store hands them out).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from justmem.domain import Card, Session, Turn, dump
from justmem.ports import Store, Vectors, Whole

VERSION = 1
_BATCH = 20  # sessions
_IDS = 1000  # forgotten ids in a line
# What a terminal would obey, and what some programs take for the end of a line: escaped.
_OBEYED = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


async def json_lines(store: Store, *, made: datetime, vectors: bool) -> AsyncGenerator[str]:
    digest, counts = hashlib.sha256(), Counter[str]()
    async for value in _values(store, made, vectors):
        line = _line(value)
        digest.update(line.encode())
        counts.update(counted(value))
        yield line
    names = ("sessions", "turns", "cards", "quarantined", "forgotten", "days")
    end = {"is": "end", **{name: counts[name] for name in names}, "sha256": digest.hexdigest()}
    yield json.dumps(end, separators=(",", ":")) + "\n"


async def _values(store: Store, made: datetime, vectors: bool) -> AsyncGenerator[dict[str, Any]]:
    rest = await store.rest()
    stats = await store.stats()
    yield {
        "is": "export",
        "justmem": VERSION,
        "space": store.space,
        "made": made.isoformat(timespec="seconds"),
        "embedder": rest.embedder,
        "dim": rest.dim,
        "vectors": vectors,
        "sessions": sum(stats.sessions.values()),
        "cards": stats.cards,
    }
    async for whole in wholes(store):
        yield session_line(whole, vectors=vectors)
    gone = rest.forgotten
    for start in range(0, len(gone), _IDS):
        yield {"is": "forgotten", "ids": list(gone[start : start + _IDS])}
    for day, tokens in rest.spending:
        yield {"is": "spending", "day": day.isoformat(), "tokens": tokens}


def _line(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def counted(value: Mapping[str, Any]) -> dict[str, int]:
    """What a line adds to the sums of the last one."""
    match value["is"]:
        case "session":
            held = {name: len(value[name]) for name in ("turns", "cards", "quarantined")}
            return {"sessions": 1, **held}
        case "forgotten":
            return {"forgotten": len(value["ids"])}
        case "spending":
            return {"days": 1}
    return {}


async def wholes(store: Store) -> AsyncGenerator[Whole]:
    """Every session in order of time. One that is forgotten meanwhile is left out."""
    ids = [record.id for record in await store.sessions()]
    for start in range(0, len(ids), _BATCH):
        for whole in await store.wholes(ids[start : start + _BATCH]):
            yield whole


def session_line(whole: Whole, *, vectors: bool) -> dict[str, Any]:
    made = whole.digested
    line: dict[str, Any] = {
        "is": "session",
        **_said(whole.session),
        "state": str(made.state),
        "reason": made.reason,
        "tokens": made.tokens,
        "card_tokens": made.card_tokens,
        "cards": [dump(card) for card in made.cards],
        "passages": [[p.turn, p.start, p.end] for p in made.passages],
        "quarantined": [dump(held) for held in made.quarantined],
    }
    if whole.waiting is not None:
        line["waiting"] = {**_said(whole.waiting), "failure": whole.failure}
    if vectors and made.card_vectors.size + made.passage_vectors.size:
        line["vectors"] = {
            "cards": _packed(made.card_vectors),
            "passages": _packed(made.passage_vectors),
        }
    return line


def _said(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "at": session.at.isoformat(),
        "turns": [_turn(turn) for turn in session.turns],
    }


def _turn(turn: Turn) -> dict[str, Any]:
    said: dict[str, Any] = {"speaker": turn.speaker, "role": turn.role, "text": turn.text}
    if turn.forgotten:
        said["forgotten"] = True
    if turn.key is not None:
        said["key"] = turn.key
    return {**said, "at": turn.at.isoformat()} if turn.at else said


def _packed(vectors: Vectors) -> str:
    return base64.b64encode(np.ascontiguousarray(vectors, "<f4").tobytes()).decode()


# ---------------------------------------------------------------- for people

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
    place = f"{word} {_listed(card.turns)}"
    return f"- {_plain(card.text)} ({card.kind}, {card.status}{known}; {place}; `{card.id}`)\n"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _plain(text: str) -> str:
    """Remembered words are shown, never obeyed: no links, no pictures, no HTML."""
    return _MARKUP.sub(r"\\\1", " ".join(_CONTROL.sub("", text).split()))
