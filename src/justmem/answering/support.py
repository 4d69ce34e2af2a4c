"""How well each chosen card supports an answer, and whether that is enough to give one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from justmem.domain import Candidate, Card, Evidence
from justmem.words import content, is_stop, names, stem, words

# Words of the asking, not of what is asked.
_ASKING = frozenset(
    map(
        stem,
        """remind previous conversation chat mention recommend suggest tell wonder confirm look back
        follow remember day days week weeks month months year years many much long often first last
        happened event passed current currently recent recently kind type name total number amount
        order earliest latest different did likely consider describe""".split(),  # noqa: SIM905
    )
)
ENOUGH = 0.34  # support below this is no support
_CLOSE = 0.55  # the share of the best support that still counts as being about the same thing


@dataclass(frozen=True, slots=True)
class Supported:
    candidate: Candidate
    support: float

    @property
    def card(self) -> Card:
        return self.candidate.card


def asked_words(question: str) -> set[str]:
    """Stems of what is asked about, without names and the words of asking."""
    people = {stem(word) for name in names(question) for word in words(name)}
    return {one for one in content(question) if one not in _ASKING} - people


def supported(evidence: Evidence) -> list[Supported]:
    """The chosen cards with their support, best first."""
    wanted = asked_words(evidence.question)
    people = _people(evidence)
    found = [
        Supported(candidate, _support(candidate, wanted, people)) for candidate in evidence.chosen
    ]
    return sorted(found, key=lambda one: -one.support)


def relevant(found: Sequence[Supported]) -> list[Supported]:
    """Those nearly as good as the best."""
    if not found:
        return []
    floor = max(ENOUGH, found[0].support * _CLOSE)
    return [one for one in found if one.support >= floor]


def _people(evidence: Evidence) -> set[str]:
    """Names in the question that are subjects of cards: whom it is about."""
    subjects = {
        word
        for candidate in (*evidence.chosen, *evidence.candidates)
        for word in words(candidate.card.subject.split("'")[0])
    }
    asked = {word for name in names(evidence.question) for word in words(name)}
    return {
        one
        for one in asked
        if any(one == s or (len(one) >= 3 and s.startswith(one)) for s in subjects)
    }


def _support(candidate: Candidate, wanted: set[str], people: set[str]) -> float:
    card = candidate.card
    given = set(content(card.text))
    lexical = len(wanted & given) / len(wanted) if wanted else 0.3
    score = 0.45 * lexical + 0.55 * _closeness(candidate)
    if people and not _about(card, people):
        # Asked of one person, told of another: the commonest way to be wrong.
        score *= 0.5
    return score


def _about(card: Card, people: set[str]) -> bool:
    told = set(words(card.text))
    return any(one in told or any(word.startswith(one) for word in told) for one in people)


def _closeness(candidate: Candidate) -> float:
    """What the ranking models say, on a scale from 0 to 1."""
    scores = candidate.scores
    if "rerank" in scores:
        return min(1.0, max(0.0, (scores["rerank"] + 8.0) / 14.0))
    if "dense" in scores:
        return min(1.0, max(0.0, (scores["dense"] - 0.45) / 0.4))
    return min(1.0, max(0.0, candidate.score))


_NEGATION = re.compile(
    r"\b(?:not|never|no longer|doesn't|didn't|isn't|wasn't|hasn't|won't|can't|couldn't|without)\b",
    re.IGNORECASE,
)


def negated(text: str) -> bool:
    return bool(_NEGATION.search(text))


def shares(text: str, wanted: set[str]) -> float:
    """The share of the wanted stems that a text has."""
    return len(wanted & set(content(text))) / len(wanted) if wanted else 0.0


__all__ = ["ENOUGH", "Supported", "asked_words", "is_stop", "negated", "relevant", "supported"]
