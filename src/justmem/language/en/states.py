"""States: values that hold until a newer one is said, such as a home, an employer or a weight.

Only plain statements count: "I live in Graz", "Miso weighs 5.4 kg", "My favourite colour is red".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from justmem.domain import Card
from justmem.language.en.word_lists import english
from justmem.language.words import is_stop

# Not so, not yet so, or no longer so.
_NOT_SO = re.compile(
    r"\b(?:not|never|no|nobody|cannot|without|almost|nearly|hardly|used to|no longer|anymore"
    r"|wants?|wanted|hopes?|hoping|wish|wishes|might|(?-i:may)|could|would|should|if|maybe|perhaps"
    r"|unless|thinking of|plan(?:s|ned|ning)? to|planning on|going to|gonna|about to|supposed to"
    r"|signed up|offered|applied|interview\w*|\w+n['’]t|(?:do|did|is|was|are|wo|ca)nt)\b",
    re.IGNORECASE,
)
_ONE = r"(?-i:[A-Z])(?:[\w'’&-]|\.(?=\w))*"
_NAME = rf"(?:the )?(?P<value>{_ONE}(?: {_ONE}){{0,3}})"
_PLACE = rf"(?P<value>{_ONE}(?: {_ONE}){{0,3}}|[^\W\d_]{{3,}})"
_WEIGHT = r"\b(?P<value>\d+(?:[.,]\d+)?) ?(?:kg|kgs|kilos?|kilograms?|lbs?)\b"
_WEIGHT_WITHOUT_UNIT = r"(?:\bweighs?|['’]s at|\bis at) (?P<value>\d+[.,]\d+)\b"
_FAVOURITE = rf"\bfavou?rite (?P<what>[a-z]+(?: [a-z]+)?) is (?:now )?{_PLACE}"
_GOT_JOB = rf"\bgot the (?P<value>{_ONE}(?: {_ONE})?) job\b"
_CLAUSE = re.compile(r"[.;!?,:]|\b(?:and|but|because|so|then|n|bc)\b", re.IGNORECASE)
_HOLDER = re.compile(
    r"\b(?P<self>I|we|i['’]?(?:m|ve|d|ll)|we['’]?(?:re|ve|ll)"
    r"|(?:my|our)(?: (?:new|current|next))?$)(?= |$)"
    r"|\b(?:my|our) (?P<kin>[a-z]+)|\b(?P<other>he|she|it|they|his|her|him|their)\b"
    r"|\b(?P<name>(?-i:[A-Z])[\w-]+)",
    re.IGNORECASE,
)


_ASKS_NOW = re.compile(r"(?:where|what|who|which|how (?:much|heavy))\b", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:did|was|were|before|previous\w*|former\w*|earlier|first|used to|ago|last|since|lost"
    r"|gained|will|would|going to|in (?:19|20)\d\d)\b",
    re.IGNORECASE,
)


class State(NamedTuple):
    attribute: str
    holder: str  # lower case: the speaker, a name, or a relation such as "sister"
    value: str
    ended: bool = False  # "I quit Siemens"


def states_in(card: Card) -> list[State]:
    """The states that a card gives a value for, or tells the end of."""
    found: list[State] = []
    own = "" if card.is_quote else card.subject.lower()
    for attribute, ended, pattern in _patterns():
        for match in pattern.finditer(card.words):
            before = re.split(r"[.!?] ", card.words[: match.start()])[-1]
            holder = _find_holder(before.strip(), card.subject) or own
            value = match["value"].rstrip(".,'’").lower()
            what = match.groupdict().get("what") or ""
            plain = not is_stop(value) and not _NOT_SO.search(_CLAUSE.split(before)[-1])
            if holder and plain:
                found.append(State(f"{attribute} {what}".lower().strip(), holder, value, ended))
    return found


def _told(cards: Iterable[Card]) -> list[tuple[Card, State]]:
    """The states in the cards, the oldest first. An end counts only if its value held until then:
    not "I quit sugar", nor "I quit Siemens" after "I started at Bosch"."""
    rows = [(card, state) for card in cards for state in states_in(card)]
    rows.sort(key=lambda row: (row[0].since, not row[1].ended))
    held: dict[tuple[str, str], str] = {}
    told = []
    for card, state in rows:
        key = state.attribute, state.holder
        if not state.ended or held.get(key) == state.value:
            held[key] = state.value
            told.append((card, state))
    return told


class Asked(NamedTuple):
    attribute: str
    holder: str  # empty: the one who asks


def asked_state(question: str) -> Asked | None:
    """The state whose present value a question asks for: "Where do I live?" """
    if not _ASKS_NOW.match(question) or _PAST.search(question):
        return None
    for attribute, words in english().state_questions.items():
        if match := re.search(rf"\b(?:{'|'.join(words)})\b", question, re.IGNORECASE):
            before = question[: match.start()].strip()
            return Asked(attribute, _find_holder(before, ""))
    return None


def cards_with_state(asked: Asked, speaker: str | None, cards: Iterable[Card]) -> list[Card]:
    """The cards that give a value for it, newest first."""

    def fits(card: Card, state: State) -> bool:
        if state.attribute != asked.attribute:
            return False
        if asked.holder:
            return state.holder == asked.holder
        own = state.holder == card.subject.lower()
        return own and speaker in (None, card.subject)

    found = {card.id: card for card, state in _told(cards) if fits(card, state)}.values()
    # A card may also name a later day: "Miso is at 5.7. He sees the vet on Friday."
    return sorted(
        found, key=lambda card: (min(card.since, card.said_at.date()), card.said_at), reverse=True
    )


def replacements(cards: Iterable[Card], on: date) -> dict[str, Card]:
    """The newest card for each card that has an older value of the same state, by the id of the
    older card. A card that is still planned on that day replaces nothing."""
    told = _told(card for card in cards if card.since <= on)
    newest = {(state.attribute, state.holder): (card, state) for card, state in told}
    found: dict[str, Card] = {}
    current: set[str] = set()
    for card, state in told:
        last, now = newest[state.attribute, state.holder]
        if state == now:
            current.add(card.id)
        elif last.since > card.since:
            found[card.id] = last
    return {id: card for id, card in found.items() if id not in current}


def _find_holder(before: str, speaker: str) -> str:
    """Whose state it is: the last one named in its clause, or the subject of a clause before."""
    place = -1  # of the match that counts
    for clause in reversed(_CLAUSE.split(before)):
        matches = list(_HOLDER.finditer(clause.strip()))
        if matches:
            one = matches[place]
            return speaker.lower() if one["self"] else (one["kin"] or one["name"] or "").lower()
        place = 0
    return ""


@cache
def _patterns() -> Sequence[tuple[str, bool, re.Pattern[str]]]:
    """The attribute, whether the pattern tells its end, and the pattern."""
    words = english()
    found = [("favourite", False, _FAVOURITE), ("work", False, _GOT_JOB)]
    found += [("weight", False, pattern) for pattern in (_WEIGHT, _WEIGHT_WITHOUT_UNIT)]
    for ended, lists in ((False, words.states), (True, words.ended_states)):
        for name, phrases in lists.items():
            value = _PLACE if name == "home" else _NAME
            found.append((name, ended, rf"\b(?:{'|'.join(map(re.escape, phrases))}) {value}"))
    return [(name, ended, re.compile(text, re.IGNORECASE)) for name, ended, text in found]
