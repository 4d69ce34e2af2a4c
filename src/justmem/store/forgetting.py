"""Forgets cards, turns, sessions, words and labels. Each function runs inside the caller's
transaction.

`StoredSession.without` computes what is left of a session, which is then written. A forgotten
turn keeps its number and its speaker, and loses its words. A mark (a hash) of it stays, so that the
words are removed again if the session is remembered again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from justmem.domain import Card, Forgotten, Quarantined, corrections_of, marks
from justmem.errors import NotInMemory
from justmem.ports import Derived, Place, Removed, StoredSession
from justmem.store import log, reads, rows
from justmem.store.derived import put_derived
from justmem.store.engine import Connection
from justmem.store.writes import put_turns, remember_forgotten


@dataclass(frozen=True, slots=True)
class _Change:
    """What forgetting does to one session."""

    before: StoredSession
    after: StoredSession | None  # None: nothing is left
    ids: Sequence[str]  # of cards and marks of turns and labels that stay forgotten
    turns: int  # how many are forgotten
    labels: Sequence[str]  # their names

    @property
    def removed(self) -> Removed:
        """What is in the session before, and not after."""
        made, after = self.before.derived, self.after
        left = after.derived if after else Derived(made.state)
        ids, spans = {card.id for card in left.cards}, set(left.passages)
        gone = [n for n, card in enumerate(made.cards) if card.id not in ids]
        passages = [n for n, passage in enumerate(made.passages) if passage not in spans]
        held = [each for each in made.quarantined if each not in left.quarantined]
        undone = [each for each in made.corrections if each not in left.corrections]
        earlier = [card for each in undone for card in (each.before, each.after)]
        lost = made.select(gone, passages)
        stated: list[Card | Quarantined] = [*lost.cards, *earlier, *held]
        said = {turn.text for turn in after.session.turns} if after else set()
        counts = Forgotten(
            cards=len(gone),
            sessions=int(after is None),
            turns=self.turns,
            quarantined=len(made.quarantined) - len(left.quarantined),
            labels=len(self.labels),
        )
        texts = [turn.text for turn in self.before.session.turns]
        texts += [self.before.session.labels[name] for name in self.labels]
        return Removed(
            counts,
            lost.cards,
            [text for text in texts if text.strip() and text not in said],
            [(each.subject, each.fact) for each in stated],
            [each for each in (lost.card_vectors, lost.passage_vectors) if len(each)],
        )

    def write(self, db: Connection) -> None:
        remember_forgotten(db, self.ids)
        before, after = self.before.session, self.after
        left = after.derived if after else Derived(self.before.derived.state)
        put_derived(db, after.session if after else before, left)
        if after is None or before.digest != after.session.digest:
            db.delete("turns", session=before.id)
        if after is None:
            db.delete("sessions", id=before.id)
        elif before.digest != after.session.digest:
            put_turns(db, after.session)
            db.update("sessions", {"digest": after.session.digest}, id=before.id)
        if after is not None and self.labels:
            db.update("sessions", {"labels": rows.labels_row(after.session.labels)}, id=before.id)


def forget(db: Connection, *, dry_run: bool = False, **what: Any) -> Removed:
    counts, parts = Counter[str](), list[Removed]()
    for change in _changes(db, **what):
        parts.append(change.removed)
        counts.update(log.forgotten(parts[-1].forgotten))
        if not dry_run:
            change.write(db)
    gone = Forgotten(**counts)
    if counts and not dry_run:
        db.update("spaces", {"unswept": 1})
        entry = log.add(db, "forget", _named(**what), **counts)
        gone = gone.model_copy(update={"entry": entry})
    return Removed(
        gone,
        [card for part in parts for card in part.cards],
        [*dict.fromkeys(text for part in parts for text in part.texts)],
        [*dict.fromkeys(fact for part in parts for fact in part.facts)],
        [matrix for part in parts for matrix in part.vectors],
    )


def _named(
    cards: Sequence[str] = (),
    turns: Sequence[Place] = (),
    sessions: Sequence[str] = (),
    words: Sequence[str] = (),
    **_: Any,
) -> list[str]:
    return [*cards, *sessions, *words, *(f"{id}#{number}" for id, number in turns)]


def last_entry(db: Connection) -> Forgotten:
    """Counts everything. The log is erased too, so its last entry is returned."""
    sums = "sum(cards), count(*), sum(turns), sum(quarantined)"
    (counts,) = db.select(sums, "sessions")
    names = ("cards", "sessions", "turns", "quarantined")
    gone = Forgotten(**{name: int(n or 0) for name, n in zip(names, counts, strict=True)})
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
    labels: Sequence[tuple[str, str]] = (),
    everything: bool = False,
) -> Iterator[_Change]:
    """In order of time."""
    of_cards: dict[str, str] = dict(db.among("id, session", "cards", "id", cards))
    numbers: dict[str, list[int]] = {}
    for id, number in dict.fromkeys(turns):
        numbers.setdefault(id, []).append(number)
    names: dict[str, list[str]] = {}
    for id, name in labels:
        names.setdefault(id, []).append(name)
    about = {subject.casefold() for subject in subjects}
    named = {*of_cards.values(), *numbers, *sessions, *words, *names}
    records = reads.sessions(db)
    missing = [f"card {id!r}" for id in cards if id not in of_cards]
    missing += [f"session {id!r}" for id in sorted(named - {record.id for record in records})]
    if missing:
        raise NotInMemory(f"There is no {missing[0]} in this space.")
    ids = [
        each.id
        for each in records
        if everything
        or each.id in named
        or (about and (each.quarantined or not each.state.finished))
    ]
    for whole in reads.each_whole_session(db, ids):
        id = whole.session.id
        own = [card for card, session in of_cards.items() if session == id]
        change = _change(whole, own, numbers.get(id, ()), about, words=id in words)
        if id in names:
            change = _without_labels(change, names[id])
        if everything or id in sessions:
            change = replace(change, after=None, turns=len(whole.session.turns))
        yield change


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
    return _Change(whole, left, [*named, *sorted(lost)], len(gone), ())


def _without_labels(change: _Change, names: Collection[str]) -> _Change:
    """`change`, which keeps the session, and these labels of it forgotten."""
    before, after = change.before.session, change.after
    gone = [name for name in names if name in before.labels]
    if after is not None:
        after = replace(after, session=after.session.without_labels(gone))
    ids = [*change.ids, *(marks.label_mark(before, name) for name in gone)]
    return replace(change, after=after, ids=ids, labels=gone)


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
