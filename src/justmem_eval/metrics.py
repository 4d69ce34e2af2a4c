"""Figures from rows and gold: recall, answers, spread over runs, flips between two runs.

Everything here is pure. Every figure has its denominator.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from statistics import fmean, stdev
from typing import Any, Literal, TypeVar

from justmem.domain import Value
from justmem_eval.benchmarks import Case, Gold, TurnKey
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.records import Place, Predicted, Retrieved

K = 10
T = TypeVar("T")
Pairs = Sequence[tuple[Case, Retrieved]]
# What counts: the ten chosen cards, everything read, or that with the recovered source turns.
Counting = Literal["ten", "read", "source"]


class Figure(Value):
    """A mean, in percent unless its name says otherwise, and the number of values."""

    value: float | None
    n: int

    def __str__(self) -> str:
        return "-" if self.value is None else f"{self.value:.2f} ({self.n})"

    def short(self, places: int = 1) -> str:
        return "-" if self.value is None else f"{self.value:,.{places}f}"


def figure(values: Mapping[str, Any], path: str) -> Figure:
    """A figure of a dumped summary by its path, such as `turn.read.fraction`."""
    found: Any = values
    for part in path.split("."):
        found = found[part]
    return Figure.model_validate(found)


def mean(values: Iterable[float], scale: float = 1.0) -> Figure:
    found = list(values)
    return Figure(value=scale * fmean(found) if found else None, n=len(found))


def percent(hits: Iterable[float | bool]) -> Figure:
    return mean(map(float, hits), 100.0)


# ---------------------------------------------------------------- recall


class Recall(Value):
    any: Figure
    all: Figure
    fraction: Figure


class Level(Value):
    """Recall of turns or of sessions."""

    ten: Recall  # by the ten chosen pieces alone: Recall@10
    read: Recall  # by everything that is read
    source: Recall  # the same with the recovered source turns


class Costs(Value):
    """What a recall counts, each per question."""

    evidence_tokens: Figure
    cards_at_10: Figure
    turns_at_10: Figure  # turns that the first ten pieces claim as their source
    cards_read: Figure
    turns_claimed: Figure  # by everything that is read
    aligned: Figure  # percent of the pieces whose place was found by their words


class Recalls(Value):
    turn: Level
    session: Level
    sessions_at_5: Recall  # LongMemEval's own measure: the first five sessions. `all` is strict.
    most_all_at_5: Figure  # the highest `all` possible: some questions have six gold sessions
    source_hit: Figure  # assistant-output questions: the first source is a gold session
    costs: Costs


def recalls(pairs: Pairs) -> Recalls:
    rows = [row for _, row in pairs]
    asked = [case.gold for case, _ in pairs if case.gold.has_evidence]
    return Recalls(
        turn=_level(pairs, turn_recall),
        session=_level(pairs, session_recall),
        sessions_at_5=sessions_at(pairs, 5),
        most_all_at_5=percent(len(gold.sessions) <= 5 for gold in asked),
        source_hit=percent(hit for _, hit in source_hits(pairs)),
        costs=Costs(
            evidence_tokens=mean(row.evidence_tokens for row in rows),
            cards_at_10=mean(len(row.chosen[:K]) for row in rows),
            turns_at_10=mean(len(turns_of(row, "ten")) for row in rows),
            cards_read=mean(len(row.read) for row in rows),
            turns_claimed=mean(len(turns_of(row, "read")) for row in rows),
            aligned=percent(piece.aligned for row in rows for piece in row.chosen),
        ),
    )


def _level(pairs: Pairs, recall: Callable[[Pairs, Counting], Recall]) -> Level:
    return Level(
        ten=recall(pairs, "ten"), read=recall(pairs, "read"), source=recall(pairs, "source")
    )


def turns_of(row: Retrieved, counting: Counting) -> set[TurnKey]:
    places: list[Place] = [piece.place for piece in row.chosen[:K]]
    if counting != "ten":
        places += row.read
    if counting == "source":
        places += row.sources
    return {(session, turn) for session, turns in places for turn in turns}


def turn_recall(pairs: Pairs, counting: Counting = "read") -> Recall:
    return _recall(pairs, lambda gold: gold.turns, lambda row: turns_of(row, counting))


def session_recall(pairs: Pairs, counting: Counting = "read") -> Recall:
    def found(row: Retrieved) -> set[str]:
        return {session for session, _ in turns_of(row, counting)}

    return _recall(pairs, lambda gold: gold.sessions, found)


def sessions_at(pairs: Pairs, k: int) -> Recall:
    """The first `k` sessions in the order of the evidence, then of the other candidates."""

    def first(row: Retrieved) -> set[str]:
        places = [*(piece.place for piece in row.chosen), *row.read, *row.pool]
        return set(list(dict.fromkeys(session for session, _ in places if session))[:k])

    return _recall(pairs, lambda gold: gold.sessions, first)


def _recall(
    pairs: Pairs, wanted: Callable[[Gold], frozenset[T]], found: Callable[[Retrieved], set[T]]
) -> Recall:
    shares = []
    for case, row in pairs:
        gold = wanted(case.gold)
        if case.gold.has_evidence and gold:
            shares.append(len(gold & found(row)) / len(gold))
    return Recall(
        any=percent(share > 0 for share in shares),
        all=percent(share == 1 for share in shares),
        fraction=percent(shares),
    )


def source_hits(pairs: Pairs) -> list[tuple[Case, bool]]:
    """Assistant-output questions: is the first recovered source a gold session?"""
    return [
        (case, bool(row.sources) and row.sources[0][0] in case.gold.sessions)
        for case, row in pairs
        if case.gold.category == ASSISTANT and case.gold.has_evidence
    ]


def by_category(pairs: Pairs) -> dict[str, Pairs]:
    groups: dict[str, list[tuple[Case, Retrieved]]] = {}
    for case, row in pairs:
        groups.setdefault(case.gold.category, []).append((case, row))
    return dict(sorted(groups.items()))


def spanning(pairs: Pairs) -> Pairs:
    """Questions whose plan expects evidence from several sessions."""
    return [(c, r) for c, r in pairs if r.plan is not None and r.plan.spans_sessions]


# ---------------------------------------------------------------- answers without a judge

_ARTICLES = re.compile(r"\b(?:a|an|the|and)\b")
_PUNCTUATION = str.maketrans(string.punctuation, " " * len(string.punctuation))


class Scores(Value):
    f1: Figure
    contained: Figure  # every word of the gold answer stands in the evidence
    rests: Figure  # cites a turn that holds evidence
    misled: Figure  # cites only other turns
    refused: Figure  # of the answerable questions
    refused_rightly: Figure  # of the unanswerable questions
    words: Figure  # of an answer


def scores(pairs: Pairs, answers: Mapping[str, Predicted]) -> Scores:
    """Of the questions that were answered."""
    told = [(c, r, answers[r.id]) for c, r in pairs if r.id in answers]
    answerable = [(c, r, p) for c, r, p in told if c.gold.answer and not c.gold.abstain]
    placed = [(c.gold.turns, p) for c, _, p in answerable if c.gold.turns]
    rest = [(p.sufficient, not turns.isdisjoint(p.cited)) for turns, p in placed]
    return Scores(
        f1=mean((f1(p.answer, c.gold.answer) for c, _, p in answerable), 100.0),
        contained=percent(
            set(words(c.gold.answer)) <= set(words(r.context)) for c, r, _ in answerable
        ),
        rests=percent(answered and right for answered, right in rest),
        misled=percent(answered and not right for answered, right in rest),
        refused=percent(not p.sufficient for _, _, p in answerable),
        refused_rightly=percent(not p.sufficient for c, _, p in told if c.gold.abstain),
        words=mean(len(p.answer.split()) for _, _, p in told if p.sufficient),
    )


def words(text: str) -> list[str]:
    """Lower case, without punctuation and articles, as LoCoMo and SQuAD compare."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def f1(given: str, gold: str) -> float:
    ours, theirs = words(given), words(gold)
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * sum((Counter(ours) & Counter(theirs)).values()) / (len(ours) + len(theirs))


# ---------------------------------------------------------------- runs


class Spread(Value):
    """Mean and sample standard deviation over repeated runs (None for a single one)."""

    mean: float
    deviation: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.deviation is None else f" ± {self.deviation:.2f}")


def spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(mean=fmean(values), deviation=stdev(values) if len(values) > 1 else None)


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value: how likely a split at least as uneven is when both directions
    are equally likely."""
    flips = gained + lost
    tail = sum(comb(flips, k) for k in range(min(gained, lost) + 1))
    return min(1.0, float(2 * tail / 2**flips))


class Flips(Value):
    """From A to B, over the questions that both have a verdict for."""

    gained: tuple[str, ...]  # wrong in A, right in B
    lost: tuple[str, ...]
    both: int  # right in both
    p: float


def flips(a: Mapping[str, bool], b: Mapping[str, bool]) -> Flips:
    shared = [id for id in a if id in b]
    gained = tuple(id for id in shared if b[id] and not a[id])
    lost = tuple(id for id in shared if a[id] and not b[id])
    both = sum(a[id] and b[id] for id in shared)
    return Flips(gained=gained, lost=lost, both=both, p=mcnemar(len(gained), len(lost)))
