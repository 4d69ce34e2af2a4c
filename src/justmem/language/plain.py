"""Any language: whole sentences as they were said. No grammar, no dates, no word lists."""

from __future__ import annotations

from collections.abc import Iterator

from justmem.language.words import sentences

MOST_PER_TURN = 12  # the rest of a turn can still be found by its words
_LONGEST = 40  # words: sentences share a card up to this length
_WIDE = 5  # characters that count as a word in scripts without spaces


def statements(text: str) -> Iterator[str]:
    """Neighbouring sentences, a few at a time."""
    held: list[str] = []
    made = 0
    for sentence in sentences(text):
        if held and sum(map(_length, held)) + _length(sentence.text) > _LONGEST:
            yield " ".join(held)
            held = []
            made += 1
            if made == MOST_PER_TURN:
                return
        held.append(sentence.text)
    if held:
        yield " ".join(held)


def _length(text: str) -> int:
    """In words. A script without spaces is counted by characters."""
    parts = text.split()
    return max(len(parts), 0 if text.isascii() else len(text) // (_WIDE * 2))
