"""What holds now: of what was told of the same thing, the newest."""

from __future__ import annotations

import re
from collections.abc import Sequence

from justmem.answering.sentences import Said, sentence
from justmem.answering.support import Supported, asked_words, relevant, told
from justmem.domain import Card

_ALIKE = 5.0  # support by which cards may differ that tell of the same state
_OF_IT = 0.6  # the share of the asked words that such a card must have: it is about just that
_NOW = re.compile(
    r"^(?:is|are|am|do|does|has|have|can|(?:what|where|who)(?:['’]s| (?:is|are|am|do|does))"
    r"|(?:which|what) \w+ (?:is|are|am|do|does)"
    r"|how (?:many|much|old)\b.* (?:is|are|do|does|have|has))\b"
    r"|\b(?:now|currently|current|still|at the moment|these days|nowadays)\b",
    re.IGNORECASE,
)


def asked_now(question: str) -> bool:
    """Asked of the present: what was told last holds."""
    return bool(_NOW.search(question.strip()))


def newest_alike(question: str, found: Sequence[Supported]) -> Card:
    """Of the cards that have all the asked words that the best one has, the one told last: what is
    asked of the present has changed since. A plan does not replace what is."""
    wanted, best = asked_words(question), found[0]
    had = wanted & told(best.card.text)
    if not wanted or len(had) < _OF_IT * len(wanted):
        return best.card
    alike = [
        one.card
        for one in found
        if one.support >= best.support - _ALIKE
        and told(one.card.text) >= had
        and one.card.subject == best.card.subject
        and (one.card.status != "planned" or best.card.status == "planned")
    ]
    return max([best.card, *alike], key=lambda card: card.said_at)


def latest(found: Sequence[Supported]) -> Said:
    """The newest of the best cards, with what it replaced."""
    near = sorted(relevant(found)[:4], key=lambda one: one.card.said_at, reverse=True)
    newest, older = near[0].card, [one.card for one in near[1:]]
    text = sentence(newest)
    before = next((card for card in older if card.said_at.date() < newest.said_at.date()), None)
    if before is None:
        return Said(text, [newest])
    day = f"{before.said_at.day} {before.said_at:%B %Y}"
    return Said(f"{text} Before that, told on {day}: {sentence(before)}", [newest, before])
