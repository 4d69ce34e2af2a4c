"""Checking a space: that it is all there, and that its parts agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from justmem.domain import Damage, Health, Passage, Session
from justmem.errors import StoreDamaged
from justmem.ports import Vectors, Whole
from justmem.store import reads, rows
from justmem.store.blocks import Block
from justmem.store.engine import Connection, one
from justmem.store.rows import SETTLED

RESTORE = "restore it from a backup; or export what can be read, and import it into a new space"
AGAIN = "forget that session and remember it again"
REEMBED = "run `justmem reembed`"
_MOST = 50  # more of them tell no more
_NOT_ONE = 0.01  # how far from 1 a vector's length may be, for rounding


def check(db: Connection, found: Sequence[tuple[str, str]]) -> Health:
    """`found`: what the engine found wrong already."""
    sessions, cards, passages = 0, 0, 0
    damage = [Damage(what=what, fix=fix) for what, fix in found]
    if not damage:
        listed = reads.sessions(db)
        sessions = len(listed)
        cards = one(db, "SELECT count(*) FROM cards WHERE space = ?", db.space)[0]
        damage += [*_orphans(db), *_sums(db), *_cards(db)]
        for record in listed:
            counted, wrong = _session(db, record.id)
            passages += counted
            damage += wrong
    if len(damage) > _MOST:
        damage[_MOST:] = [Damage(what=f"and {len(damage) - _MOST:,} more", fix=RESTORE)]
    return Health(
        space=db.space, sessions=sessions, cards=cards, passages=passages, damage=tuple(damage)
    )


def _damaged(what: str, fix: str = AGAIN) -> Damage:
    return Damage(what=what, fix=fix)


def _orphans(db: Connection) -> Iterator[Damage]:
    for table, column in (
        ("turns", "session"),
        ("cards", "session"),
        ("blocks", "session"),
        ("quarantine", "session"),
        ("queue", "session"),
        ("corrections", "session"),
    ):
        (count,) = one(
            db,
            f"SELECT count(*) FROM {table} WHERE space = ? AND {column} NOT IN "
            "(SELECT id FROM sessions WHERE space = ? AND draft = 0)",
            *(db.space, db.space),
        )
        if count:
            yield _damaged(f"there are {table} that belong to no session ({count:,})", RESTORE)
    (count,) = one(
        db,
        "SELECT count(*) FROM cards WHERE space = ? AND id IN "
        "(SELECT id FROM forgotten WHERE space = ?)",
        *(db.space, db.space),
    )
    if count:
        yield _damaged(f"{count:,} cards are there that were forgotten", "forget them again")


def _sums(db: Connection) -> Iterator[Damage]:
    for column, table in (("cards", "cards"), ("quarantined", "quarantine")):
        counted: dict[str, int] = dict(
            db.rows(
                f"SELECT session, count(*) FROM {table} WHERE space = ? GROUP BY session", db.space
            )
        )
        for id, said in db.rows(
            f"SELECT id, {column} FROM sessions WHERE space = ? AND draft = 0", db.space
        ):
            if said != counted.get(id, 0):
                yield _damaged(f"session {id!r} does not have as many {column} as it says")
    summed = one(
        db,
        "SELECT coalesce(sum(cards), 0), coalesce(sum(tokens), 0) FROM sessions "
        "WHERE space = ? AND draft = 0",
        db.space,
    )
    kept = one(db, "SELECT cards, tokens, next_key FROM spaces WHERE space = ?", db.space)
    if tuple(map(int, summed)) != tuple(kept[:2]):
        yield _damaged("the sums of the space are not those of its sessions", RESTORE)
    (last,) = one(db, "SELECT coalesce(max(key), 0) FROM cards WHERE space = ?", db.space)
    if kept[2] <= last:
        yield _damaged("the next card would overwrite an earlier one", RESTORE)
    (odd,) = one(
        db,
        "SELECT count(*) FROM spending WHERE space = ? AND (tokens < 0 OR reserved < 0)",
        db.space,
    )
    if odd:
        yield _damaged(f"{odd:,} days have spent less than nothing", RESTORE)


def _cards(db: Connection) -> Iterator[Damage]:
    for *row, mark in db.each(f"SELECT {rows.CARD}, mark FROM cards WHERE space = ?", db.space):
        if rows.card_mark(row) != mark:
            yield _damaged(f"card {row[1]!r} is not what was stored")


def _session(db: Connection, id: str) -> tuple[int, list[Damage]]:
    """How many passages it has, and what is wrong with it."""
    try:
        (whole,) = reads.wholes(db, [id])
        blocks: dict[str, Block] = {block.kind: block for block in reads.blocks(db, sessions=[id])}
        wrong = list(_texts(db, whole))
        indexes = [] if wrong else _postings(db, whole, blocks)
        return len(whole.digested.passages), [*wrong, *_derived(db, whole), *indexes]
    except (StoreDamaged, ValueError, IndexError) as error:
        return 0, [_damaged(f"session {id!r}: {error}")]


def _texts(db: Connection, whole: Whole) -> Iterator[Damage]:
    name = f"session {whole.session.id!r}"
    for draft, digest, turns, instant, day in db.rows(
        "SELECT draft, digest, turns, instant, day FROM sessions WHERE space = ? AND id = ?",
        *(db.space, whole.session.id),
    ):
        text = whole.waiting if draft else whole.session
        assert text is not None
        if text.digest != digest:
            which = "changed words" if draft else "words"
            yield _damaged(f"the {which} of {name} are not those that were stored")
        if (turns, instant, day) != (
            len(text.turns), rows.instant(text.at), text.at.toordinal()
        ):  # fmt: skip
            yield _damaged(f"{name} does not have the turns or the time that it says")


def _derived(db: Connection, whole: Whole) -> Iterator[Damage]:
    session, made = whole.session, whole.digested
    name = f"session {session.id!r}"
    dim = reads.embedder(db)[1]
    if made.state not in SETTLED and (made.cards or made.passages or made.quarantined):
        yield _damaged(f"{name} is {made.state}, but has cards or passages")
    for card in made.cards:
        if not card.turns or not all(1 <= turn <= len(session.turns) for turn in card.turns):
            yield _damaged(f"card {card.id} of {name} rests on turns that are not there")
    if any(not _within(passage, session) for passage in made.passages):
        yield _damaged(f"passages of {name} lie outside its turns")
    yield from _of_vectors(f"cards of {name}", made.cards, made.card_vectors, dim)
    yield from _of_vectors(f"passages of {name}", made.passages, made.passage_vectors, dim)


def _within(passage: Passage, session: Session) -> bool:
    if not 1 <= passage.turn <= len(session.turns):
        return False
    return 0 <= passage.start < passage.end <= len(session.turn(passage.turn).text)


def _of_vectors(what: str, items: Sequence[object], rows: Vectors, dim: int) -> Iterator[Damage]:
    if not items:
        return
    if not len(rows):
        if dim:
            yield _damaged(f"the {what} have no vectors", REEMBED)
        return
    if rows.shape != (len(items), dim):
        yield _damaged(f"the {what} do not have a vector of {dim} dimensions each", REEMBED)
        return
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not (np.abs(lengths - 1) < _NOT_ONE).all():
        yield _damaged(f"the {what} have vectors that are not of length one", REEMBED)


def _postings(db: Connection, whole: Whole, blocks: dict[str, Block]) -> Iterator[Damage]:
    """That the blocks are those of the session's cards and passages."""
    name = f"session {whole.session.id!r}"
    keys = db.rows(
        "SELECT key FROM cards WHERE space = ? AND session = ?", db.space, whole.session.id
    )
    held = blocks["cards"].keys.tolist() if "cards" in blocks else []
    if sorted(key for (key,) in keys) != held:
        yield _damaged(f"the index of {name} is not that of its cards")
        return
    for block in blocks.values():
        if block.day != whole.session.at.toordinal():
            yield _damaged(f"the {block.kind} of {name} have another day than it has")
        cards = whole.digested.cards
        if block.kind == "cards":
            places = [[n, turn] for n, card in enumerate(cards) for turn in card.turns]
            texts = [card.text for card in cards]
        else:
            places = block.places.tolist()
            texts = rows.passage_texts(whole.session, places)
        made = Block.made(block.kind, block.session, 0, 0, texts, places, None)
        if not (
            np.array_equal(made.places, block.places)
            and np.array_equal(made.hashes, block.hashes)
            and np.array_equal(made.counts, block.counts)
        ):
            yield _damaged(f"the index of words does not agree with the {block.kind} of {name}")
