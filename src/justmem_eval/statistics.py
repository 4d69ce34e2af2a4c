"""Mean, sample deviation, paired flips and the exact McNemar test. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb, sqrt

from justmem.domain import Value


class Spread(Value):
    """Mean and sample standard deviation over repeated runs (None for a single one)."""

    mean: float
    deviation: float | None
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.deviation is None else f" ± {self.deviation:.2f}")


def spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Spread(mean=mean, deviation=None, runs=1)
    squares = sum((value - mean) ** 2 for value in values)
    return Spread(mean=mean, deviation=sqrt(squares / (len(values) - 1)), runs=len(values))


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value of so many wrong-to-right and right-to-wrong flips: how
    likely a split at least as uneven is when both directions are equally likely."""
    flips = gained + lost
    fewer = min(gained, lost)
    tail = sum(comb(flips, k) for k in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**flips))


class Flips(Value):
    """From A to B, over the questions that both have a verdict for."""

    gained: tuple[str, ...]  # wrong in A, right in B
    lost: tuple[str, ...]
    both: int
    neither: int
    p: float


def flips(a: Mapping[str, bool], b: Mapping[str, bool]) -> Flips:
    shared = [id for id in a if id in b]
    gained = tuple(id for id in shared if b[id] and not a[id])
    lost = tuple(id for id in shared if a[id] and not b[id])
    return Flips(
        gained=gained,
        lost=lost,
        both=sum(a[id] and b[id] for id in shared),
        neither=sum(not a[id] and not b[id] for id in shared),
        p=mcnemar(len(gained), len(lost)),
    )
