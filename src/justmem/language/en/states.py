"""States: values that hold until a newer one is said, such as a home, an employer or a weight.

Only plain statements count: "I live in Graz", "Miso weighs 5.4 kg".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from justmem.domain import Card
from justmem.language.data import english
from justmem.language.words import is_stop

# Not so, not yet so, or no longer so.
NOT_SO = re.compile(
    r"\b(?:not|never|no|nobody|cannot|without|almost|nearly|hardly|used to|no longer|anymore"
    r"|wants?|wanted|hopes?|hoping|wish|wishes|might|(?-i:may)|could|would|should|if|maybe|perhaps|unless"
    r"|thinking of|plan(?:s|ned|ning)? to|planning on|going to|gonna|about to|supposed to|signed up"
    r"|offered|applied|interview\w*|(?:do|does|did|is|was|are|were|has|have|had|wo|ca|could|would"
    r"|should|ai)n['’]?t)\b",
    re.IGNORECASE,
)
_ONE = r"(?-i:[A-Z])(?:[\w'’&-]|\.(?=\w))*"
_NAME = rf"(?:the )?(?P<value>{_ONE}(?: {_ONE}){{0,3}})"
_PLACE = rf"(?P<value>{_ONE}(?: {_ONE}){{0,3}}|[^\W\d_]{{3,}})"
_WEIGHT = r"\b(?P<value>\d+(?:[.,]\d+)?) ?(?:kg|kgs|kilos?|kilograms?|lbs?)\b"
_BREAK = re.compile(r"[.;!?,:]|\b(?:and|but|because|so|then|n|bc)\b", re.IGNORECASE)
_HOLDER = re.compile(
    r"\b(?P<self>I|we|i['’]?(?:m|ve|d|ll)|we['’]?(?:re|ve|ll)"
    r"|(?:my|our)(?: (?:new|current|next))?$)(?= |$)"
    r"|\b(?:my|our) (?P<kin>[a-z]+)|\b(?P<other>he|she|it|they|his|her|him|their)\b"
    r"|\b(?P<name>(?-i:[A-Z])[\w-]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class State:
    attribute: str
    holder: str  # lower case: the speaker, a name, or a relation such as "sister"
    value: str


def states_in(card: Card) -> list[State]:
    """The states that a card states a value for."""
    found: list[State] = []
    own = "" if card.fact.startswith("said: ") else card.subject.lower()  # a model's card
    said = card.fact.removeprefix("said: ")
    for attribute, pattern in _patterns():
        for match in pattern.finditer(said):
            before = re.split(r"[.!?] ", said[: match.start()])[-1]
            holder = _find_holder(before.strip(), card.subject) or own
            value = match["value"].rstrip(".,'’")
            plain = not is_stop(value.lower()) and not NOT_SO.search(_last_clause(before))
            if holder and plain:
                found.append(State(attribute, holder, value))
    return found


def superseded(cards: Iterable[Card], asked: date) -> frozenset[str]:
    """Ids of the cards with a state for which another card has a newer value. A card that is still
    planned on the day of asking supersedes nothing."""
    newest: dict[tuple[str, str], tuple[date, str]] = {}
    told: list[tuple[Card, State, date]] = []
    for card in cards:
        since = card.event_date.start or card.said_at.date()
        if since > asked:
            continue
        for state in states_in(card):
            told.append((card, state, since))
            known = newest.get((state.attribute, state.holder))
            if known is None or since >= known[0]:
                newest[state.attribute, state.holder] = since, state.value
    return frozenset(
        card.id
        for card, state, since in told
        if newest[state.attribute, state.holder][0] > since
        and newest[state.attribute, state.holder][1].lower() != state.value.lower()
        and not any(
            c.id == card.id and s is not state and _is_newest(newest, s) for c, s, _ in told
        )
    )


def _is_newest(newest: dict[tuple[str, str], tuple[date, str]], state: State) -> bool:
    return newest[state.attribute, state.holder][1] == state.value


def _last_clause(before: str) -> str:
    return _BREAK.split(before)[-1]


def _find_holder(before: str, speaker: str) -> str:
    """Whose state it is: the last one named in its clause, or the subject of a clause before."""
    place = -1  # of the match that counts
    for clause in reversed(_BREAK.split(before)):
        matches = list(_HOLDER.finditer(clause.strip()))
        if matches:
            one = matches[place]
            return speaker.lower() if one["self"] else (one["kin"] or one["name"] or "").lower()
        place = 0
    return ""


@cache
def _patterns() -> Sequence[tuple[str, re.Pattern[str]]]:
    found = []
    for name, phrases in english().states.items():
        lead = "|".join(map(re.escape, phrases))
        value = _PLACE if name == "home" else _NAME
        pattern = rf"\b(?:{lead}) {value}" if lead else _WEIGHT
        found.append((name, re.compile(pattern, re.IGNORECASE)))
    return found
