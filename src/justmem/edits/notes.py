"""Notes: a text under the caller's key becomes a card as it is, without extraction.

A note is stored as a session of its own, whose id is "note:" and the key. Its first turn is the
text, its second the JSON value. So it is searched, exported, forgotten and erased like any session.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from justmem.domain import NOTE, Card, Note, Session, Turn, card_id
from justmem.errors import InputError, NotInMemory
from justmem.intake.sessions import When, as_deadline, as_labels
from justmem.ports import Extraction, Store, texts_of
from justmem.runtime.validation import as_text, clean, describe

_LONGEST_KEY = 190  # characters
LONGEST_TEXT = 100_000
_LONGEST_VALUE = 1_000_000
_SPEAKER = "Note"


def as_note(
    text: str,
    *,
    key: str | None,
    value: object,
    at: datetime,
    until: When,
    labels: Mapping[str, str] | None,
    now: datetime,
) -> Session:
    """The session that a note is stored as. InputError for anything that cannot be one. `until` is
    compared with the clock, which says `now`."""
    words = as_text(text, "The text of a note")
    if not words.strip() or len(words) > LONGEST_TEXT:
        raise InputError(f"The text of a note must have 1 to {LONGEST_TEXT:,} characters.")
    end = None if until is None else as_deadline(until, now.tzinfo)
    if end is not None and end <= now.replace(tzinfo=None):
        raise InputError(f"until ({end}) is in the past. Nothing was stored.")
    if end is not None and end <= at:
        raise InputError(f"until ({end}) is not after at ({at}). Nothing was stored.")
    turns = [Turn(speaker=_SPEAKER, text=words)]
    if value is not None:
        turns.append(Turn(speaker=_SPEAKER, role="tool", text=_json(value)))
    # The same text has the same key, so that writing it again changes nothing.
    name = (
        hashlib.blake2b(words.encode(), digest_size=6).hexdigest() if key is None else as_key(key)
    )
    return Session(id=NOTE + name, at=at, turns=tuple(turns), labels=as_labels(labels), until=end)


def _json(value: object) -> str:
    """Bytes are JSON already and stay as they are. Anything else is written as JSON."""
    try:
        if isinstance(value, bytes):
            value = text = value.decode()
            json.loads(text, parse_constant=_refuse)
        else:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            f"The value of a note must be JSON, and this is not: {describe(value)}."
        ) from None
    if len(text) > _LONGEST_VALUE:
        raise InputError(
            f"The value of a note has {len(text):,} characters of JSON. At most "
            f"{_LONGEST_VALUE:,} are allowed. Nothing was stored."
        )
    return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def as_key(value: object) -> str:
    key = as_text(value, "The key of a note")
    if not key.strip() or len(key) > _LONGEST_KEY or not key.isprintable():
        raise InputError(f"The key of a note must have 1 to {_LONGEST_KEY} printable characters.")
    return clean(key)


def check_redacted(session: Session) -> None:
    try:
        for turn in session.turns[1:]:
            json.loads(turn.text)
    except ValueError:
        raise InputError(
            "After redaction the value is no longer JSON: remove the redacted text from the "
            "value. Nothing was stored."
        ) from None


def note_extraction(session: Session) -> Extraction:
    """The card of a note."""
    words = session.turn(1).text
    card = Card(
        id=card_id(session.id, _SPEAKER, words),
        subject=_SPEAKER,
        fact=words,
        kind="note",
        session_id=session.id,
        said_at=session.at,
        turns=(1,),
        until=session.until,
    )
    return Extraction(cards=[] if session.turn(1).forgotten else [card])


# ---------------------------------------------------------------- reading


async def list_notes(store: Store, prefix: str, now: datetime) -> list[Note]:
    """Those whose key begins with `prefix` and that have not expired, in order of their keys."""
    ids = [record.id for record in await store.sessions() if record.id.startswith(NOTE + prefix)]
    texts = (await texts_of(store, ids)).values()
    return sorted((_note(each) for each in texts if _is_valid(each, now)), key=lambda n: n.key)


async def get_note(store: Store, key: str, now: datetime) -> Note:
    id = NOTE + as_key(key)
    session = (await texts_of(store, [id])).get(id)
    if session is None or not _is_valid(session, now):
        raise no_note(key)
    return _note(session)


def _is_valid(note: Session, now: datetime) -> bool:
    return note.until is None or note.until > now


def no_note(key: str) -> NotInMemory:
    return NotInMemory(f"There is no note with the key {key!r} in this space.")


def _note(session: Session) -> Note:
    words = session.turn(1).text
    value: Any = session.turn(2).text if len(session.turns) > 1 else None
    return Note(
        key=session.id.removeprefix(NOTE),
        text=words,
        card_id=card_id(session.id, _SPEAKER, words),
        at=session.at,
        until=session.until,
        labels=session.labels,
        value_json=value,
    )
