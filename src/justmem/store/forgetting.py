"""Forgets cards, turns, sessions and words. Each function runs inside the caller's transaction.

`StoredSession.without` computes what is left of a session, which is then written. A forgotten
turn keeps its number and its speaker, and loses its words. A mark (a hash) of it stays, so that the
words are removed again if the session is remembered again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from justmem.domain import Card, Forgotten, Quarantined, corrections_of, marks
from justmem.errors import NotInMemory
from justmem.ports import Derived, Place, Removed, StoredSession, Vectors
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

    def collect(
        self,
        cards: list[Card],
        texts: dict[str, None],
        facts: dict[tuple[str, str], None],
        vectors: list[Vectors],
    ) -> None:
        """Adds what is in the session before, and not after."""
        made, after = self.before.derived, self.after
        left = after.derived if after else Derived(made.state)
        ids, spans = {card.id for card in left.cards}, set(left.passages)
        gone = [n for n, card in enumerate(made.cards) if card.id not in ids]
        passages = [n for n, passage in enumerate(made.passages) if passage not in spans]
        undone = [each for each in made.corrections if each not in left.corrections]
        held = [each for each in made.quarantined if each not in left.quarantined]
        cards += [made.cards[n] for n in gone]
        said = _texts(after) if after else {}
        texts |= {text: None for text in _texts(self.before) if text not in said}
        stated: list[Card | Quarantined] = [
            *(made.cards[n] for n in gone),
            *(card for each in undone for card in (each.before, each.after)),
            *held,
        ]
        facts |= {(each.subject, each.fact): None for each in stated}
        lost = made.select(gone, passages)
        vectors += [each for each in (lost.card_vectors, lost.passage_vectors) if len(each)]


def forget(db: Connection, *, dry_run: bool = False, **what: Any) -> Removed:
    counts, named = Counter[str](), _named(**what)
    cards: list[Card] = []
    texts, facts = dict[str, None](), dict[tuple[str, str], None]()
    vectors: list[Vectors] = []
    for change in _changes(db, **what):
        counts.update(change.counts)
        change.collect(cards, texts, facts, vectors)
        if not dry_run:
            remember_forgotten(db, change.ids)
            replace_session(db, change.before, change.after)
    gone = Forgotten(**counts)
    if counts.total() and not dry_run:
        db.run("UPDATE spaces SET unswept = 1 WHERE space = ?", db.space)
        entry = log.add(db, "forget", named, **log.forgotten(gone))
        gone = gone.model_copy(update={"entry": entry})
    return Removed(gone, cards, [*texts], [*facts], vectors)


def _named(
    *,
    cards: Sequence[str] = (),
    turns: Sequence[Place] = (),
    sessions: Sequence[str] = (),
    words: Sequence[str] = (),
    **_: Any,
) -> list[str]:
    return [*cards, *sessions, *words, *(f"{id}#{number}" for id, number in turns)]


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
    numbers: dict[str, list[int]] = {}
    for id, number in dict.fromkeys(turns):
        numbers.setdefault(id, []).append(number)
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
    for number in numbers:
        if not 1 <= number <= len(session.turns):
            raise NotInMemory(f"Session {session.id!r} has {len(session.turns)} turns.")
        if session.turn(number).forgotten:
            raise NotInMemory(f"Turn {session.id}#{number} was forgotten before.")
    named = [marks.mark(session, number) for number in numbers]
    gone = marks.find_marked(session, named).union(numbers)
    left = whole.without({*cards, *named})
    kept = {card.id for card in left.derived.cards}
    lost = {card.id for card in whole.derived.cards} - kept
    for id in lost.copy():  # earlier versions must not come back
        lost = lost.union(*(each.ids for each in corrections_of(id, whole.derived.corrections)))
    if words:
        turns = left.session.turns[: whole.done]
        said = [n for n, turn in enumerate(turns, 1) if not turn.forgotten]
        more = [marks.mark(session, number) for number in said]
        left = left.without(more, cards=False)
        named += more
        gone = gone.union(said)
    if about:
        left = replace(left, derived=_without_subjects(left.derived, about))
    return _Change(whole, left, [*named, *sorted(lost)], len(gone))


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


def _texts(whole: StoredSession) -> dict[str, None]:
    """Each text of its turns once, in order."""
    return {turn.text: None for turn in whole.session.turns if turn.text.strip()}
