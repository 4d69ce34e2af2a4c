"""What the embedded store costs, in CPU time, beside the least it could cost.

    python bench/store.py --cards 1000 10000 100000 1000000

builds spaces of synthetic cards and turns (words as frequent as in real text, two people who
are the subject of most cards, random vectors) and compares, in the same run:

    find        a new question as `recall` asks it          with a bare numpy scan of the vectors
    cold open   opening and the first search, a new process  with reading the file's bytes
    remember    keep + settle of a session, commits included

Times are CPU times of one BLAS thread, medians of many; the disk cache is warm.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads: CPU time must be work, not waiting

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np

from justmem.domain import Card, Passage, Session, SessionState, Turn, card_id
from justmem.ports import Derived, SearchLimits, StoredSession, Vectors, View
from justmem.store.sqlite import SqliteStore, open_store

CARDS_A_SESSION = 14
TIMED, BATCH = 50, 200  # sessions
# As `recall` asks: cards by vector and by words, turns by words, and their vectors.
REACH = SearchLimits(dense=40, lexical=20, spoken=10, quotes=3)
START = datetime(2020, 1, 1, 9)


class Writer:
    """Sessions, cards and questions in a language of Zipf-distributed words."""

    def __init__(self, dim: int, turns: int, seed: int = 1) -> None:
        self._rng = np.random.default_rng(seed)
        self._dim = dim
        self._turns = turns
        weights = 1 / (np.arange(40_000) + 2.7)
        self._cumulative = np.cumsum(weights / weights.sum())
        self._words = [_word(n) for n in range(len(weights))]

    def words(self, count: int) -> list[str]:
        drawn = np.searchsorted(self._cumulative, self._rng.random(count))
        return [self._words[min(n, len(self._words) - 1)] for n in drawn]

    def vectors(self, count: int) -> Vectors:
        drawn = self._rng.standard_normal((count, self._dim), np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def sessions(self, cards: int) -> Iterator[tuple[Session, Derived]]:
        for number in range(-(-cards // CARDS_A_SESSION)):
            count = min(CARDS_A_SESSION, cards - number * CARDS_A_SESSION)
            yield self._session(number, count)

    def _session(self, number: int, count: int) -> tuple[Session, Derived]:
        words = iter(self.words(count * 12 + self._turns * 22))
        turns = tuple(
            Turn.model_construct(
                speaker=("Mira", "Jonas")[n % 2], role="user", text=_take(words, 22), at=None
            )
            for n in range(self._turns)
        )
        session = Session.model_construct(
            id=f"session-{number}", at=START + timedelta(hours=7 * number), turns=turns
        )
        passages = [
            Passage.model_construct(session_id=session.id, turn=n, start=0, end=len(turn.text))
            for n, turn in enumerate(turns, 1)
        ]
        return session, Derived(
            state=SessionState.STORED,
            cards=[self._card(session, _take(words, 12)) for _ in range(count)],
            card_vectors=self.vectors(count),
            passages=passages,
            passage_vectors=self.vectors(len(passages)),
            tokens=self._turns * 30,
            card_tokens=count * 17,
        )

    def _card(self, session: Session, fact: str) -> Card:
        subject = self._rng.choice(["Mira", "Jonas", self.words(1)[0]], p=[0.5, 0.4, 0.1])
        return Card.model_construct(
            id=card_id(session.id, subject, fact),
            subject=str(subject),
            fact=fact,
            session_id=session.id,
            said_at=session.at,
            turns=(1 + int(self._rng.integers(max(1, self._turns))),),
        )

    def question(self) -> View:
        """A name, four words to find and a few that questions are made of."""
        text = f"When did Mira's {' '.join(self.words(2))} have the {' '.join(self.words(2))}?"
        return View(text=text, vector=self.vectors(1)[0])


def _word(number: int) -> str:
    """Pronounceable, and no two alike; common words are short."""
    number, letters = number + 1, ""
    while number:
        letters += "bdfgklmnprstvz"[number % 14] + "aeiou"[number // 14 % 5]
        number //= 70
    return letters


def _take(words: Iterator[str], count: int) -> str:
    return " ".join(next(words) for _ in range(count))


@dataclass(frozen=True)
class Row:
    cards: int
    search: float
    scan: float
    opening: float
    reading: float
    remember: float
    on_disk: float
    in_memory: float


async def build(folder: Path, cards: int, writer: Writer) -> float:
    """Seconds of CPU that the store spent on one of the last sessions. The others are stored in
    batches, to save time."""
    store = await open_store(folder, "bench")
    sessions = writer.sessions(cards)
    left, took = -(-cards // CARDS_A_SESSION), []
    while left > TIMED:
        some = list(islice(sessions, min(BATCH, left - TIMED)))
        await store.put([StoredSession(session=s, derived=d) for s, d in some])
        left -= len(some)
    for session, derived in sessions:
        began = process_time()
        await store.keep(session)
        (whole,) = await store.read([session.id])
        await store.settle(whole, derived)
        took.append(process_time() - began)
    await store.close()
    return median(took)


async def search(folder: Path, cards: int, writer: Writer, rounds: int) -> tuple[float, float]:
    """Medians of the store's search and of the bare scan, taken in turn."""
    store = await open_store(folder, "bench")
    bare = writer.vectors(cards)
    await _ask(store, writer.question())
    ours, theirs = [], []
    for _ in range(rounds):
        view = writer.question()
        began = process_time()
        await _ask(store, view)
        ours.append(process_time() - began)
        began = process_time()
        scores = bare @ view.vector
        np.argpartition(scores, max(0, cards - 40))[-40:]
        theirs.append(process_time() - began)
    await store.close()
    return median(ours), median(theirs)


async def _ask(store: SqliteStore, view: View) -> None:
    await store.find([view], REACH)


async def cold(folder: Path, dim: int) -> None:
    """Run in a new process: CPU and memory of opening and the first search."""
    view = Writer(dim, 0).question()
    before, began = _resident(), process_time()
    store = await open_store(folder, "bench")
    await _ask(store, view)
    print(process_time() - began, _resident() - before)
    await store.close()


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cold_opens(folder: Path, dim: int, rounds: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--cold", str(folder), "--dim", str(dim)]
    outputs = [subprocess.check_output(command, text=True).split() for _ in range(rounds)]
    return median(float(cpu) for cpu, _ in outputs), median(float(size) for _, size in outputs)


def reading(path: Path, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = process_time()
        path.read_bytes()
        times.append(process_time() - began)
    return median(times)


def measure(cards: int, dim: int, turns: int, rounds: int) -> Row:
    writer = Writer(dim, turns)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spent = asyncio.run(build(folder, cards, writer))
        path = folder / "bench.db"
        ours, bare = asyncio.run(search(folder, cards, writer, rounds))
        opening, memory = cold_opens(folder, dim, 5)
        return Row(
            cards=cards,
            search=ours,
            scan=bare,
            opening=opening,
            reading=reading(path, 5),
            remember=spent,
            on_disk=path.stat().st_size / cards,
            in_memory=memory / cards,
        )


HEADINGS = (
    "cards | find ms | scan ms | ratio | first question ms | read ms | ratio | "
    "remember ms/session | disk B/card | memory B/card"
)


def line(row: Row) -> str:
    return " | ".join(
        (
            f"{row.cards:>7}",
            f"{row.search * 1e3:7.2f}",
            f"{row.scan * 1e3:7.2f}",
            f"{row.search / row.scan:5.2f}",
            f"{row.opening * 1e3:8.1f}",
            f"{row.reading * 1e3:7.1f}",
            f"{row.opening / row.reading:5.2f}",
            f"{row.remember * 1e3:6.2f}",
            f"{row.on_disk:6.0f}",
            f"{row.in_memory:6.0f}",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU and space costs of the embedded store.")
    parser.add_argument("--cards", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--turns", type=int, default=20, help="turns of a session, each indexed")
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cold:
        asyncio.run(cold(options.cold, options.dim))
        return
    print(HEADINGS)
    for cards in options.cards:
        print(line(measure(cards, options.dim, options.turns, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
