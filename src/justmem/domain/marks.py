"""Marks of forgotten turns and labels. A store keeps them, and the ids of forgotten cards.

A mark consists of a hash of the session's id, a hash of the turn's words, and the turn's number.
It recognises the turn when its session is remembered again, also at another place. The mark of a
label has a hash of its value, and 0 for the number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

from justmem.domain.cards import Session


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


_PREFIX = 17  # characters


def prefix(session_id: str) -> str:
    """The start of all marks of a session."""
    return "t" + _hash(session_id)


def prefix_of(id: str) -> str:
    """The session's part of a mark; empty for the id of a card."""
    return id[:_PREFIX] if "." in id else ""


def _words(session_id: str, text: str) -> str:
    """The words' part of a mark. Spaces and capitals do not matter."""
    return prefix(session_id) + _hash(f"{session_id}\0{' '.join(text.split()).casefold()}")


def mark(session: Session, number: int) -> str:
    return f"{_words(session.id, session.turn(number).text)}.{number}"


def label_mark(session: Session, name: str) -> str:
    return f"{_words(session.id, session.labels[name])}.0"


def without_marked_labels(session: Session, marks: Collection[str]) -> Session:
    """The session without the labels that the marks stand for."""
    gone = {name for name in session.labels if label_mark(session, name) in marks}
    return session.without_labels(gone)


def find_marked(session: Session, marks: Iterable[str]) -> set[int]:
    """Numbers of the turns that the marks stand for. A moved turn is recognised by its words. If
    several turns have these words, all of them count."""
    hashes = [
        "" if turn.forgotten else _words(session.id, turn.text) if turn.text.strip() else ""
        for turn in session.turns
    ]
    gone: set[int] = set()
    for each in marks:
        words, _, place = each.rpartition(".")
        number = int(place)
        if number == 0:  # a label
            continue
        if number <= len(hashes) and session.turn(number).forgotten:
            continue
        if number <= len(hashes) and hashes[number - 1] == words:
            gone.add(number)
        else:
            gone |= {n for n, own in enumerate(hashes, 1) if own == words}
    return gone
