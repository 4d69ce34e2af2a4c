"""Forgets cards, turns, sessions and words. Each function runs inside the caller's transaction.

A forgotten turn keeps its number and its speaker, and loses its words. A mark (a hash) of it stays,
so that the words are removed again if the session is remembered again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Forgotten, Session, corrections_of
from justmem.errors import NotInMemory
from justmem.ports import Derived, Index, Place, Removed, StoredSession, tombstones
from justmem.ports.tombstones import FORGOTTEN_SINCE
from justmem.runtime import tokens
from justmem.store import log, reads
from justmem.store.derived import put_block, put_corrections, remove_derived
from justmem.store.engine import Connection, among, one
from justmem.store.session_index import Block
from justmem.store.writes import remember_forgotten, remove_text, texts_of, write_turns

Counts = Counter[str]  # of what goes, by the fields of Forgotten


def forget(
    db: Connection,
    *,
    cards: Sequence[str] = (),
    turns: Sequence[Place] = (),
    sessions: Sequence[str] = (),
    words: Sequence[str] = (),
    subjects: Sequence[str] = (),
) -> Forgotten:
    counts = Counts()
    # Cards first: a card that is named together with its session must still exist.
    for card_id in dict.fromkeys(cards):
        _forget_card(db, card_id, counts)
    for session_id, numbers in tombstones.by_session(turns).items():
        _forget_turns(db, session_id, numbers, counts)
    for session_id in dict.fromkeys(words):
        _drop_words(db, session_id, counts)
    for session_id in dict.fromkeys(sessions):
        _forget_session(db, session_id, counts)
    for subject in subjects:
        _forget_quarantined_about(db, subject, counts)
    if not counts.total():
        return Forgotten()
    gone = Forgotten(**counts)
    sums = one(
        db,
        "SELECT coalesce(sum(cards), 0), coalesce(sum(tokens), 0) FROM sessions "
        "WHERE space = ? AND draft = 0",
        db.space,
    )
    db.run(
        "UPDATE spaces SET unswept = 1, generation = generation + 1, removals = removals + 1, "
        "cards = ?, tokens = ? WHERE space = ?",
        *(*map(int, sums), db.space),
    )
    named = [*cards, *sessions, *words, *(f"{id}#{number}" for id, number in turns)]
    entry = log.add(db, "forget", named, **log.forgotten(gone))
    return gone.model_copy(update={"entry": entry})


class RolledBack(Exception):
    """Ends the transaction of `preview`."""

    def __init__(self, removed: Removed) -> None:
        self.removed = removed


def preview(db: Connection, *, everything: bool = False, **what: Any) -> None:
    """Forgets, compares what is stored before and after, and raises RolledBack with the result."""
    ids = _touched(db, everything=everything, **what)
    before = reads.wholes(db, ids)
    gone = Forgotten(**reads.counts(db)) if everything else forget(db, **what)
    left = [] if everything else reads.wholes(db, ids)
    after = {whole.session.id: whole for whole in left}
    parts = [_removed(whole, after.get(whole.session.id)) for whole in before]
    raise RolledBack(
        Removed(
            gone.model_copy(update={"entry": None}),
            cards=[card for part in parts for card in part.cards],
            texts=list(dict.fromkeys(text for part in parts for text in part.texts)),
            facts=list(dict.fromkeys(fact for part in parts for fact in part.facts)),
            vectors=[each for part in parts for each in part.vectors if len(each)],
        )
    )


def _touched(
    db: Connection,
    *,
    cards: Sequence[str] = (),
    turns: Sequence[Place] = (),
    sessions: Sequence[str] = (),
    subjects: Sequence[str] = (),
    everything: bool = False,
) -> list[str]:
    """Ids of the sessions that `forget` would change, in order of time."""
    named = {*sessions, *(id for id, _ in turns)}
    sql = "SELECT session FROM cards WHERE space = ? AND id IN"
    named.update(id for (id,) in among(db, sql, cards, db.space))
    return [
        record.id
        for record in reads.sessions(db)
        if everything or record.id in named or (subjects and record.quarantined)
    ]


def _removed(before: StoredSession, after: StoredSession | None) -> Removed:
    """The difference between two states of a session. None: it is gone."""
    made = before.derived
    left = after.derived if after else Derived(made.state)
    ids = {card.id for card in left.cards}
    cards = [n for n, card in enumerate(made.cards) if card.id not in ids]
    spans = set(left.passages)
    passages = [n for n, passage in enumerate(made.passages) if passage not in spans]
    said = _texts(after) if after else {}
    undone = [each.before for each in made.corrections if each not in left.corrections]
    gone = [made.cards[n] for n in cards]
    facts = [(card.subject, card.fact) for card in (*gone, *undone)]
    held = [each for each in made.quarantined if each not in left.quarantined]
    return Removed(
        Forgotten(),
        cards=gone,
        texts=[text for text in _texts(before) if text not in said],
        facts=[*facts, *((each.subject, each.fact) for each in held)],
        vectors=[
            vectors[rows] if len(vectors) else vectors
            for vectors, rows in ((made.card_vectors, cards), (made.passage_vectors, passages))
        ],
    )


def _texts(whole: StoredSession) -> dict[str, None]:
    """Each text of its turns once, in order."""
    both = (whole.session, whole.waiting) if whole.waiting else (whole.session,)
    return {turn.text: None for text in both for turn in text.turns if turn.text.strip()}


def last_entry(db: Connection) -> Forgotten:
    """Counts everything. The log is erased too, so its last entry is returned."""
    gone = Forgotten(**reads.counts(db))
    entry = log.following(db, "erase", (), log.forgotten(gone))
    return gone.model_copy(update={"entry": entry})


def _forget_session(db: Connection, session_id: str, counts: Counts) -> None:
    found = db.rows(
        "SELECT cards, turns, quarantined FROM sessions WHERE space = ? AND id = ? AND draft = 0",
        *(db.space, session_id),
    )
    if not found:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    ((cards, turns, held),) = found
    remove_derived(db, session_id)
    put_corrections(db, session_id, ())
    for draft in (0, 1):
        remove_text(db, session_id, draft)
    db.run("DELETE FROM queue WHERE space = ? AND session = ?", db.space, session_id)
    counts.update(cards=cards, sessions=1, turns=turns, quarantined=held)


# ---------------------------------------------------------------- turns


def _forget_turns(
    db: Connection, session_id: str, numbers: Collection[int], counts: Counts
) -> None:
    """Forgets the words, passages and vectors of turns, and the cards that rest on them. It is
    unknown which turns quarantined cards rest on, so all of the session are removed."""
    current = reads.session(db, session_id)
    waiting = reads.texts(db, [session_id], newest=True)[session_id]
    named = tombstones.find_turns(current, waiting if waiting != current else None, numbers)
    marks = [tombstones.mark(text, number) for text, number in named]
    remember_forgotten(db, marks)
    gone = tombstones.find_marked(current, marks)
    counts.update(turns=len(gone.union(numbers)))
    listed = db.rows(
        "SELECT id, turns FROM cards WHERE space = ? AND session = ?", db.space, session_id
    )
    for card_id, turns in listed:
        if not gone.isdisjoint(map(int, turns.split())):
            _forget_card(db, card_id, counts)
    _remove_quarantined(db, session_id, counts)
    _blank(db, current, waiting, marks)


def _drop_words(db: Connection, session_id: str, counts: Counts) -> None:
    """Forgets the words of all turns of a session and keeps its cards. A waiting text keeps the
    words that are new in it."""
    current = reads.session(db, session_id)
    waiting = reads.texts(db, [session_id], newest=True)[session_id]
    numbers = [n for n, turn in enumerate(current.turns, 1) if not turn.forgotten]
    marks = [tombstones.mark(current, number) for number in numbers]
    remember_forgotten(db, marks)
    _blank(db, current, waiting, marks)
    counts.update(turns=len(numbers))


def _blank(db: Connection, current: Session, waiting: Session, marks: Sequence[str]) -> None:
    """Removes the words of the marked turns from both texts, and their passages."""
    gone = tombstones.find_marked(current, marks)
    blank = current.without(gone)
    _keep_rows(db, "passages", current.id, lambda block: ~np.isin(block.places[:, 0], list(gone)))
    _rewrite(db, blank, 0)
    left = tokens.count_session(blank)
    db.run(
        "UPDATE sessions SET tokens = ? WHERE space = ? AND id = ? AND draft = 0 AND tokens > ?",
        *(left, db.space, current.id, left),
    )
    if 1 not in texts_of(db, current.id):
        return
    rest = tombstones.remove_marked(waiting, marks)
    if rest.digest == blank.digest:  # the turn was all that had changed
        remove_text(db, current.id, 1)
        db.run("DELETE FROM queue WHERE space = ? AND session = ?", db.space, current.id)
    else:
        _rewrite(db, rest, 1)


def _rewrite(db: Connection, session: Session, draft: int) -> None:
    write_turns(db, session, draft)
    where = (db.space, session.id, draft)
    db.run(
        "UPDATE sessions SET digest = ? WHERE space = ? AND id = ? AND draft = ?",
        *(session.digest, *where),
    )
    db.run(
        "UPDATE sessions SET reason = ? WHERE space = ? AND id = ? AND draft = ? AND reason <> ''",
        *(FORGOTTEN_SINCE, *where),
    )


# ---------------------------------------------------------------- cards


def _forget_card(db: Connection, card_id: str, counts: Counts) -> None:
    found = db.rows(
        "SELECT key, session, subject, fact FROM cards WHERE space = ? AND id = ?",
        *(db.space, card_id),
    )
    if not found:
        raise NotInMemory(f"There is no card {card_id!r} in this space.")
    counts.update(cards=len(found))
    ids = {card_id}
    for key, session_id, subject, fact in found:
        db.run("DELETE FROM cards WHERE space = ? AND key = ?", db.space, key)
        _keep_rows(db, "cards", session_id, partial(_without_key, key))
        db.run(
            "UPDATE sessions SET card_tokens = card_tokens * (cards - 1) / cards, "
            "cards = cards - 1 WHERE space = ? AND id = ? AND draft = 0",
            *(db.space, session_id),
        )
        _remove_quarantined(db, session_id, counts, subject, fact)
        known = reads.corrections(db, session_id)
        if own := corrections_of(card_id, known):  # earlier versions must not come back
            ids = ids.union(*(each.ids for each in own))
            put_corrections(db, session_id, [each for each in known if each not in own])
    remember_forgotten(db, sorted(ids))


def _keep_rows(
    db: Connection, kind: Index, session_id: str, which: Callable[[Block], NDArray[np.bool_]]
) -> None:
    (generation,) = one(db, "SELECT generation FROM spaces WHERE space = ?", db.space)
    for block in reads.blocks(db, kind=kind, sessions=[session_id]):
        put_block(db, block.only(which(block)), generation + 1)


def _without_key(key: int, block: Block) -> NDArray[np.bool_]:
    others: NDArray[np.bool_] = block.keys != key
    return others


def _remove_quarantined(
    db: Connection, session_id: str, counts: Counts, subject: str | None = None, fact: str = ""
) -> None:
    same, values = "", [db.space, session_id]
    if subject is not None:
        same = " AND subject = ? AND fact = ?"
        values += [subject, fact]
    gone = db.run(f"DELETE FROM quarantine WHERE space = ? AND session = ?{same}", *values)
    if gone:
        db.run(
            "UPDATE sessions SET quarantined = quarantined - ? "
            "WHERE space = ? AND id = ? AND draft = 0",
            *(gone, db.space, session_id),
        )
    counts.update(quarantined=gone)


def _forget_quarantined_about(db: Connection, subject: str, counts: Counts) -> None:
    held = db.rows("SELECT session, subject, fact FROM quarantine WHERE space = ?", db.space)
    for session_id, name, fact in held:
        if name.casefold() == subject.casefold():
            _remove_quarantined(db, session_id, counts, name, fact)
