"""Checks that a space is complete and that its parts agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from justmem.domain import Damage, Health, SessionRecord
from justmem.errors import StoreDamaged
from justmem.ports import StoredSession, Vectors
from justmem.store import derived, reads, rows
from justmem.store.engine import Connection

RESTORE = "restore it from a backup; or export what can be read, and import it into a new space"
_AGAIN = "forget that session and remember it again"
_MOST = 50  # damages that are listed
_NOT_ONE = 0.01  # how far from 1 a vector's length may be, because of rounding

# What is wrong, a table, and a condition that its wrong rows meet. `?` is the space.
_WRONG = [
    *(
        (
            f"there are {table} that belong to no session",
            table,
            "session NOT IN (SELECT id FROM sessions WHERE space = ?)",
        )
        for table in ("turns", *derived.TABLES)
    ),
    (
        "there are cards that were forgotten",
        "cards",
        "id IN (SELECT id FROM forgotten WHERE space = ?)",
    ),
]


def check(db: Connection, found: Sequence[tuple[str, str]]) -> Health:
    """`found`: what the engine found wrong already, and what to do about it."""
    cards, passages, damage = 0, 0, list(found)
    records = [] if found else reads.sessions(db)
    if not found:
        for what, table, condition in _WRONG:
            sql = f"SELECT count(*) FROM {table} WHERE space = ? AND {condition}"
            ((count,),) = db.rows(sql, db.space, db.space)
            if count:
                damage.append((f"{what} ({count:,})", RESTORE))
    for record in records:
        try:
            (whole,) = reads.whole_sessions(db, [record.id], checked=False)
            cards += len(whole.derived.cards)
            passages += len(whole.derived.passages)
            wrong = _session(db, record, whole)
            damage += [(f"session {record.id!r}: {what}", fix) for what, fix in wrong]
        except (StoreDamaged, ValueError, IndexError) as error:  # of a row that cannot be read
            damage.append((f"session {record.id!r} is damaged: {error}", _AGAIN))
    if len(damage) > _MOST:
        damage[_MOST:] = [(f"and {len(damage) - _MOST:,} more", RESTORE)]
    return Health(
        space=db.space,
        sessions=len(records),
        cards=cards,
        passages=passages,
        damage=tuple(Damage(what=what, fix=fix) for what, fix in damage),
    )


def _session(
    db: Connection, record: SessionRecord, whole: StoredSession
) -> Iterator[tuple[str, str]]:
    made, text, id = whole.derived, whole.session, record.id
    row = db.first("digest, turns, instant", "sessions", id=id)
    if row != (text.digest, len(text.turns), rows.instant(text.at)) or whole.done > len(text.turns):
        yield "its words are damaged, or its time or number of turns", _AGAIN
        return
    counts = record.cards, record.quarantined
    if counts != (len(made.cards), len(made.quarantined)):
        yield "it has another number of cards than recorded", _AGAIN
    for *card, mark in db.select(f"{rows.CARD}, mark", "cards", session=id):
        if rows.card_mark(card) != mark:
            yield f"card {card[1]!r} is damaged", _AGAIN
    numbers = {*range(1, len(text.turns) + 1)}
    if not all(card.turns and numbers.issuperset(card.turns) for card in made.cards):
        yield "a card names turns that do not exist", _AGAIN
        return
    indexed = {
        "cards": ([derived.card_terms(card) for card in made.cards], made.card_vectors),
        "passages": (
            [derived.passage_terms(text, said) for said in made.passages],
            made.passage_vectors,
        ),
    }
    dim = reads.embedder(db)[1]
    for index, (wanted, vectors) in indexed.items():
        stored = db.select("terms", index, "ORDER BY key", session=id)
        if [packed for (packed,) in stored] != wanted:
            yield f"the word index does not match the {index}", _AGAIN
        if wanted and not _are_sound(vectors, len(wanted), dim):
            yield f"the {index} have no sound vectors", "run `justmem reembed`"


def _are_sound(vectors: Vectors, count: int, dim: int) -> bool:
    if not dim or vectors.shape != (count, dim):
        return not dim and not len(vectors)
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return bool((np.abs(lengths - 1) < _NOT_ONE).all())
