"""The scan over a space's vectors: exact, however many there are."""

from __future__ import annotations

import numpy as np
import pytest

from justmem.stores.vectors import Matrix


def matrix(vectors: np.ndarray, days: np.ndarray | None = None) -> Matrix:
    count = len(vectors)
    when = np.zeros(count, np.int32) if days is None else days.astype(np.int32)
    keys = np.arange(1, count + 1, dtype=np.int64) * 3
    return Matrix(keys, when, vectors.astype(np.float32), int(when.max(initial=0)))


def sorted_whole(held: Matrix, query: np.ndarray, count: int, until: int | None) -> list[int]:
    scores = held.vectors @ query
    allowed = [n for n in range(len(scores)) if until is None or held.days[n] <= until]
    return [int(held.keys[n]) for n in sorted(allowed, key=lambda n: (-scores[n], n))[:count]]


@pytest.mark.parametrize("count", [1, 40, 120])
@pytest.mark.parametrize("rows", [1, 39, 1000, 30_011])
def test_the_nearest_are_those_that_sorting_everything_finds(rows: int, count: int) -> None:
    draw = np.random.default_rng(rows + count)
    held = matrix(draw.standard_normal((rows, 8)), draw.integers(0, 10, rows))
    query = draw.standard_normal(8).astype(np.float32)
    for until in (None, 4):
        [found] = held.nearest(query[np.newaxis], count, until)
        assert [key for key, _ in found] == sorted_whole(held, query, count, until)


def test_of_many_that_are_equally_near_the_first_come_first() -> None:
    held = matrix(np.ones((30_000, 4)))
    [found] = held.nearest(np.ones((1, 4), np.float32), 40, None)
    assert [key for key, _ in found] == held.keys[:40].tolist()


def test_what_was_said_later_is_not_found_though_little_else_is_there() -> None:
    days = np.full(30_000, 9)
    days[[7, 20_000]] = 1
    held = matrix(np.random.default_rng(1).standard_normal((30_000, 4)), days)
    [found] = held.nearest(np.ones((1, 4), np.float32), 40, 5)
    assert {key for key, _ in found} == {held.keys[7], held.keys[20_000]}
