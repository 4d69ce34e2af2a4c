"""What follows from a session: its cards, its passages, their vectors and their words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from justmem.domain import Card, Session
from justmem.errors import EmbedderMismatch, NotInMemory, StoreBusy, StoreError
from justmem.ports import Digested, Index, Vectors
from justmem.stores import rows
from justmem.stores.connections import writing
from justmem.stores.writes import make_current


class _Space(NamedTuple):
    dim: int
    next_card: int
    next_passage: int


def settle(db: sqlite3.Connection, session: Session, digested: Digested) -> None:
    digest, turns = session.digest, rows.turns_text(session)
    with writing(db):
        key, old_cards, old_tokens = _check_kept(db, session.id, digest)
        space = _Space(*db.execute("SELECT dim, next_card, next_passage FROM space").fetchone())
        removed = remove_derived(db, key)
        make_current(db, key, session, digest, turns, digested.state, digested.reason)
        db.execute("DELETE FROM incoming WHERE session = ? AND digest = ?", (key, digest))
        cards = _add_cards(db, key, session, digested, space)
        _add_passages(db, key, session, digested, space)
        db.executemany(
            "INSERT INTO quarantine (session, subject, fact, reason) VALUES (?, ?, ?, ?)",
            [(key, q.subject, q.fact, q.reason) for q in digested.quarantined],
        )
        db.execute(
            "UPDATE sessions SET cards = ?, quarantined = ?, tokens = ?, card_tokens = ? "
            "WHERE key = ?",
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
                cards - old_cards,
                digested.tokens - old_tokens,
            ),
        )


def _check_kept(db: sqlite3.Connection, session_id: str, digest: str) -> tuple[int, int, int]:
    """Its key, and the cards and tokens it counted for. A text that was replaced or forgotten
    while its cards were made must not come back."""
    kept = db.execute(
        "SELECT s.key, s.cards, s.tokens FROM sessions s LEFT JOIN incoming i ON i.session = s.key "
        "WHERE s.id = ? AND ? IN (s.digest, i.digest)",
        (session_id, digest),
    ).fetchone()
    if kept is None:
        raise NotInMemory(
            f"Session {session_id!r} was changed or forgotten while its cards were being made: "
            "remember it again if it should stay."
        )
    key, cards, tokens = kept
    return key, cards, tokens


def _add_cards(
    db: sqlite3.Connection, key: int, session: Session, digested: Digested, space: _Space
) -> int:
    places = _wanted(db, digested.cards)
    keys = np.arange(space.next_card, space.next_card + len(places), dtype=np.int64)
    vectors = _vector_bytes(db, digested.card_vectors, places, len(digested.cards), space)
    if not places:
        return 0
    db.executemany(
        "INSERT INTO cards VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            rows.card_row(card_key, key, digested.cards[place])
            for card_key, place in zip(keys.tolist(), places, strict=True)
        ],
    )
    db.execute(
        "INSERT INTO card_words (rowid, text) SELECT key, subject || ' ' || fact FROM cards "
        "WHERE session = ? ORDER BY key",
        (key,),
    )
    db.execute(
        "INSERT INTO card_chunks (first, session, day, keys, vectors) VALUES (?, ?, ?, ?, ?)",
        (space.next_card, key, rows.day(session.at), keys.tobytes(), vectors),
    )
    return len(places)


def _wanted(db: sqlite3.Connection, cards: Sequence[Card]) -> list[int]:
    """Places of the cards to store: each id once, and none that was forgotten on its own."""
    first = {card.id: place for place, card in reversed(list(enumerate(cards)))}
    forgotten = db.execute(
        "SELECT id FROM forgotten WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(first)),),
    ).fetchall()
    for (id,) in forgotten:
        del first[id]
    return sorted(first.values())


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
    """Whether there was anything. Contentless word indexes need the words they are to drop."""
    db.execute(
        "INSERT INTO card_words (card_words, rowid, text) "
        "SELECT 'delete', key, subject || ' ' || fact FROM cards WHERE session = ?",
        (key,),
    )
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
    tables = ("cards", "card_chunks", "passage_chunks", "quarantine")
    deleted = [db.execute(f"DELETE FROM {t} WHERE session = ?", (key,)).rowcount for t in tables]
    return any(deleted[:3])


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
