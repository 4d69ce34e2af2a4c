"""Figures from records and gold: recall, answers, mean over runs, flips between two runs.

Everything here is pure. A figure has a name, such as `turn.ten.fraction`, and its denominator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from statistics import fmean, stdev
from typing import Literal, TypeVar

from justmem.domain import Value
from justmem_eval.benchmarks import Case, Gold, TurnKey
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.records import K, Place, Predicted, Retrieved

T = TypeVar("T")
Pairs = Sequence[tuple[Case, Retrieved]]
# What counts: the ten chosen cards, everything read, or that with the recovered source turns.
Counting = Literal["ten", "read", "source"]


class Figure(Value):
    """A mean, in percent unless its name says otherwise, and the number of values. `deviation` is
    the sample standard deviation over repeated runs."""

    value: float | None
    n: int
    deviation: float | None = None

    def __str__(self) -> str:
        return "-" if self.value is None else f"{self.spread()} ({self.n})"

    def spread(self) -> str:
        more = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        return self.short(2) + more

    def short(self, places: int = 1) -> str:
        return "-" if self.value is None else f"{self.value:,.{places}f}"


Figures = dict[str, Figure]


def mean(values: Iterable[float], scale: float = 1.0) -> Figure:
    found = list(values)
    return Figure(value=scale * fmean(found) if found else None, n=len(found))


def percent(hits: Iterable[float | bool]) -> Figure:
    return mean(map(float, hits), 100.0)


def over_runs(runs: Sequence[Sequence[float]]) -> Figure:
    """The mean of the runs' percentages, and the least number of values that a run has."""
    values = [100 * fmean(run) for run in runs if run]
    return Figure(
        value=fmean(values) if values else None,
        n=min(map(len, runs), default=0),
        deviation=stdev(values) if len(values) > 1 else None,
    )


# ---------------------------------------------------------------- recall


def recalls(pairs: Pairs) -> Figures:
    """Recall of turns and sessions by the ten pieces, by everything read, and with the recovered
    sources, and what each of them counts."""
    rows = [row for _, row in pairs]
    asked = [case.gold for case, _ in pairs if case.gold.has_evidence]
    found: Figures = {}
    countings: tuple[Counting, ...] = ("ten", "read", "source")
    for counting in countings:
        found |= _named(f"turn.{counting}", turn_recall(pairs, counting))
        found |= _named(f"session.{counting}", session_recall(pairs, counting))
    spanning = [(c, r) for c, r in pairs if r.plan is not None and r.plan.spans_sessions]
    found |= _named("turn.spanning", turn_recall(spanning))
    found |= _named("sessions_at_5", sessions_at(pairs, 5))
    # Some questions have six gold sessions, so `all` cannot reach 100.
    found["most_all_at_5"] = percent(len(gold.sessions) <= 5 for gold in asked)
    found["source_hit"] = percent(hit for _, hit in source_hits(pairs))
    costs = {
        "cards_at_10": mean(len(row.chosen[:K]) for row in rows),
        "turns_at_10": mean(len(turns_of(row, "ten")) for row in rows),
        "cards_read": mean(len(row.read) for row in rows),
        "turns_claimed": mean(len(turns_of(row, "read")) for row in rows),
        "aligned": percent(piece.aligned for row in rows for piece in row.chosen),
        "nothing_read": percent(not (row.chosen or row.read or row.sources) for row in rows),
    }
    return found | _named("costs", costs)


def _named(prefix: str, figures: Figures) -> Figures:
    return {f"{prefix}.{name}": figure for name, figure in figures.items()}


def turns_of(row: Retrieved, counting: Counting) -> set[TurnKey]:
    places: list[Place] = [piece.place for piece in row.chosen[:K]]
    if counting != "ten":
        places += [piece.place for piece in row.read]
    if counting == "source":
        places += row.sources
    return {(session, turn) for session, turns in places for turn in turns}


def turn_recall(pairs: Pairs, counting: Counting = "read") -> Figures:
    return _recall(pairs, lambda gold: gold.turns, lambda row: turns_of(row, counting))


def session_recall(pairs: Pairs, counting: Counting = "read") -> Figures:
    def found(row: Retrieved) -> set[str]:
        return {session for session, _ in turns_of(row, counting)}

    return _recall(pairs, lambda gold: gold.sessions, found)


def sessions_at(pairs: Pairs, k: int) -> Figures:
    """LongMemEval's own measure: the first `k` sessions in the order of the evidence, then of the
    other candidates. `all` is strict."""

    def first(row: Retrieved) -> set[str]:
        places = [*(piece.place for piece in (*row.chosen, *row.read)), *row.pool]
        return set(list(dict.fromkeys(session for session, _ in places if session))[:k])

    return _recall(pairs, lambda gold: gold.sessions, first)


def _recall(
    pairs: Pairs, wanted: Callable[[Gold], frozenset[T]], found: Callable[[Retrieved], set[T]]
) -> Figures:
    shares = []
    for case, row in pairs:
        gold = wanted(case.gold)
        if case.gold.has_evidence and gold:
            shares.append(len(gold & found(row)) / len(gold))
    return {
        "any": percent(share > 0 for share in shares),
        "all": percent(share == 1 for share in shares),
        "fraction": percent(shares),
    }


def source_hits(pairs: Pairs) -> list[tuple[Case, bool]]:
    """Questions about what the assistant said: is the first source a gold session?"""
    return [
        (case, bool(row.sources) and row.sources[0][0] in case.gold.sessions)
        for case, row in pairs
        if case.gold.category == ASSISTANT and case.gold.has_evidence
    ]


# ---------------------------------------------------------------- answers without a judge


def scores(pairs: Pairs, answers: Mapping[str, Predicted]) -> Figures:
    """Of the questions that were answered. "Rests": cites a turn with evidence. "Misled": cites
    only other turns."""
    told = [(case.gold, answers[row.id]) for case, row in pairs if row.id in answers]
    answerable = [(gold, p) for gold, p in told if gold.answer and not gold.abstain]
    rest = [
        (p.sufficient, not gold.turns.isdisjoint(p.cited)) for gold, p in answerable if gold.turns
    ]
    found = {
        "rests": percent(answered and right for answered, right in rest),
        "misled": percent(answered and not right for answered, right in rest),
        "refused": percent(not p.sufficient for _, p in answerable),
        "refused_rightly": percent(not p.sufficient for gold, p in told if gold.abstain),
        "words": mean(len(p.answer.split()) for _, p in told if p.sufficient),
    }
    return _named("answers", found)


# ---------------------------------------------------------------- two runs


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
