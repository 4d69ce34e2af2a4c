"""Checks that a space is complete and that its parts agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from justmem.domain import Damage, Health
from justmem.errors import StoreDamaged
from justmem.ports import StoredSession, Vectors
from justmem.store import derived, reads, rows
from justmem.store.engine import Connection, one

RESTORE = "restore it from a backup; or export what can be read, and import it into a new space"
AGAIN = "forget that session and remember it again"
REEMBED = "run `justmem reembed`"
_MOST = 50  # damages that are listed
_NOT_ONE = 0.01  # how far from 1 a vector's length may be, because of rounding
_CHILDREN = ("turns", "cards", "blocks", "quarantine", "queue", "corrections")

# Queries that count damaged rows. Each `?` is the space.
_COUNTS = (
    *(
        (
            f"SELECT count(*) FROM {table} WHERE space = ? AND session NOT IN "
            "(SELECT id FROM sessions WHERE space = ?)",
            f"there are {table} that belong to no session",
            RESTORE,
        )
        for table in _CHILDREN
    ),
    *(
        (
            f"SELECT count(*) FROM sessions s WHERE s.space = ? AND s.{column} <> "
            f"(SELECT count(*) FROM {table} c WHERE c.space = ? AND c.session = s.id)",
            f"there are sessions that have a wrong number of {column}",
            AGAIN,
        )
        for table, column in (("cards", "cards"), ("quarantine", "quarantined"))
    ),
    (
        "SELECT count(*) FROM cards WHERE space = ? AND id IN "
        "(SELECT id FROM forgotten WHERE space = ?)",
        "there are cards that were forgotten",
        "forget them again",
    ),
    (
        "SELECT count(*) FROM spaces WHERE space = ? AND next_key <= "
        "(SELECT coalesce(max(key), 0) FROM cards WHERE space = ?)",
        "the next card would overwrite an earlier one",
        RESTORE,
    ),
    (
        "SELECT count(*) FROM spending WHERE space = ? AND (tokens < 0 OR reserved < 0)",
        "there are days with negative spending",
        RESTORE,
    ),
)


def check(db: Connection, found: Sequence[tuple[str, str]]) -> Health:
    """`found`: what the engine found wrong already."""
    sessions, cards, passages = 0, 0, 0
    damage = [Damage(what=what, fix=fix) for what, fix in found]
    if not damage:
        listed = reads.sessions(db)
        sessions = len(listed)
        cards = one(db, "SELECT count(*) FROM cards WHERE space = ?", db.space)[0]
        damage += [*_counts(db), *_cards(db)]
        for record in listed:
            counted, wrong = _session(db, record.id)
            passages += counted
            damage += wrong
    if len(damage) > _MOST:
        damage[_MOST:] = [Damage(what=f"and {len(damage) - _MOST:,} more", fix=RESTORE)]
    return Health(
        space=db.space, sessions=sessions, cards=cards, passages=passages, damage=tuple(damage)
    )


def _counts(db: Connection) -> Iterator[Damage]:
    for sql, what, fix in _COUNTS:
        (count,) = one(db, sql, *[db.space] * sql.count("?"))
        if count:
            yield Damage(what=f"{what} ({count:,})", fix=fix)
    summed = one(
        db,
        "SELECT coalesce(sum(cards), 0), coalesce(sum(tokens), 0) FROM sessions WHERE space = ?",
        db.space,
    )
    if (*map(int, summed),) != one(
        db, "SELECT cards, tokens FROM spaces WHERE space = ?", db.space
    ):
        yield Damage(what="the totals of the space do not match its sessions", fix=RESTORE)


def _cards(db: Connection) -> Iterator[Damage]:
    for *row, mark in db.each(f"SELECT {rows.CARD}, mark FROM cards WHERE space = ?", db.space):
        if rows.card_mark(row) != mark:
            yield Damage(what=f"card {row[1]!r} is damaged", fix=AGAIN)


def _session(db: Connection, id: str) -> tuple[int, list[Damage]]:
    """How many passages it has, and what is wrong with it."""
    name = f"session {id!r}"
    try:
        (whole,) = reads.whole_sessions(db, [id])
        wrong = list(_texts(db, whole, name)) or list(_index(db, whole, name))
        wrong += _vectors(db, whole, name)
        return len(whole.derived.passages), wrong
    except (StoreDamaged, ValueError, IndexError) as error:
        return 0, [Damage(what=f"{name}: {error}", fix=AGAIN)]


def _texts(db: Connection, whole: StoredSession, name: str) -> Iterator[Damage]:
    text = whole.session
    digest, turns, instant = one(
        db,
        "SELECT digest, turns, instant FROM sessions WHERE space = ? AND id = ?",
        *(db.space, text.id),
    )
    if text.digest != digest:
        yield Damage(what=f"the words of {name} are damaged", fix=AGAIN)
    elif (turns, instant) != (len(text.turns), rows.instant(text.at)) or whole.done > turns:
        what = f"{name} has another number of turns or another time than recorded"
        yield Damage(what=what, fix=AGAIN)


def _index(db: Connection, whole: StoredSession, name: str) -> Iterator[Damage]:
    """The stored blocks must be equal to those made anew from the cards and the words."""
    session, made = whole.session, whole.derived
    blocks = {block.kind: block for block in reads.blocks(db, sessions=[session.id])}
    for card in made.cards:
        if not card.turns or not all(1 <= turn <= len(session.turns) for turn in card.turns):
            what = f"card {card.id} of {name} names turns that do not exist"
            yield Damage(what=what, fix=AGAIN)
    found = db.rows("SELECT key FROM cards WHERE space = ? AND session = ?", db.space, session.id)
    keys = sorted(key for (key,) in found)
    held = blocks.get("cards")
    if keys != ([*range(held.first, held.first + len(held))] if held else []):
        yield Damage(what=f"the index of {name} does not match its cards", fix=AGAIN)
        return
    texts = derived.texts(made, session)
    for again in (
        derived.card_block(session, made.cards, 0, None),
        derived.passage_block(session, made.passages, 0, None),
    ):
        block = blocks.get(again.kind, again)
        if block.packed() != again.packed() or not all(texts[again.kind]):
            what = f"the word index does not match the {again.kind} of {name}"
            yield Damage(what=what, fix=AGAIN)


def _vectors(db: Connection, whole: StoredSession, name: str) -> Iterator[Damage]:
    made, dim = whole.derived, reads.embedder(db)[1]
    for kind, items, vectors in (
        ("cards", made.cards, made.card_vectors),
        ("passages", made.passages, made.passage_vectors),
    ):
        if items and (problem := _problem(vectors, len(items), dim)):
            yield Damage(what=f"the {kind} of {name} {problem}", fix=REEMBED)


def _problem(vectors: Vectors, count: int, dim: int) -> str:
    if not len(vectors):
        return "have no vectors" if dim else ""
    if vectors.shape != (count, dim):
        return f"do not have a vector of {dim} dimensions each"
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    near = (np.abs(lengths - 1) < _NOT_ONE).all()
    return "" if near else "have vectors that are not of length one"
