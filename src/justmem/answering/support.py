"""How well each chosen card supports an answer, and whether that is enough to give one.

Support is counted in the units of the cross-encoder's logits, since that is the best single
judge; shared words and whom the card is about move it. The limits were set where nearly all
questions that memory answers pass and most that it only seems to answer do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from justmem.domain import Candidate, Card, EventDate, Evidence
from justmem.extraction.verbs import BASES
from justmem.words import content, is_stop, names, stem, words

ENOUGH = 3.5  # support that one card must have to be an answer
ENOUGH_SPREAD = 1.5  # where many cards answer together, each may have less
ENOUGH_ADVICE = -3.0  # advice is asked of who advises; memory only has to bear on it
_NEAR = 4.0  # cards this close to the best one speak of the same thing
_WORDS = 3.0  # what sharing all asked words is worth
_OTHER = 12.0  # what it costs to be about someone else
_MENTIONED = 5.0  # the same, where the one asked about is at least mentioned
_NAMED = 2.0  # what it costs to have none of the names asked about ("Is Bruno her dog?")
_UNHEARD = 1.0  # what it costs that nothing at hand has the words asked about
_NUMBER = 3.0  # what it costs to lack a number of what is asked about
_THEN = 3.0  # what it is worth to have happened in the period asked about
_SHORT = timedelta(days=10)
_SHADOW = 0.35  # how much a better card about someone else takes away

_ASKING = """remind previous conversation chat mention recommend suggest tell wonder confirm look
back follow remember day days week weeks month months year years many much long often first last
happened event passed current currently recent recently kind type name total number amount order
earliest latest different did likely consider describe"""
_ROLES = frozenset(("user", "assistant", "system", "tool"))
# Words of the asking, not of what is asked.
ASKING = frozenset(map(stem, _ASKING.split()))
# Who moved to York lives there from then on; who has a job works. ("Lives" has the stem of "life".)
_MEANS = (
    (re.compile(r"\b(?:lives|moved (?:back )?(?:to|into|in with))\b", re.IGNORECASE), "liv"),
    (re.compile(r"\bjob\b", re.IGNORECASE), "work"),
)


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
    return {one for one in content(question) if one not in ASKING} - people


def supported(evidence: Evidence) -> list[Supported]:
    """The chosen cards with their support, best first. What was told beside them is for a reader
    who understands it: rules that weigh words would only err more often."""
    asked = set(content(evidence.question))
    people = _people(evidence)
    wanted = (asked_words(evidence.question) - set(map(stem, people))) or asked
    named = {stem(word) for name in names(evidence.question) for word in words(name)}
    named -= set(map(stem, people)) | ASKING
    numbers = _numbers(evidence)
    own: list[Supported] = []
    others: list[Supported] = []
    beside = {other.card.id for one in evidence.chosen for other in one.beside}
    for candidate in evidence.read:
        if candidate.card.id in beside:
            continue
        worth = _closeness(candidate, asked) + _WORDS * shares(candidate.card.text, wanted)
        if named:
            worth -= _NAMED * (1 - shares(candidate.card.text, named))
        if numbers - set(words(candidate.card.text)):
            worth -= _NUMBER
        if _then(candidate.card.event_date, evidence.plan.period):
            worth += _THEN
        if not people or _is_about(candidate.card, people):
            own.append(Supported(candidate, worth))
        else:
            others.append(Supported(candidate, worth))
    # Asked of one person, told of another: the commonest way to be wrong. A card about the other
    # that fits better says that the question has the wrong person.
    best_own = max((one.support for one in own), default=0.0)
    shadow = max((one.support - best_own for one in others), default=0.0)
    taken = _SHADOW * max(0.0, shadow) if own else 0.0
    found = [Supported(one.candidate, one.support - taken) for one in own]
    for one in others:
        cost = _MENTIONED if set(words(one.card.fact)) & people else _OTHER
        found.append(Supported(one.candidate, one.support - cost))
    return sorted(found, key=lambda one: -one.support)


def _numbers(evidence: Evidence) -> set[str]:
    """Numbers that are part of what is asked about ("Postgres 17"), not of when nor of how many
    ("the 5 books")."""
    if evidence.plan.period.start is not None:
        return set()
    asked = words(evidence.question)
    return {
        word
        for before, word in pairwise(asked)
        if word.isdigit() and len(word) < 4 and not is_stop(before) and stem(before) not in ASKING
    }


def _then(day: EventDate, asked: EventDate) -> bool:
    """The same few days: in a whole month too much happens."""
    return day.overlaps(asked) and all(
        one.end - one.start <= _SHORT for one in (day, asked) if one.start and one.end
    )


def suffices(evidence: Evidence, found: Sequence[Supported]) -> bool:
    limit = ENOUGH_SPREAD if evidence.plan.spans_sessions else ENOUGH
    if evidence.plan.mode == "advice":
        limit = ENOUGH_ADVICE
    return bool(found) and found[0].support - _unheard(evidence) >= limit


def _unheard(evidence: Evidence) -> float:
    """What is asked in words that nothing at hand has is likelier not to have been told."""
    if evidence.plan.mode == "advice" or evidence.plan.period.start is not None:
        return 0.0  # what was done "on 7 May" need not have the words asked with
    asked = set(content(evidence.question))
    topic = (asked - ASKING - set(map(stem, _people(evidence)))) or asked
    heard = {one for candidate in evidence.read for one in content(candidate.card.text)}
    return _UNHEARD * len(topic - heard) / len(topic) if topic else 0.0


def relevant(found: Sequence[Supported]) -> list[Supported]:
    """Those nearly as good as the best."""
    if not found:
        return []
    floor = min(found[0].support, max(ENOUGH_SPREAD, found[0].support - _NEAR))
    return [one for one in found if one.support >= floor]


def told(text: str) -> set[str]:
    """Stems of what a text tells of, with what follows from it."""
    return set(content(text)) | {meant for pattern, meant in _MEANS if pattern.search(text)}


def shares(text: str, wanted: set[str]) -> float:
    """The share of the wanted stems that a text has."""
    return len(wanted & told(text)) / len(wanted) if wanted else 0.0


def _people(evidence: Evidence) -> set[str]:
    """Names in the question that are subjects of cards: whom it is about."""
    subjects = {
        word
        for candidate in (*evidence.read, *evidence.candidates)
        for word in words(candidate.card.subject.split("'")[0])
    }
    asked = {word for name in names(evidence.question) for word in words(name)}
    asked |= {word for word in words(evidence.question) if word in subjects and _a_name(word)}
    return {one for one in asked if any(_same_name(one, subject) for subject in subjects)}


def _a_name(word: str) -> bool:
    """Names may be typed in lower case; "will" and "hope" are words as well."""
    return len(word) > 2 and not is_stop(word) and word not in BASES and word not in _ROLES


def _is_about(card: Card, people: set[str]) -> bool:
    subject = words(card.subject)
    return any(_same_name(one, word) for one in people for word in subject)


def _same_name(asked: str, known: str) -> bool:
    """Cat is Catherine."""
    return asked == known or (len(asked) >= 3 and known.startswith(asked))


def _closeness(candidate: Candidate, asked: set[str]) -> float:
    """What the reranker says, as a logit. Without one, what the vectors say or the shared words,
    put on the same scale: cosines differ between embedders, words do not."""
    scores = candidate.scores
    if "rerank" in scores:
        return scores["rerank"]
    cosine = max(scores.get("dense", 0.0), scores.get("turn", 0.0))
    near = min(10.0, max(-10.0, (cosine - 0.68) * 80.0))
    return max(near, 8.0 * shares(candidate.card.text, asked) - 4.0)
