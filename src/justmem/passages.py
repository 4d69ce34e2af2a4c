"""Turns -> passages: what the source index holds.

Both sides of a conversation are indexed, at no generative cost, so that REPLAY can find a reply
that no card could carry. A long turn is cut into passages, because an embedder reads only its
first few hundred tokens.
"""

from __future__ import annotations

from justmem.domain import Passage, Session
from justmem.words import sentences

LONGEST = 1200  # characters: about 300 tokens, what a small embedder still tells apart


def passages(session: Session) -> list[Passage]:
    return [
        Passage(session_id=session.id, turn=number, start=start, end=end)
        for number, turn in enumerate(session.turns, 1)
        for start, end in _stretches(turn.text)
    ]


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
