"""Descriptions of a person: the questions that ask for one, and the cards that give one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from justmem.domain import Card
from justmem.language.detection import detect
from justmem.language.en.speaker import own_name
from justmem.language.en.states import states_in
from justmem.language.en.word_lists import english
from justmem.language.plain import LASTING

_RELATION = "|".join(english().relation)
_ASKS = re.compile(
    r"^(?:so |and |please )*(?:who(?:['’]s| is| was| am)|what do (?:you|u) (?:know|remember)"
    r" (?:about|of|abt)|tell me (?:all |everything )?(?:you know )?about|describe|summari[sz]e)"
    r" (?P<who>[\w'’ -]{1,80}?)(?: again)?[?.! ]*$",
    re.IGNORECASE,
)
_ME = frozenset(("me", "myself", "i", "my life", "my year"))
_NOT_BY_NAME = re.compile(r"(?:my|our|the|an?|your)\b", re.IGNORECASE)
# "I'm a nurse", "I live in York", "my wife Beth": who the speaker is.
_WHO = re.compile(
    r"\bi(?:['’]?m| am) (?:an? |from |\d+\b|allergic|married|vegetarian|vegan|retired)"
    r"|\bi (?:live|work|teach|study|speak|come from)\b|\bmy (?:name|age|birthday|job)\b"
    rf"|\bmy (?:{_RELATION}),? (?-i:[A-Z])|\b(?-i:[A-Z])\w+,? \(?my (?:{_RELATION})\b",
    re.IGNORECASE,
)  # fmt: skip
# "I love figs", "I have a dog", "my cousin": what the speaker likes, has and does.
_HAS = re.compile(
    r"\bi (?:love|like|enjoy|hate|own|play|moved|started|have (?:an?|two|three|no|my own)\b)"
    rf"|\bmy (?:favou?rite|{_RELATION})\b",
    re.IGNORECASE,
)  # fmt: skip
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|we|our|us)\b", re.IGNORECASE)
_LEAST_WORDS = 3


def person_asked(question: str) -> str | None:
    """Whom a question asks a description of: "Who is Ines?" Empty: the one who asks."""
    match = _ASKS.match(question.strip())
    who = match["who"].strip() if match else ""
    if who.lower() in _ME:
        return ""
    return who if who and not _NOT_BY_NAME.match(who) else None


def describes(card: Card, person: str) -> int | None:
    """As in `Language`."""
    said = card.words
    if card.kind == "interaction" or len(said.partition(" (")[0].split()) < _LEAST_WORDS:
        return None
    own = not person or card.subject.casefold() == person.casefold()
    holder = card.subject if own else person
    if any(state.holder == holder.lower() for state in states_in(card)) or (own and own_name(card)):
        return 0
    if not own:
        return 1 if _introduces(person, card.text) else 2
    if not card.is_quote:  # a model's card: the subject is not "I"
        return 1 if card.kind in LASTING else 2
    if _WHO.search(said):
        return 0
    if _HAS.search(said):
        return 1
    return 2 if _FIRST_PERSON.search(said) else None


def in_order(cards: Iterable[Card], person: str) -> list[Card]:
    """Those that describe the person, the best and then the newest first."""
    newest = sorted(cards, key=lambda card: card.said_at, reverse=True)
    ranks = {card.id: describes(card, person) for card in newest if detect(card.words) == "en"}
    told = [card for card in newest if ranks.get(card.id) is not None]
    return sorted(told, key=lambda card: ranks[card.id] or 0)


def _introduces(name: str, text: str) -> bool:
    """ "Ines is", "my sister Ines", "Ines (my sister)"."""
    who = re.escape(name)
    is_one = r"(?:['’]s (?:an?|the|my)| (?:is|was|has|had|works?|lives?)|[ ,(]+my)\b"
    relative = rf"\b(?:{_RELATION}),? {who}\b"
    return bool(re.search(rf"\b{who}{is_one}|{relative}", text, re.IGNORECASE))
