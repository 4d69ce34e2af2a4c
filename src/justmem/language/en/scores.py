"""What a statement is worth as an answer, in weights that `bench/fit_answers.py` fits with whole
conversations and whole data sets held out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp
from typing import Protocol, TypeVar

Turn = tuple[str, int]

WORTH = (0.08, 0.74, 0.35)  # of a statement's signals: logit, score, share of the question's words
_RIGHT = (-1.41, 0.14, 1.20)  # a constant, the logit of the best statement, its lead over the next
# A constant, the best logit about the people asked about, that about others, and how much more of
# the question's words the others share.
_OTHER_PERSON = (1.90, -0.41, 0.23, 1.68)

LIKELY = 0.4  # the chance of being right from which on a quotation counts as an answer
_WEAK = -3.0  # below this logit, a statement must share a word with the question
REFUSED = 0.5  # the chance of naming the wrong person from which on a question is refused
_MUCH_WORSE = 3.0  # a statement worth so much less than the best is not quoted
_MOST_LEAD = 1.5


class Scored(Protocol):
    @property
    def signals(self) -> tuple[float, float, float]: ...
    @property
    def turn(self) -> Turn: ...


S = TypeVar("S", bound=Scored)


def worth(one: Scored) -> float:
    return sum(weight * signal for weight, signal in zip(WORTH, one.signals, strict=True))


def worth_quoting(found: Sequence[S]) -> list[S]:
    """Those that are about as good as the best, which is the first."""
    least = worth(found[0]) - _MUCH_WORSE if found else 0.0
    related = (one for one in found if one.signals[0] > _WEAK or one.signals[2] > 0)
    return [one for one in related if worth(one) >= least]


def chance_right(found: Sequence[Scored]) -> float:
    """The chance that the best statement, which is the first, answers the question."""
    best = found[0]
    others = [worth(one) for one in found if one.turn != best.turn]
    return _chance(_RIGHT, (best.signals[0], lead(worth(best), others)))


def lead(best: float, others: Iterable[float]) -> float:
    return min(_MOST_LEAD, best - max(others, default=float("-inf")))


def names_other_person(own: Sequence[Scored], others: Sequence[Scored]) -> bool:
    """Whether others than the people asked about said what the question asks about."""
    return bool(others) and _chance(_OTHER_PERSON, compare(own, others)) >= REFUSED


def compare(own: Sequence[Scored], others: Sequence[Scored]) -> tuple[float, float, float]:
    mine, theirs = ([max(signal) for signal in zip(*(one.signals for one in each), strict=True)]
                    for each in (own, others))  # fmt: skip
    return mine[0], theirs[0], theirs[2] - mine[2]


def _chance(weights: Sequence[float], signals: Iterable[float]) -> float:
    constant, *more = weights
    return 1 / (1 + exp(-constant - sum(w * one for w, one in zip(more, signals, strict=True))))
