"""What follows from a session: its cards, its passages, their vectors and their words."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from justmem.domain import Card, Session
from justmem.errors import EmbedderMismatch, NotInMemory, StoreBusy, StoreError
from justmem.ports import Digested, Index, Vectors
from justmem.stores import rows
from justmem.stores.connections import writing
from justmem.stores.writes import leave_traces, make_current


class _Space(NamedTuple):
    dim: int
    next_card: int
    next_passage: int


def settle(db: sqlite3.Connection, session: Session, digested: Digested) -> None:
    digest = session.digest
    with writing(db):
        kept = _check_kept(db, session.id, digest)
        removed = kept.followed and remove_derived(db, kept.key)
        if removed:
            leave_traces(db)
        if kept.current:
            db.execute(
                "UPDATE sessions SET state = ?, reason = ?, spent = 0 WHERE key = ?",
                (digested.state, digested.reason, kept.key),
            )
        else:
            turns = rows.turns_text(session)
            make_current(db, kept.key, session, digest, turns, digested.state, digested.reason)
            db.execute("DELETE FROM incoming WHERE session = ?", (kept.key,))
            leave_traces(db)
        _add_derived(db, kept, session, digested, removed)


class _Kept(NamedTuple):
    """A session's key, and the cards and tokens it counted for."""

    key: int
    cards: int
    tokens: int
    current: bool = False  # the text is the session's own, not one that waits to replace it
    followed: bool = True  # something was made of the session before


def _add_derived(
    db: sqlite3.Connection, of: _Kept, session: Session, digested: Digested, removed: bool
) -> None:
    """`removed`: there was something before, and it is gone."""
    key = of.key
    space = _Space(*db.execute("SELECT dim, next_card, next_passage FROM space").fetchone())
    cards = _add_cards(db, key, session, digested, space)
    _add_passages(db, key, session, digested, space)
    db.executemany(
        "INSERT INTO quarantine (session, subject, fact, reason) VALUES (?, ?, ?, ?)",
        [(key, q.subject, q.fact, q.reason) for q in digested.quarantined],
    )
    db.execute(
        "UPDATE sessions SET cards = ?, quarantined = ?, tokens = ?, card_tokens = ? WHERE key = ?",
        (cards, len(digested.quarantined), digested.tokens, digested.card_tokens, key),
    )
    db.execute(
        "UPDATE space SET generation = generation + 1, removals = removals + ?, "
        "next_card = next_card + ?, next_passage = next_passage + ?, "
        "cards = cards + ?, tokens = tokens + ?",
        (
            removed,
            cards,
            len(digested.passages),
            cards - of.cards,
            digested.tokens - of.tokens,
        ),
    )


def _check_kept(db: sqlite3.Connection, session_id: str, digest: str) -> _Kept:
    """A text that was replaced or forgotten while its cards were made must not come back."""
    kept = db.execute(
        "SELECT s.key, s.cards, s.tokens, s.digest = ?2, s.quarantined > 0 "
        "OR EXISTS (SELECT 1 FROM card_chunks WHERE session = s.key) "
        "OR EXISTS (SELECT 1 FROM passage_chunks WHERE session = s.key) "
        "FROM sessions s LEFT JOIN incoming i ON i.session = s.key "
        "WHERE s.id = ?1 AND ?2 IN (s.digest, i.digest)",
        (session_id, digest),
    ).fetchone()
    if kept is None:
        raise NotInMemory(
            f"Session {session_id!r} was changed or forgotten while its cards were being made: "
            "remember it again if it should stay."
        )
    return _Kept(*kept)


def _add_cards(
    db: sqlite3.Connection, key: int, session: Session, digested: Digested, space: _Space
) -> int:
    places = _wanted(db, digested.cards)
    keys = np.arange(space.next_card, space.next_card + len(places), dtype=np.int64)
    vectors = _vector_bytes(db, digested.card_vectors, places, len(digested.cards), space)
    if not places:
        return 0
    stored = [(n, digested.cards[place]) for n, place in zip(keys.tolist(), places, strict=True)]
    db.executemany(
        f"INSERT INTO cards VALUES ({', '.join('?' * 14)})",
        [rows.card_row(card_key, key, card) for card_key, card in stored],
    )
    db.executemany(
        "INSERT INTO card_words (rowid, text) VALUES (?, ?)",
        [(card_key, card.text) for card_key, card in stored],
    )
    db.execute(
        "INSERT INTO card_chunks (first, session, day, keys, vectors) VALUES (?, ?, ?, ?, ?)",
        (space.next_card, key, rows.day(session.at), keys.tobytes(), vectors),
    )
    return len(places)


def _wanted(db: sqlite3.Connection, cards: Sequence[Card]) -> list[int]:
    """Places of the cards to store: each id once, and none that was forgotten on its own."""
    first = {card.id: place for place, card in reversed(list(enumerate(cards)))}
    forgotten = "SELECT 1 FROM forgotten WHERE id = ?"
    return sorted(
        place for id, place in first.items() if not db.execute(forgotten, (id,)).fetchone()
    )


def _add_passages(
    db: sqlite3.Connection, key: int, session: Session, digested: Digested, space: _Space
) -> None:
    passages = digested.passages
    everyone = range(len(passages))
    vectors = _vector_bytes(db, digested.passage_vectors, everyone, len(passages), space)
    if not passages:
        return
    spans = np.array([(p.turn, p.start, p.end) for p in passages], np.int32)
    keys = np.arange(space.next_passage, space.next_passage + len(passages), dtype=np.int64)
    db.execute(
        "INSERT INTO passage_chunks (first, session, day, keys, spans, vectors) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (
            space.next_passage,
            key,
            rows.day(session.at),
            keys.tobytes(),
            spans.tobytes(),
            vectors,
        ),
    )
    db.executemany(
        "INSERT INTO passage_words (rowid, text) VALUES (?, ?)",
        zip(keys.tolist(), rows.passage_texts(session.turns, spans), strict=True),
    )


def _vector_bytes(
    db: sqlite3.Connection, vectors: Vectors, places: Sequence[int], count: int, space: _Space
) -> bytes | None:
    if not len(vectors):
        return None
    if len(vectors) != count:
        raise StoreError(f"{count} texts came with {len(vectors)} vectors: embed each of them.")
    dim = vectors.shape[1]
    if space.dim not in (0, dim):
        raise EmbedderMismatch(
            f"The vectors of this space have {space.dim} dimensions, these have {dim}: "
            "use the embedder that the space was made with, or run `justmem reembed`."
        )
    if not space.dim:
        db.execute("UPDATE space SET dim = ?", (dim,))
    return np.ascontiguousarray(vectors[list(places)], np.float32).tobytes()


def remove_derived(db: sqlite3.Connection, key: int) -> bool:
    """Whether there was anything."""
    db.execute(
        "INSERT INTO card_words (card_words, rowid, text) "
        "SELECT 'delete', key, subject || ' ' || fact FROM cards WHERE session = ?",
        (key,),
    )
    passages = _remove_passages(db, key)
    tables = ("cards", "card_chunks", "quarantine")
    deleted = [db.execute(f"DELETE FROM {t} WHERE session = ?", (key,)).rowcount for t in tables]
    return passages or any(deleted[:2])


def _remove_passages(db: sqlite3.Connection, key: int) -> bool:
    """Whether there were any. Contentless word indexes need the words they are to drop."""
    for passage_keys, spans in db.execute(
        "SELECT keys, spans FROM passage_chunks WHERE session = ?", (key,)
    ).fetchall():
        (turns,) = db.execute("SELECT turns FROM texts WHERE session = ?", (key,)).fetchone()
        db.executemany(
            "INSERT INTO passage_words (passage_words, rowid, text) VALUES ('delete', ?, ?)",
            zip(
                np.frombuffer(passage_keys, np.int64).tolist(),
                rows.passage_texts(rows.turns_of(turns), rows.spans_of(spans)),
                strict=True,
            ),
        )
    return db.execute("DELETE FROM passage_chunks WHERE session = ?", (key,)).rowcount > 0


# ---------------------------------------------------------------- re-embedding


_CHUNKS: dict[Index, str] = {"cards": "card_chunks", "passages": "passage_chunks"}


def replace_vectors(
    db: sqlite3.Connection,
    embedder: str,
    dim: int,
    replaced: Mapping[Index, tuple[Sequence[int], Vectors]],
) -> None:
    with writing(db):
        for index, table in _CHUNKS.items():
            db.execute(f"UPDATE {table} SET vectors = NULL")
            if index in replaced:
                _fill(db, table, *replaced[index])
        db.execute(
            "UPDATE space SET embedder = ?, dim = ?, generation = generation + 1, "
            "removals = removals + 1",
            (embedder, dim),
        )


def _fill(db: sqlite3.Connection, table: str, keys: Sequence[int], vectors: Vectors) -> None:
    known = np.asarray(keys, np.int64)
    for first, packed in db.execute(f"SELECT first, keys FROM {table}").fetchall():
        wanted = np.frombuffer(packed, np.int64)
        places = np.searchsorted(known, wanted)
        if not len(known) or (known[places.clip(max=len(known) - 1)] != wanted).any():
            raise StoreBusy(
                "Another process added to the space while it was embedded again: run it again."
            )
        rows_of = np.ascontiguousarray(vectors[places], np.float32).tobytes()
        db.execute(f"UPDATE {table} SET vectors = ? WHERE first = ?", (rows_of, first))
