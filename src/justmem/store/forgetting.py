"""Forgets cards, turns, sessions and words. Each function runs inside the caller's transaction.

`tombstones.remove_forgotten` computes what is left of a session, which is then written. A forgotten
turn keeps its number and its speaker, and loses its words. A mark (a hash) of it stays, so that the
words are removed again if the session is remembered again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from justmem.domain import Forgotten, corrections_of
from justmem.errors import NotInMemory
from justmem.ports import Derived, Place, Removed, StoredSession, tombstones
from justmem.store import log, reads
from justmem.store.engine import Connection, among
from justmem.store.writes import remember_forgotten, replace_session


@dataclass(frozen=True, slots=True)
class _Change:
    """What forgetting does to one session."""

    before: StoredSession
    after: StoredSession | None  # None: nothing is left
    ids: Sequence[str]  # of cards and marks of turns that stay forgotten
    turns: int  # how many are forgotten

    @property
    def counts(self) -> Mapping[str, int]:
        made = self.before.derived
        left = self.after.derived if self.after else Derived(made.state)
        return {
            "cards": len(made.cards) - len(left.cards),
            "sessions": int(self.after is None),
            "turns": self.turns,
            "quarantined": len(made.quarantined) - len(left.quarantined),
        }


def forget(
    db: Connection,
    *,
    cards: Sequence[str] = (),
    turns: Sequence[Place] = (),
    sessions: Sequence[str] = (),
    words: Sequence[str] = (),
    subjects: Sequence[str] = (),
) -> Forgotten:
    counts = Counter[str]()
    for change in _changes(
        db, cards=cards, turns=turns, sessions=sessions, words=words, subjects=subjects
    ):
        remember_forgotten(db, change.ids)
        replace_session(db, change.before, change.after)
        counts.update(change.counts)
    if not counts.total():
        return Forgotten()
    gone = Forgotten(**counts)
    db.run(
        "UPDATE spaces SET unswept = 1, generation = generation + 1, removals = removals + 1 "
        "WHERE space = ?",
        db.space,
    )
    named = [*cards, *sessions, *words, *(f"{id}#{number}" for id, number in turns)]
    entry = log.add(db, "forget", named, **log.forgotten(gone))
    return gone.model_copy(update={"entry": entry})


def preview(db: Connection, /, **what: Any) -> Removed:
    """What `forget` would remove."""
    changes = list(_changes(db, **what))
    parts = [_removed(change) for change in changes]
    return Removed(
        Forgotten(**sum((Counter(change.counts) for change in changes), Counter[str]())),
        cards=[card for part in parts for card in part.cards],
        texts=list(dict.fromkeys(text for part in parts for text in part.texts)),
        facts=list(dict.fromkeys(fact for part in parts for fact in part.facts)),
        vectors=[each for part in parts for each in part.vectors if len(each)],
    )


def last_entry(db: Connection) -> Forgotten:
    """Counts everything. The log is erased too, so its last entry is returned."""
    gone = Forgotten(**reads.counts(db))
    entry = log.following(db, "erase", (), log.forgotten(gone))
    return gone.model_copy(update={"entry": entry})


# ---------------------------------------------------------------- what is left


def _changes(
    db: Connection,
    *,
    cards: Sequence[str] = (),
    turns: Sequence[Place] = (),
    sessions: Collection[str] = (),
    words: Collection[str] = (),
    subjects: Sequence[str] = (),
    everything: bool = False,
) -> Iterator[_Change]:
    """In order of time."""
    of_cards = _sessions_of(db, cards)
    numbers = tombstones.by_session(turns)
    about = {subject.casefold() for subject in subjects}
    sessions, words = set(sessions), set(words)
    named = {*of_cards.values(), *numbers, *sessions, *words}
    listed = reads.sessions(db)
    for id in sorted(named - {record.id for record in listed}):
        raise NotInMemory(f"There is no session {id!r} in this space.")
    ids = [
        each.id
        for each in listed
        if everything
        or each.id in named
        or (about and (each.quarantined or not each.state.settled))
    ]
    for whole in reads.each_whole_session(db, ids):
        id = whole.session.id
        own = [card for card, session in of_cards.items() if session == id]
        change = _change(whole, own, numbers.get(id, ()), about, words=id in words)
        if everything or id in sessions:
            change = replace(change, after=None, turns=len(whole.session.turns))
        yield change


def _sessions_of(db: Connection, cards: Sequence[str]) -> dict[str, str]:
    """The sessions that the cards belong to."""
    sql = "SELECT id, session FROM cards WHERE space = ? AND id IN"
    found: dict[str, str] = {row[0]: row[1] for row in among(db, sql, cards, db.space)}
    for id in cards:
        if id not in found:
            raise NotInMemory(f"There is no card {id!r} in this space.")
    return found


def _change(
    whole: StoredSession,
    cards: Sequence[str],
    numbers: Sequence[int],
    about: Collection[str],
    *,
    words: bool,
) -> _Change:
    """`words`: also forget the words of all turns, which the cards survive. Turns without cards
    keep them. `about`: subjects whose quarantined cards go, and corrections of cards that are
    still to be made again."""
    session = whole.session
    tombstones.check_turns(session, numbers)
    marks = [tombstones.mark(session, number) for number in numbers]
    gone = tombstones.find_marked(session, marks).union(numbers)
    left = tombstones.remove_forgotten(whole, {*cards, *marks})
    kept = {card.id for card in left.derived.cards}
    lost = {card.id for card in whole.derived.cards} - kept
    for id in lost.copy():  # earlier versions must not come back
        lost = lost.union(*(each.ids for each in corrections_of(id, whole.derived.corrections)))
    if words:
        turns = left.session.turns[: whole.done]
        said = [n for n, turn in enumerate(turns, 1) if not turn.forgotten]
        more = [tombstones.mark(session, number) for number in said]
        left = tombstones.remove_forgotten(left, more, cards=False)
        marks += more
        gone = gone.union(said)
    if about:
        left = replace(left, derived=_without_subjects(left.derived, about))
    return _Change(whole, left, [*marks, *sorted(lost)], len(gone))


def _without_subjects(made: Derived, about: Collection[str]) -> Derived:
    """Without quarantined cards about these subjects, and without the corrections of missing cards
    that named them."""
    ids = {card.id for card in made.cards}
    named = {
        each.original
        for each in made.corrections
        for text in (each.before.text.casefold(), each.after.text.casefold())
        if any(subject in text for subject in about)
    }
    there = {each.original for each in made.corrections if ids & each.ids}
    return replace(
        made,
        quarantined=[each for each in made.quarantined if each.subject.casefold() not in about],
        corrections=[each for each in made.corrections if each.original not in named - there],
    )


# ---------------------------------------------------------------- what is removed


def _removed(change: _Change) -> Removed:
    """The difference between both states of a session."""
    made, after = change.before.derived, change.after
    left = after.derived if after else Derived(made.state)
    ids = {card.id for card in left.cards}
    cards = [n for n, card in enumerate(made.cards) if card.id not in ids]
    spans = set(left.passages)
    passages = [n for n, passage in enumerate(made.passages) if passage not in spans]
    said = _texts(after) if after else {}
    undone = [
        card
        for each in made.corrections
        if each not in left.corrections
        for card in (each.before, each.after)
    ]
    gone = [made.cards[n] for n in cards]
    facts = [(card.subject, card.fact) for card in (*gone, *undone)]
    held = [each for each in made.quarantined if each not in left.quarantined]
    return Removed(
        Forgotten(),
        cards=gone,
        texts=[text for text in _texts(change.before) if text not in said],
        facts=[*facts, *((each.subject, each.fact) for each in held)],
        vectors=[
            vectors[rows] if len(vectors) else vectors
            for vectors, rows in ((made.card_vectors, cards), (made.passage_vectors, passages))
        ],
    )


def _texts(whole: StoredSession) -> dict[str, None]:
    """Each text of its turns once, in order."""
    return {turn.text: None for turn in whole.session.turns if turn.text.strip()}
