"""The scan over a space's vectors: exact, however many there are and however they lie."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from justmem.errors import StoreDamaged
from justmem.stores.vectors import MatrixCache, Moment

CHUNK = 13  # cards of a session: no divisor of a block


class Held:
    """A table of vectors as a space's file has it, and what is held of it in memory."""

    def __init__(self, vectors: np.ndarray, days: np.ndarray | None = None) -> None:
        self.vectors = np.zeros((0, vectors.shape[1]), np.float32)
        self.days = np.zeros(0, np.int32)
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE TABLE card_chunks (first INTEGER, day, keys, vectors)")
        self.cache = MatrixCache("cards")
        self.now = Moment(0, 0)
        self.add(vectors, np.zeros(len(vectors)) if days is None else days)

    @property
    def keys(self) -> np.ndarray:
        return np.arange(1, len(self.vectors) + 1, dtype=np.int64) * 3

    def add(self, vectors: np.ndarray, days: np.ndarray) -> None:
        start = len(self.vectors)
        # The days of a chunk's cards are one.
        self.days = np.concatenate([self.days, np.repeat(days[::CHUNK], CHUNK)[: len(days)]])
        self.vectors = np.concatenate([self.vectors, vectors.astype(np.float32)])
        for first in range(start, len(self.vectors), CHUNK):
            some = slice(first, first + CHUNK)
            keys, day = self.keys[some], int(self.days[first])
            row = (int(keys[0]), day, keys.tobytes(), self.vectors[some].tobytes())
            self.db.execute("INSERT INTO card_chunks VALUES (?, ?, ?, ?)", row)
        self.now = Moment(self.now.generation + 1, self.now.removals)

    def nearest(self, query: np.ndarray, count: int, until: int | None = None) -> list[int]:
        [found] = self.cache.nearest(self.db, self.now, query[np.newaxis], count, until)
        return [key for key, _ in found]

    def sorted_whole(self, query: np.ndarray, count: int, until: int | None = None) -> list[int]:
        scores = self.vectors @ query
        allowed = [n for n in range(len(scores)) if until is None or self.days[n] <= until]
        best = sorted(allowed, key=lambda n: (-scores[n], n))[:count]
        return [int(self.keys[n]) for n in best]

    def rows(self) -> np.ndarray:
        return self.cache.at(self.db, self.now).rows(self.keys.tolist())


def drawn(rows: int, seed: int = 1) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((rows, 8))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 40, 120])
@pytest.mark.parametrize("rows", [1, 39, 1000, 30_011])
def test_the_nearest_are_those_that_sorting_everything_finds(rows: int, count: int) -> None:
    draw = np.random.default_rng(rows + count)
    held = Held(drawn(rows), draw.integers(0, 10, rows))
    query = drawn(1, seed=2)[0]
    for until in (None, 4):
        assert held.nearest(query, count, until) == held.sorted_whole(query, count, until)


def test_whoever_searches_again_finds_the_same() -> None:
    """Blocks are laid by columns between searches, some at a time."""
    held = Held(drawn(50_003))
    query = drawn(1, seed=2)[0]
    for _ in range(12):
        assert held.nearest(query, 40) == held.sorted_whole(query, 40)
        assert np.array_equal(held.rows(), held.vectors)
    layouts = [block.flags.c_contiguous for block in held.cache.at(held.db, held.now).blocks]
    assert layouts == [False] * 12 + [True]  # the last is still being filled


@pytest.mark.parametrize("rows", [1, 63, 64, 4095, 4096, 4097])
def test_what_is_added_between_searches_is_found(rows: int) -> None:
    held = Held(drawn(rows))
    query = drawn(1, seed=2)[0]
    for seed in range(3, 9):
        assert held.nearest(query, 40) == held.sorted_whole(query, 40)
        held.add(drawn(1500, seed), np.zeros(1500))
    assert held.nearest(query, 40) == held.sorted_whole(query, 40)
    assert np.array_equal(held.rows(), held.vectors)


def test_a_reading_that_fails_halfway_is_begun_anew() -> None:
    held = Held(drawn(5000))
    query = drawn(1, seed=2)[0]
    held.nearest(query, 40)
    held.add(drawn(3000, seed=3), np.zeros(3000))
    broken = int(held.keys[5000 + CHUNK * 100])
    [(vectors,)] = held.db.execute("SELECT vectors FROM card_chunks WHERE first = ?", (broken,))
    damage = "UPDATE card_chunks SET vectors = ? WHERE first = ?"
    held.db.execute(damage, (np.full(8 * CHUNK, np.nan, np.float32).tobytes(), broken))
    with pytest.raises(StoreDamaged):
        held.nearest(query, 40)
    held.db.execute(damage, (vectors, broken))
    assert held.nearest(query, 40) == held.sorted_whole(query, 40)
    assert np.array_equal(held.rows(), held.vectors)


def test_what_was_removed_is_held_no_longer() -> None:
    held = Held(drawn(CHUNK * 2))
    query = held.vectors[0]
    assert held.nearest(query, 1) == [3]
    held.db.execute("DELETE FROM card_chunks WHERE first = 3")
    held.now = Moment(held.now.generation + 1, held.now.removals + 1)
    assert set(held.nearest(query, CHUNK * 2)) == set(held.keys[CHUNK:].tolist())
    assert not held.rows()[:CHUNK].any()
    assert np.array_equal(held.rows()[CHUNK:], held.vectors[CHUNK:])


def test_several_queries_find_what_each_finds_alone() -> None:
    held = Held(drawn(9000))
    queries = drawn(3, seed=4)
    found = held.cache.nearest(held.db, held.now, queries, 40, None)
    assert [[key for key, _ in each] for each in found] == [
        held.sorted_whole(query, 40) for query in queries
    ]


def test_of_many_that_are_equally_near_the_first_come_first() -> None:
    held = Held(np.ones((30_000, 4)))
    for _ in range(12):
        assert held.nearest(np.ones(4, np.float32), 40) == held.keys[:40].tolist()


def test_what_was_said_later_is_not_found_though_little_else_is_there() -> None:
    days = np.full(30_000, 9)
    days[[0, CHUNK * 100]] = 1
    held = Held(drawn(30_000), days)
    found = held.nearest(np.ones(8, np.float32), 40, 5)
    early = [*held.keys[:CHUNK], *held.keys[CHUNK * 100 : CHUNK * 101]]
    assert set(found) == {int(key) for key in early}
