"""Checking a space's file: that it is all there, and that its parts agree with each other."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import zip_longest

import numpy as np

from justmem.domain import Damage, Health
from justmem.errors import StoreDamaged
from justmem.stores import rows, schema
from justmem.stores.damage import AGAIN, REEMBED, RESTORE, damaged, of_whole, shortened
from justmem.stores.reads import card_texts, passage_texts
from justmem.stores.whole import wholes_in

# What belongs to a session, and where it is.
_OF_SESSIONS = {
    "turns": "texts",
    "changed turns": "incoming",
    "cards": "cards",
    "vectors of cards": "card_chunks",
    "passages": "passage_chunks",
    "quarantined cards": "quarantine",
}
_FOREIGN = "see what it is, and remove it with DROP in SQLite"


def check(db: sqlite3.Connection) -> Health:
    """Within one transaction: one moment of the store."""
    (name,) = db.execute("SELECT name FROM space").fetchone()
    sessions, cards, packed = (
        db.execute(sql).fetchone()[0]
        for sql in (
            "SELECT count(*) FROM sessions",
            "SELECT count(*) FROM cards",
            "SELECT total(length(keys)) FROM passage_chunks",
        )
    )
    return Health(
        space=name,
        sessions=sessions,
        cards=cards,
        passages=int(packed) // 8,
        damage=shortened(_damage(db)),
    )


def _damage(db: sqlite3.Connection) -> Iterator[Damage]:
    broken = [line for (line,) in db.execute("PRAGMA integrity_check(20)") if line != "ok"]
    yield from (damaged(f"the file is damaged: {line}", RESTORE) for line in broken)
    if broken:  # what follows would tell the same, less clearly
        return
    yield from (
        damaged(f"the file holds {each} that JustMem did not make", _FOREIGN)
        for each in schema.foreign(db)
    )
    yield from _orphans(db)
    yield from _sums(db)
    yield from _sessions(db)
    yield from _cards(db)
    yield from _chunks(db)
    try:
        yield from _words(db, "card_words", card_texts(db))
        yield from _words(db, "passage_words", passage_texts(db))
    except StoreDamaged as error:
        yield damaged(str(error), AGAIN)


def _orphans(db: sqlite3.Connection) -> Iterator[Damage]:
    for what, table in _OF_SESSIONS.items():
        if count := _count(db, f"{table} WHERE session NOT IN (SELECT key FROM sessions)"):
            yield damaged(f"there are {what} that belong to no session ({count:,})", RESTORE)
    wordless = "sessions WHERE key NOT IN (SELECT session FROM texts)"
    if count := _count(db, wordless):
        yield damaged(f"{count:,} sessions have lost their turns", RESTORE)
    if count := _count(db, "cards WHERE id IN (SELECT id FROM forgotten)"):
        yield damaged(f"{count:,} cards are there that were forgotten", "forget them again")


def _count(db: sqlite3.Connection, rows: str) -> int:
    (count,) = db.execute(f"SELECT count(*) FROM {rows}").fetchone()
    return int(count)


def _sums(db: sqlite3.Connection) -> Iterator[Damage]:
    for column, table in (("cards", "cards"), ("quarantined", "quarantine")):
        counted = f"SELECT count(*) FROM {table} WHERE session = s.key"
        for (id,) in db.execute(f"SELECT id FROM sessions s WHERE {column} <> ({counted})"):
            yield damaged(f"session {id!r} does not have as many {column} as it says", AGAIN)
    summed = db.execute("SELECT total(cards), total(tokens) FROM sessions").fetchone()
    if db.execute("SELECT cards, tokens FROM space").fetchone() != tuple(map(int, summed)):
        yield damaged("the sums of the space are not those of its sessions", RESTORE)
    if _count(db, "space WHERE next_card <= (SELECT max(key) FROM cards)"):
        yield damaged("the next card would overwrite an earlier one", RESTORE)
    if odd := _count(db, "spending WHERE min(tokens, reserved) < 0"):
        yield damaged(f"{odd:,} days have spent less than nothing", RESTORE)


def _sessions(db: sqlite3.Connection) -> Iterator[Damage]:
    (dim,) = db.execute("SELECT dim FROM space").fetchone()
    found = db.execute(
        "SELECT s.id, s.digest, i.digest, s.turns, s.instant, s.day FROM sessions s "
        "LEFT JOIN incoming i ON i.session = s.key"
    ).fetchall()
    for id, digest, waiting, *counted in found:
        try:
            for whole in wholes_in(db, [id]):
                yield from of_whole(whole, digest, waiting, dim)
                at = whole.session.at
                turns = len(whole.session.turns)
                if counted != [turns, rows.instant(at), rows.day(at)]:
                    what = f"session {id!r} does not have the turns or the time that it says"
                    yield damaged(what, AGAIN)
        except StoreDamaged as error:
            yield damaged(f"session {id!r}: {error}", AGAIN)


def _cards(db: sqlite3.Connection) -> Iterator[Damage]:
    for *row, mark in db.execute(f"SELECT {rows.CARD_ROW}, mark FROM cards WHERE mark <> ''"):
        if rows.card_mark(row) != mark:
            yield damaged(f"card {row[1]!r} is not what was stored", AGAIN)


def _chunks(db: sqlite3.Connection) -> Iterator[Damage]:
    """That a session's vectors are those of its cards, and of its day."""
    for id, packed, of_cards, same_day in db.execute(
        "SELECT s.id, c.keys, (SELECT group_concat(key) FROM (SELECT key FROM cards "
        "WHERE session = s.key ORDER BY key)), c.day = s.day FROM sessions s "
        "LEFT JOIN card_chunks c ON c.session = s.key"
    ):
        keys = np.frombuffer(packed or b"", np.int64).tolist() if len(packed or b"") % 8 == 0 else 0
        if keys != [int(key) for key in (of_cards or "").split(",") if key] or same_day == 0:
            yield damaged(f"the vectors of session {id!r} are not those of its cards", REEMBED)
    (count,) = db.execute(
        "SELECT count(*) FROM passage_chunks p JOIN sessions s ON s.key = p.session "
        "WHERE p.day <> s.day OR length(p.spans) * 2 <> length(p.keys) * 3"
    ).fetchone()
    if count:
        yield damaged(f"{count:,} sessions do not have the passages they count", AGAIN)


# ---------------------------------------------------------------- the words

Texts = Iterable[tuple[int, str]]


def _words(db: sqlite3.Connection, table: str, texts: Texts) -> Iterator[Damage]:
    """The index as it is, beside one made anew in memory from the same texts."""
    (made,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    anew = sqlite3.connect(":memory:")
    try:
        anew.execute(made)
        anew.executemany(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", texts)
        with closing(_instances(db, table)) as there, closing(_instances(anew, table)) as right:
            same = all(one == other for one, other in zip_longest(there, right))
        if not same:
            what = "cards" if table == "card_words" else "passages"
            yield damaged(f"the index of words does not agree with the {what}", RESTORE)
    finally:
        anew.close()


def _instances(db: sqlite3.Connection, table: str) -> Generator[tuple[str, int, int], None, None]:
    """Every word of every text, in the order of the index."""
    db.execute(
        f"CREATE VIRTUAL TABLE temp.seen_{table} USING fts5vocab('main', '{table}', 'instance')"
    )
    try:
        yield from db.execute(f"SELECT term, doc, offset FROM temp.seen_{table}")
    finally:
        db.execute(f"DROP TABLE temp.seen_{table}")
