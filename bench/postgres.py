"""What the PostgreSQL store costs, beside bare SQL and beside the SQLite store.

    python bench/postgres.py --cards 100 10000 100000 --spaces 1000 100000

starts a PostgreSQL of its own (or uses DATABASE_URL, whose role must be an administrator) and
measures, taking turns within the same run:

    dense     the forty nearest            with one hand-written statement
    search    dense 40 + lexical 20        with two hand-written statements (exact order by
                                           distance; a GIN-indexed tsvector with ts_rank) on
                                           plain tables: no partitions, no row-level security
    recall    every store call of a recall with five hand-written statements for the same rows
    ingest    many sessions at once        with bare COPY of the very same rows
    clients   recalls a second             with 1, 2, 4 and 8 client processes; with 8, server and
                                           clients held to one core, then to all there are
    spaces    recall in a 100-card space   among few and among many other spaces

Wall-clock medians on a local socket; a search is one round trip, a recall three and one more.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from datetime import date
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # its `postgres` starts servers

from store import Writer

from justmem.copying import in_flight
from justmem.ports import Reach, View, Whole
from justmem.stores import opening
from justmem.stores.pg import encode, terms
from justmem.stores.pg.lexicon import Lexicon
from justmem.stores.pg.whole import PostgresCopy
from justmem.stores.postgres import PostgresStore, open_store
from justmem.stores.words import content_words
from postgres import Server, create_database, short_folder

DIM, TURNS, BATCH = 384, 6, 100
LATE = date(2500, 1, 1)


def say(text: str) -> None:
    print(text, flush=True)


# ---------------------------------------------------------------- building


def wholes(writer: Writer, cards: int) -> Iterator[list[Whole]]:
    batch: list[Whole] = []
    for session, digested in writer.sessions(cards):
        batch.append(Whole(session=session, digested=digested))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def fill(store: PostgresStore, writer: Writer, cards: int) -> None:
    await store.bind("bench", DIM)
    copy = PostgresCopy(store)
    await in_flight(copy.take, wholes(writer, cards))


async def neighbours(url: str, count: int, first: int) -> None:
    """Other spaces, made by the server itself: each with five cards of ten words."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
        await db.execute("SET synchronous_commit = off")
        for start in range(first, count, 20_000):
            span = f"generate_series({start + 1}, {min(count, start + 20_000)}) s(space)"
            await db.execute(
                f"INSERT INTO justmem.spaces (space, name, cards, dim) "
                f"SELECT space, 'neighbour ' || space, 5, {DIM} FROM {span}"
            )
            await db.execute(
                "INSERT INTO justmem.cards (space, key, session, day, id, subject, fact, event, "
                "event_precision, status, kind, said_at, turns, folded, vector) SELECT space, k, "
                "1, 738000, 'c' || k, 'Mira', 'a fact of some length about something', 'unknown', "
                "'unknown', 'stable', 'fact', '2023-05-07T00:00:00', '1', 'mira', "
                "(SELECT array_agg(random() - 0.5 + 0 * g * s.space * k) "
                f"FROM generate_series(1, {DIM}) g)::vector FROM {span}, generate_series(1, 5) k"
            )
            await db.execute(
                "INSERT INTO justmem.card_words (space, session, word, found) SELECT space, 1, w, "
                "ARRAY[(1::bigint << 24) + 65546] FROM "
                f"{span}, unnest(ARRAY['ba','da','fa','ga','ka','la','ma','na','pa','mira']) w"
            )
        await db.execute("VACUUM ANALYZE justmem.cards")
        await db.execute("VACUUM ANALYZE justmem.card_words")
        await db.execute("VACUUM ANALYZE justmem.spaces")


# ---------------------------------------------------------------- bare SQL


class Bare:
    """What one would write by hand: plain tables, the space in every key, no other safety."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def connect(self) -> None:
        self.db = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
        await self.db.execute("SET jit = off")

    async def build(self, store: PostgresStore, url: str) -> None:
        """The same rows, by an administrator whom row security does not hold."""
        space = store.names.space
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
            await db.execute("DROP SCHEMA IF EXISTS bare CASCADE")
            await db.execute("CREATE SCHEMA bare")
            await db.execute(
                "CREATE TABLE bare.cards WITH (toast_tuple_target = 8160) AS SELECT c.*, "
                "to_tsvector('english', subject || ' ' || fact) AS words FROM justmem.cards c "
                f"WHERE space = {space}"
            )
            await db.execute(
                "CREATE TABLE bare.passages WITH (toast_tuple_target = 8160) AS SELECT p.*, "
                "to_tsvector('english', substr(t.turns::json -> (p.turn - 1) ->> 2, p.start + 1, "
                "p.stop - p.start)) AS words FROM justmem.passages p JOIN justmem.texts t "
                f"USING (space, session) WHERE space = {space}"
            )
            await db.execute(
                "CREATE TABLE bare.sessions AS SELECT * FROM justmem.sessions "
                f"WHERE space = {space}"
            )
            for table in ("cards", "passages", "sessions"):
                await db.execute(f"ALTER TABLE bare.{table} ADD PRIMARY KEY (space, key)")
            for table in ("cards", "passages"):
                await db.execute(f"CREATE INDEX ON bare.{table} USING gin (words)")
                await db.execute(f"CREATE INDEX ON bare.{table} (space, session)")
                await db.execute(f"VACUUM ANALYZE bare.{table}")
            await db.execute("GRANT USAGE ON SCHEMA bare TO PUBLIC")
            await db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA bare TO PUBLIC")

    async def dense(self, space: int, view: View) -> None:
        vector = "[" + ",".join(map(str, view.vector)) + "]"
        await self._run(
            "SELECT key, vector <#> %s::vector FROM bare.cards WHERE space = %s "
            "ORDER BY vector <#> %s::vector LIMIT 40",
            vector,
            space,
            vector,
        )

    async def search(self, space: int, view: View) -> None:
        words = " | ".join(content_words(view.text))
        await self.dense(space, view)
        await self._run(
            "SELECT key, ts_rank(words, q) FROM bare.cards, to_tsquery('english', %s) q "
            "WHERE space = %s AND words @@ q ORDER BY 2 DESC LIMIT 20",
            words,
            space,
        )

    async def recall(self, space: int, view: View) -> None:
        vector = "[" + ",".join(map(str, view.vector)) + "]"
        words = " | ".join(content_words(view.text))
        await self._run(
            "SELECT max(instant), sum(tokens) FROM bare.sessions WHERE space = %s", space
        )
        near = await self._run(
            "SELECT * FROM bare.cards WHERE space = %s ORDER BY vector <#> %s::vector LIMIT 40",
            space,
            vector,
        )
        await self._run(
            "SELECT c.*, ts_rank(words, q) AS rank FROM bare.cards c, to_tsquery('english', %s) q "
            "WHERE space = %s AND words @@ q ORDER BY rank DESC LIMIT 20",
            words,
            space,
        )
        await self._run(
            "SELECT p.session, p.turn, c.* FROM (SELECT p.*, ts_rank(words, q) AS rank "
            "FROM bare.passages p, to_tsquery('english', %s) q WHERE space = %s AND words @@ q "
            "ORDER BY rank DESC LIMIT 20) p LEFT JOIN bare.cards c ON c.space = p.space "
            "AND c.session = p.session",
            words,
            space,
        )
        await self._run(
            "SELECT session, turn, vector FROM bare.passages WHERE space = %s "
            "AND session = ANY(%s) AND turn <= 2",
            space,
            list({row[2] for row in near}),
        )

    async def _run(self, sql: str, *params: Any) -> list[Any]:
        found = await self.db.execute(sql, params, prepare=True, binary=True)  # type: ignore[arg-type]
        return await found.fetchall()


# ---------------------------------------------------------------- measuring


async def in_turn(
    rounds: int, *works: Callable[[View], Awaitable[Any]], writer: Writer
) -> list[float]:
    times: list[list[float]] = [[] for _ in works]
    for number in range(rounds + 8):
        view = writer.question()
        for place, work in enumerate(works):
            began = perf_counter()
            await work(view)
            if number >= 8:  # the first ones prepare statements and warm the cache
                times[place].append(perf_counter() - began)
    return [median(each) for each in times]


def recall_of(store: Any) -> Callable[[View], Awaitable[Any]]:
    """What a recall asks of its store, for one view."""

    async def recall(view: View) -> None:
        await store.extent()
        await store.find([view], Reach(dense=40, lexical=20, spoken=10, quotes=4, until=LATE))

    return recall


def search_of(store: Any, lexical: int = 20) -> Callable[[View], Awaitable[Any]]:
    return lambda view: store.search([view], "cards", dense=40, lexical=lexical, until=None)


async def searches(url: str, administrator: str, cards: int, rounds: int) -> None:
    writer = Writer(DIM, TURNS)
    store = await open_store(url, f"bench {cards}")
    await fill(store, writer, cards)
    with tempfile.TemporaryDirectory() as folder:
        local = await opening.open_store(Path(folder), "bench")
        await local.bind("bench", DIM)
        for session, digested in Writer(DIM, TURNS).sessions(cards):
            await local.keep(session)
            await local.settle(session, digested)
        bare = Bare(url)
        await bare.build(store, administrator)
        await bare.connect()
        with psycopg.connect(administrator, autocommit=True) as db:
            for table in ("cards", "passages", "card_words", "passage_words"):
                db.execute(f"VACUUM ANALYZE {store.names(table)}")  # type: ignore[arg-type]
        space = store.names.space
        for name, ours, theirs, beside in (
            ("dense", search_of(store, 0), bare.dense, search_of(local, 0)),
            ("search", search_of(store), bare.search, search_of(local)),
            ("recall", recall_of(store), bare.recall, recall_of(local)),
        ):
            one, other, file = await in_turn(
                rounds, ours, lambda view, f=theirs: f(space, view), beside, writer=writer
            )
            say(
                f"{name:7} {cards:>7} cards   store {one * 1e3:8.2f} ms   bare SQL "
                f"{other * 1e3:8.2f} ms   ratio {one / other:5.2f}   SQLite {file * 1e3:8.2f} ms"
            )
        await bare.db.close()
        await local.close()
    await store.close()


# ---------------------------------------------------------------- ingestion


async def ingestion(url: str, administrator: str, cards: int) -> None:
    batches = list(wholes(Writer(DIM, TURNS, seed=3), cards))
    prepared = [_rows(batch) for batch in batches]
    count = sum(len(rows) for tables in prepared for _, rows in tables)
    ours, bare = [], []
    await (await open_store(url, "ingest")).close()  # makes the tables
    await _plain_tables(administrator)
    for attempt in range(5):
        ours.append(await _ours(url, batches, attempt))
        bare.append(await _bare_copy(administrator, prepared, attempt))
    one, other = min(ours), min(bare)
    say(
        f"ingest  {cards:>7} cards   store {cards / one:8.0f} cards/s   bare COPY "
        f"{cards / other:8.0f} cards/s   {other / one:.0%} of it   ({count:,} rows a run)"
    )


async def _ours(url: str, batches: list[list[Whole]], attempt: int) -> float:
    store = await open_store(url, f"ingest {attempt}")
    await store.bind("bench", DIM)
    copy = PostgresCopy(store)
    began = perf_counter()
    await in_flight(copy.take, batches)
    spent = perf_counter() - began
    await store.close()
    return spent


_COPIED = {
    "sessions": "key, id, at, instant, day, digest, state, turns",
    "texts": "session, turns",
    "cards": "key, session, day, id, subject, fact, event, event_precision, status, kind, "
    "said_at, turns, folded, vector",
    "passages": "key, session, day, turn, start, stop, vector",
    "card_words": "session, word, found",
    "passage_words": "session, word, found",
}
_TYPES = {
    "sessions": "int8 text text float8 int4 text text int4",
    "texts": "int8 text",
    "cards": "int8 int8 int4 text text text text text text text text text text bytea",
    "passages": "int8 int8 int4 int4 int4 int4 bytea",
    "card_words": "int8 text int8[]",
    "passage_words": "int8 text int8[]",
}
_LEXICON = Lexicon(None, "porter")  # type: ignore[arg-type]
_KEYS = {"card": 1, "passage": 1, "session": 1}


def _rows(batch: list[Whole]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """The rows that the store would write, made beforehand: COPY gets them for nothing."""
    from justmem.stores import rows

    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _COPIED}
    for whole in batch:
        session, made = whole.session, whole.digested
        key, day = _KEYS["session"], rows.day(session.at)
        _KEYS["session"] += 1
        tables["sessions"].append(
            (key, session.id, session.at.isoformat(), rows.instant(session.at), day,
             session.digest, str(made.state), len(session.turns))
        )  # fmt: skip
        tables["texts"].append((key, rows.turns_text(session)))
        card_keys = range(_KEYS["card"], _KEYS["card"] + len(made.cards))
        passage_keys = range(_KEYS["passage"], _KEYS["passage"] + len(made.passages))
        _KEYS["card"], _KEYS["passage"] = card_keys.stop, passage_keys.stop
        for k, card, vector in zip(card_keys, made.cards, made.card_vectors, strict=True):
            tables["cards"].append(
                (k, key, day, card.id, card.subject, card.fact, "unknown", "unknown", "stable",
                 "fact", session.at.isoformat(), "1 2", card.subject, encode.vector(vector))
            )  # fmt: skip
        for k, p, vector in zip(passage_keys, made.passages, made.passage_vectors, strict=True):
            tables["passages"].append((k, key, day, p.turn, p.start, p.end, encode.vector(vector)))
        texts = [session.turn(p.turn).text[p.start : p.end] for p in made.passages]
        for table, keys, said in (
            ("card_words", card_keys, [card.text for card in made.cards]),
            ("passage_words", passage_keys, texts),
        ):
            collected = terms.Texts()
            collected.add(key, keys, said)
            found, _ = collected.index(_LEXICON)
            entries = found.entries.tolist()
            tables[table] += [
                (key, word, entries[first - 1 : last])
                for word, first, last in zip(found.words, found.first, found.last, strict=True)
            ]
    return list(tables.items())


async def _plain_tables(url: str) -> None:
    """With the same columns and indexes, but neither partitions nor row security."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        await db.execute("CREATE SCHEMA plain")
        for table in _COPIED:
            await db.execute(f"CREATE TABLE plain.{table} (LIKE justmem.{table}_00 INCLUDING ALL)")


async def _bare_copy(
    url: str, prepared: list[list[tuple[str, list[tuple[Any, ...]]]]], space: int
) -> float:
    """Beside what the attempts before have left, as the store's attempts are."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        began = perf_counter()
        for tables in prepared:
            for table, rows in tables:
                columns = f"space, {_COPIED[table]}"
                async with db.cursor().copy(
                    f"COPY plain.{table} ({columns}) FROM STDIN (FORMAT BINARY)"
                ) as copy:
                    copy.set_types(["int8", *_TYPES[table].split()])
                    for row in rows:
                        await copy.write_row((space, *row))
            await db.commit()
        return perf_counter() - began


# ---------------------------------------------------------------- clients and neighbours


async def client(url: str, space: str, seconds: float) -> None:
    """Run as a process of its own: as many recalls as it can, once all are ready."""
    store, writer = await open_store(url, space, create=False), Writer(DIM, 0, seed=os.getpid())
    recall = recall_of(store)
    asked = [writer.question() for _ in range(50)]
    for view in asked[:10]:
        await recall(view)
    say("ready")
    sys.stdin.readline()
    began, count = perf_counter(), 0
    while perf_counter() - began < seconds:
        await recall(asked[count % 50])
        count += 1
    say(str(count / (perf_counter() - began)))
    await store.close()


def together(url: str, space: str, seconds: float, count: int) -> float:
    """Recalls a second of so many clients at once. They start together: what a process takes to
    load would else be taken from those that run already."""
    command = [sys.executable, __file__, "--client", url, space, str(seconds)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for each in running:
        assert each.stdout is not None
        each.stdout.readline()
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    return sum(float(each.communicate()[0].split()[-1]) for each in running)


def clients(url: str, space: str, seconds: float, server: Server | None) -> None:
    found = [f"{n}: {together(url, space, seconds, n):,.0f}/s" for n in (1, 2, 4, 8)]
    cores = sorted(os.sched_getaffinity(0))
    say(f"clients on {len(cores)} cores, shared with the server   {'   '.join(found)}")
    if server is None:
        return  # another machine's cores are not ours to hold
    rates = []
    for count in (1, len(cores)):
        for process in (0, server.pid):  # what they start later is held with them
            os.sched_setaffinity(process, cores[:count])
        rates.append(together(url, space, seconds, 8))
    say(
        f"cores   8 clients on 1 core {rates[0]:,.0f}/s   "
        f"on {len(cores)} cores {rates[1]:,.0f}/s   ratio {rates[1] / rates[0]:.2f}"
    )


async def among(administrator: str, counts: list[int], rounds: int) -> None:
    """A database for each count, asked in turn: the machine's mood is the same for all."""
    writer = Writer(DIM, TURNS)
    stores = []
    for count in counts:
        url, inside = database(administrator, f"justmem_bench_{count}")
        store = await open_store(url, "in the crowd")
        await fill(store, Writer(DIM, TURNS), 100)
        await neighbours(inside, count, 0)
        stores.append(store)
    recalls = await in_turn(rounds, *map(recall_of, stores), writer=writer)
    found = await in_turn(rounds, *map(search_of, stores), writer=writer)
    for count, recall, search in zip(counts, recalls, found, strict=True):
        say(
            f"spaces  {count:>7}   recall {recall * 1e3:6.2f} ms   search {search * 1e3:6.2f} ms   "
            "in a 100-card space"
        )
    say(
        f"spaces  ratio   recall {recalls[-1] / recalls[0]:.2f}   search {found[-1] / found[0]:.2f}"
    )
    for store in stores:
        await store.close()


def database(administrator: str, name: str) -> tuple[str, str]:
    """For an ordinary role, and for the administrator."""
    return create_database(administrator, name), administrator.replace("/postgres?", f"/{name}?")


async def sizes(url: str, administrator: str, cards: int) -> None:
    with psycopg.connect(administrator, autocommit=True) as db:
        found = db.execute(
            "SELECT regexp_replace(relname, '_\\d\\d$', ''), sum(pg_total_relation_size(oid)) "
            "FROM pg_class WHERE relkind = 'r' AND relnamespace = 'justmem'::regnamespace "
            "GROUP BY 1 ORDER BY 2 DESC"
        ).fetchall()
    total = sum(int(size) for _, size in found)
    parts = ", ".join(f"{name} {int(size) / cards:,.0f}" for name, size in found[:6])
    say(f"bytes   {total / cards:,.0f} a card with its share of everything: {parts}")


async def run(
    options: argparse.Namespace, administrator: str, server: Server | None = None
) -> None:
    await ingestion(*database(administrator, "justmem_bench_ingest"), options.ingest)
    url, inside = database(administrator, "justmem_bench")
    for cards in options.cards:
        await searches(url, inside, cards, options.rounds)
    await sizes(url, inside, sum(options.cards))
    clients(url, f"bench {min(options.cards)}", options.seconds, server)
    await among(administrator, options.spaces, options.rounds)


def main() -> None:
    if "--client" in sys.argv:
        url, space, seconds = sys.argv[2:5]
        asyncio.run(client(url, space, float(seconds)))
        return
    parser = argparse.ArgumentParser(description="The PostgreSQL store beside bare SQL and SQLite.")
    parser.add_argument("--cards", type=int, nargs="+", default=[100, 10_000, 100_000])
    parser.add_argument("--spaces", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--ingest", type=int, default=21_000)
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    given = os.environ.get("DATABASE_URL")
    if given:
        asyncio.run(run(options, given))
        return
    server = Server(short_folder(), shared_buffers="2GB", jit="off")
    server.start()
    try:
        asyncio.run(run(options, server.url(), server))
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
