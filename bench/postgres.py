"""What the store costs on PostgreSQL, and whether other spaces make a question dearer.

    python bench/postgres.py --cards 1000 10000 --spaces 10 1000

Times are CPU times of this process and of the server's processes together, means of many. A space
is asked twice before it is timed: its arrays are loaded then. JUSTMEM_TEST_POSTGRES_URL names a
server of your own (then only this process is counted); otherwise one is started.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads: CPU time must be work, not waiting

import argparse
import asyncio
import shutil
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import psycopg
from published import publish

from justmem.ports import SearchLimits, StoredSession
from justmem.store.postgres import open_store
from justmem.store.store import SqlStore
from postgres import Server, create_database, short_folder
from store import Writer

DIM, TURNS, BATCH = 384, 6, 50
REACH = SearchLimits(dense=40, lexical=20, spoken=10, quotes=4, until=date(2500, 1, 1))


def say(text: str) -> None:
    print(text, flush=True)


def batches(cards: int) -> Iterator[list[StoredSession]]:
    made = [StoredSession(session=s, derived=d) for s, d in Writer(DIM, TURNS).sessions(cards)]
    for start in range(0, len(made), BATCH):
        yield made[start : start + BATCH]


async def filled(url: str, space: str, cards: int) -> SqlStore:
    store = await open_store(url, space)
    await store.bind("bench", DIM)
    for batch in batches(cards):
        await store.put(batch)
    return store


def neighbours(url: str, count: int) -> None:
    """Other spaces, made by the server itself: each with a session of five cards."""
    span = f"generate_series(1, {count}) s(n), generate_series(1, 5) k"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(
            "INSERT INTO justmem.spaces (space, dim, next_key) "
            f"SELECT 'neighbour ' || n, {DIM}, 6 FROM generate_series(1, {count}) s(n)"
        )
        db.execute(
            "INSERT INTO justmem.cards SELECT 'neighbour ' || n, k, 'c' || k, 's1', 'Mira', "
            "'a fact of some length about something', 'unknown', 'stable', 'fact', "
            "'2023-05-07T00:00:00', '1', '', '', decode(repeat('00', 40), 'hex'), "
            f"decode(repeat('3c', 580), 'hex') FROM {span}"
        )
        db.execute("VACUUM ANALYZE justmem.cards, justmem.spaces")


class Clock:
    """CPU seconds of this process and of all processes of a server."""

    def __init__(self, server: Server | None) -> None:
        self._server = server
        self._known: dict[int, float] = {}  # by process, also of those that ended

    def __call__(self) -> float:
        for pid in self._pids():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            self._known[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return process_time() + sum(self._known.values())

    def _pids(self) -> list[int]:
        if self._server is None:
            return []
        found = [self._server.pid]
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self._server.pid:
                found.append(int(path.parent.name))
        return found


async def asked(store: SqlStore, rounds: int, clock: Clock) -> float:
    """Seconds for what a recall asks of its store, for one view."""
    writer = Writer(DIM, TURNS, seed=2)
    for number in range(rounds + 2):
        if number == 2:
            began = clock()
        await store.look()
        await store.find([writer.question()], REACH)
    return (clock() - began) / rounds


async def run(options: argparse.Namespace, administrator: str, server: Server | None) -> None:
    clock = Clock(server)
    found: dict[str, float] = {}
    url = create_database(administrator, "justmem_bench")
    for cards in options.cards:
        began = clock()
        store = await filled(url, f"bench {cards}", cards)
        built = clock() - began
        took = await asked(store, options.rounds, clock)
        size = (await store.metadata()).stats.bytes
        sessions = len(await store.sessions())
        await store.close()
        storing = built / sessions
        say(
            f"cards {cards:>7}   question {took * 1e3:7.2f} ms   "
            f"store a session {storing * 1e3:6.2f} ms   {size / cards:,.0f} bytes a card"
        )
        found[f"cards_{cards}.question_ms"] = took * 1e3
        found[f"cards_{cards}.session_ms"] = storing * 1e3
        found[f"cards_{cards}.card_bytes"] = size / cards
    took = []
    for count in options.spaces:
        url = create_database(administrator, f"justmem_bench_{count}")
        store = await filled(url, "in the crowd", 100)
        neighbours(administrator.replace("/postgres?", f"/justmem_bench_{count}?"), count)
        took.append(await asked(store, options.rounds, clock))
        await store.close()
        found[f"spaces_{count}.question_ms"] = took[-1] * 1e3
        say(f"spaces {count:>6}   question {took[-1] * 1e3:7.2f} ms   in a space of 100 cards")
    say(f"ratio {took[-1] / took[0]:.2f}")
    publish(options.figures, "bench-postgres", found, options.rounds, "postgres.py")


def main() -> None:
    parser = argparse.ArgumentParser(description="The store on PostgreSQL.")
    parser.add_argument("--cards", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--spaces", type=int, nargs="+", default=[10, 1_000])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--figures", type=Path, help="Enter the figures into this file.")
    options = parser.parse_args()
    if given := os.environ.get("JUSTMEM_TEST_POSTGRES_URL"):
        asyncio.run(run(options, given, None))
        return
    # Autovacuum would be counted too.
    server = Server(short_folder(), shared_buffers="512MB", jit="off", autovacuum="off")
    server.start()
    try:
        asyncio.run(run(options, server.url(), server))
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
