"""Recall, routing and source figures from rows and gold. Pure; every figure has its denominator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from justmem.domain import Value
from justmem_eval.benchmarks import Case, Gold, TurnKey
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.rows import Place, Row

K = 10
T = TypeVar("T")
Pairs = Sequence[tuple[Case, Row]]
# What counts: the ten chosen cards, everything read, the same with the recovered source turns, or
# all candidates (what selection could have had).
Counting = Literal["ten", "read", "source", "pool"]


class Figure(Value):
    """A mean in percent (or of something else, as its name says), and over how many."""

    value: float | None
    n: int

    def __str__(self) -> str:
        return "-" if self.value is None else f"{self.value:.2f} ({self.n})"


def figure(values: Mapping[str, Any], path: str) -> tuple[float | None, int]:
    """A figure of a dumped summary by its path, such as `turn.read.fraction`."""
    found: Any = values
    for part in path.split("."):
        found = found[part]
    return found["value"], found["n"]


def mean(values: Iterable[float], scale: float = 1.0) -> Figure:
    found = list(values)
    return Figure(value=scale * sum(found) / len(found) if found else None, n=len(found))


def percent(hits: Iterable[float | bool]) -> Figure:
    return mean(map(float, hits), 100.0)


# ---------------------------------------------------------------- recall


def turns_of(row: Row, counting: Counting, k: int = K) -> set[TurnKey]:
    """`k`: of the ten chosen cards only the first so many."""
    places: list[Place] = [slot.place for slot in row.slots[:k]]
    if counting != "ten":
        places += row.read
    if counting == "source":
        places += row.sources
    if counting == "pool":
        places += row.pool
    return {(session, turn) for session, turns in places for turn in turns}


class Recall(Value):
    any: Figure
    all: Figure
    fraction: Figure


def turn_recall(pairs: Pairs, counting: Counting = "read", k: int = K) -> Recall:
    return _recall(pairs, lambda gold: gold.turns, lambda row: turns_of(row, counting, k))


def session_recall(pairs: Pairs, counting: Counting = "read", k: int = K) -> Recall:
    def found(row: Row) -> set[str]:
        return {session for session, _ in turns_of(row, counting, k)}

    return _recall(pairs, lambda gold: gold.sessions, found)


def first_sessions(row: Row, k: int) -> list[str]:
    """The first `k` sessions in the order of the evidence, then of the other candidates."""
    places = [*(slot.place for slot in row.slots), *row.read, *row.pool]
    return list(dict.fromkeys(session for session, _ in places if session))[:k]


def sessions_at(pairs: Pairs, k: int) -> Recall:
    """LongMemEval's own measure: sessions are ranked, and the first `k` count. `all` is strict."""
    return _recall(pairs, lambda gold: gold.sessions, lambda row: set(first_sessions(row, k)))


def most_all_at(pairs: Pairs, k: int) -> Figure:
    """What `all` can reach: a question with more than `k` gold sessions is never complete."""
    asked = [case.gold for case, _ in pairs if case.gold.has_evidence]
    return percent(len(gold.sessions) <= k for gold in asked)


def _recall(
    pairs: Pairs, wanted: Callable[[Gold], frozenset[T]], found: Callable[[Row], set[T]]
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


# ---------------------------------------------------------------- routing


class Routing(Value):
    """needs_source against the questions whose answer the assistant gave."""

    precision: Figure
    recall: Figure
    access: Mapping[str, int]


def routing(pairs: Pairs) -> Routing:
    planned = [(c, r) for c, r in pairs if r.plan is not None]
    wanted = {c.question.id for c, _ in planned if c.gold.category == ASSISTANT}
    given = {c.question.id for c, r in planned if r.plan and r.plan.needs_source}
    access: dict[str, int] = {}
    for _, row in planned:
        access[row.access] = access.get(row.access, 0) + 1
    return Routing(
        precision=percent(id in wanted for id in given),
        recall=percent(id in given for id in wanted),
        access=dict(sorted(access.items())),
    )


# ---------------------------------------------------------------- sources


class SourceHits(Value):
    """On assistant-output questions: does the first recovered source (any of them) hold gold?"""

    session_at_1: Figure
    turn_at_1: Figure
    turn_any: Figure


def source_hits(pairs: Pairs) -> SourceHits:
    asked = [(c, r) for c, r in pairs if c.gold.category == ASSISTANT and c.gold.has_evidence]
    marked = [(c, r) for c, r in asked if c.gold.turns]

    def held(case: Case, places: Sequence[Place]) -> bool:
        return any((s, n) in case.gold.turns for s, turns in places for n in turns)

    return SourceHits(
        session_at_1=percent(
            bool(r.sources) and r.sources[0][0] in c.gold.sessions for c, r in asked
        ),
        turn_at_1=percent(held(c, r.sources[:1]) for c, r in marked),
        turn_any=percent(held(c, r.sources) for c, r in marked),
    )


# ---------------------------------------------------------------- groups


def by_category(pairs: Pairs) -> dict[str, Pairs]:
    groups: dict[str, list[tuple[Case, Row]]] = {}
    for case, row in pairs:
        groups.setdefault(case.gold.category, []).append((case, row))
    return dict(sorted(groups.items()))


def spanning(pairs: Pairs) -> Pairs:
    """Questions whose plan expects evidence from several sessions."""
    return [(c, r) for c, r in pairs if r.plan is not None and r.plan.spans_sessions]
