"""What an answer by rules is made of: cards as sentences, lists of them, and their clauses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from justmem.answering.support import Supported, asked_words
from justmem.domain import Card
from justmem.language.en.dates import say
from justmem.words import content


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    cards: Sequence[Card] = ()


def plain(card: Card) -> str:
    return re.sub(r"\s*\((?:asked|about) \".*?\"\)", "", card.text).rstrip(" .")


def sentence(card: Card, *, dated: bool = True) -> str:
    text = capital(plain(card))
    if dated and card.event_date.start is not None and say(card.event_date) not in text:
        text += f" ({say(card.event_date)})"
    return closed(text)


def stated(first: str, card: Card) -> Said:
    """What is asked for, and the card that says so."""
    return Said(f"{capital(first)}: {sentence(card)}", [card])


def listed(items: Sequence[Supported]) -> str:
    """Numbered, since cards have semicolons of their own."""
    texts = [plain(one.card) for one in items]
    if len(texts) == 1:
        return closed(texts[0])
    return closed("; ".join(f"({number}) {text}" for number, text in enumerate(texts, 1)))


_PARTS = re.compile(r"; | -+ |(?= \(photo: )")


def to_the_point(text: str, question: str) -> str:
    """Without what follows the clause that says most of what is asked."""
    wanted = asked_words(question)
    ends = [*(match.start() for match in _PARTS.finditer(text)), len(text)]
    parts = [text[start:end] for start, end in pairwise([0, *ends])]
    shared = [len(wanted & set(content(part))) for part in parts]
    most, end = max(zip(shared, ends, strict=True))  # of equal parts the last
    return text[:end] if most else text


# What was asked when a card was told is not told by it.
ASKED = re.compile(r"\(asked \"(?P<question>.*)\"\)\s*$", re.DOTALL)
_CLAUSES = re.compile(
    r"; |(?<=\w)\.(?= |$)|, (?=(?:and|but|so|though|who|which|she|he|they|not|[A-Z]\w+) )| - "
    r"| but | though | (?=and (?:has|is|was|does|did|spent|paid|bought|got|will) )"
)


def clauses(fact: str) -> list[str]:
    """The parts of a fact that say something by themselves, since "doesn't eat meat, but does eat
    fish" denies one thing only."""
    told = ASKED.sub("", fact)
    return [part for part in _CLAUSES.split(told) if part.strip()] or [told]


def closed(text: str) -> str:
    return text + ("" if text.endswith(("!", "?")) else ".")


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
