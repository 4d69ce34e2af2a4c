"""Turns -> passages: what the source index holds.

Both sides of a conversation are indexed, at no generative cost, so that REPLAY can find a reply
that no card could carry. All words of a passage are in the words index; its vector is made from
its opening alone, because a local embedder takes twenty times longer over a long reply than over
a card, and what a reply is about is said first.
"""

from __future__ import annotations

from justmem.domain import Passage, Session
from justmem.language.words import sentences

LONGEST = 2000  # characters of a passage
OPENING = 400  # characters of it that are embedded


def passages(session: Session) -> list[Passage]:
    return [
        Passage.trusted(session_id=session.id, turn=number, start=start, end=end)
        for number, turn in enumerate(session.turns, 1)
        for start, end in _stretches(turn.text)
    ]


def opening(session: Session, passage: Passage) -> str:
    """What is embedded of a passage."""
    end = min(passage.end, passage.start + OPENING)
    return session.turn(passage.turn).text[passage.start : end]


def _stretches(text: str) -> list[tuple[int, int]]:
    """Runs of whole sentences of at most LONGEST characters that together hold every word."""
    if len(text) <= LONGEST:
        return [(0, len(text))] if text.strip() else []
    found: list[tuple[int, int]] = []
    start = end = 0
    for sentence in sentences(text):
        if end and sentence.end - start > LONGEST:
            found.append((start, end))
            start = sentence.start
        while sentence.end - start > LONGEST:  # one endless sentence, such as a line of data
            found.append((start, start + LONGEST))
            start += LONGEST
        end = sentence.end
    if end > start:
        found.append((start, end))
    return found
