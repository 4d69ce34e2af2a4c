"""Counting and listing distinct things."""

from __future__ import annotations

import re
from collections.abc import Sequence

from justmem.answering.support import Supported
from justmem.words import content, stem

_SAME = 0.6  # cards that share this much of their words tell of the same thing
_NUMBER = re.compile(
    r"(?P<number>[$€£]?\d[\d,.]*(?:\s?%)?|\b(?:one|two|three|four|five|six|seven|eight|nine|ten"
    r"|eleven"
    r"|twelve|twice|once)\b)",
    re.IGNORECASE,
)
_NOUN = re.compile(
    r"\bhow (?:many|much)(?: (?:different|total|more|of|times))*\s+(?P<noun>[\w-]+(?: [\w-]+)?)",
    re.IGNORECASE,
)


def distinct(found: Sequence[Supported], question: str) -> list[Supported]:
    """Without those that repeat a better one. What the question itself says (all of them visited
    a museum) does not make two alike."""
    asked = set(content(question))
    kept: list[tuple[set[str], Supported]] = []
    for one in found:
        stems = (set(content(one.card.fact)) - asked) or set(content(one.card.fact))
        if all(len(stems & other) < _SAME * min(len(stems), len(other)) for other, _ in kept):
            kept.append((stems, one))
    return [one for _, one in kept]


def stated_number(question: str, found: Sequence[Supported]) -> tuple[str, Supported] | None:
    """A number that a card itself gives for what is counted, from the latest such card."""
    match = _NOUN.search(question)
    if match is None:
        return None
    nouns = {stem(word) for word in match["noun"].lower().split()}
    stated = []
    for one in found:
        for number in _NUMBER.finditer(one.card.fact):
            after = content(one.card.fact[number.end() : number.end() + 40])[:3]
            if nouns & set(after):
                stated.append((one.card.said_at, number["number"].rstrip(".,"), one))
                break
    if not stated:
        return None
    _, number_said, holder = max(stated, key=lambda row: row[0])
    return number_said, holder
