"""Marks of turns that were forgotten on their own, beside the ids of such cards.

A mark is a hash of the session's id, one of the turn's words, and its number: none of the words
stay. It tells the turn when its session comes again, though it may have moved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from justmem.domain import Session
from justmem.errors import NotInMemory
from justmem.ports.searches import Place
from justmem.ports.store import Whole
from justmem.ports.vectors import Vectors
from justmem.runtime import tokens

FORGOTTEN_SINCE = "a turn of it was forgotten since"  # in the place of a reason that may quote it


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


_PREFIX = 17  # characters


def prefix(session_id: str) -> str:
    """What the marks of a session begin with."""
    return "t" + _hash(session_id)


def prefix_of(id: str) -> str:
    """Of a mark; empty for the id of a card."""
    return id[:_PREFIX] if "." in id else ""


def _words(session_id: str, text: str) -> str:
    """A turn that comes back with other spaces or capitals is the same turn."""
    return prefix(session_id) + _hash(f"{session_id}\0{' '.join(text.split()).casefold()}")


def mark(session: Session, number: int) -> str:
    return f"{_words(session.id, session.turn(number).text)}.{number}"


def find_marked(session: Session, marks: Iterable[str]) -> set[int]:
    """Numbers of the turns that the marks mean. One that has moved is known by its words; where
    several say the same, all of them are meant."""
    said = [
        "" if turn.forgotten else _words(session.id, turn.text) if turn.text.strip() else ""
        for turn in session.turns
    ]
    gone: set[int] = set()
    for each in marks:
        words, _, place = each.rpartition(".")
        number = int(place)
        if number <= len(said) and session.turn(number).forgotten:
            continue
        if number <= len(said) and said[number - 1] == words:
            gone.add(number)
        else:
            gone |= {n for n, own in enumerate(said, 1) if own == words}
    return gone


def by_session(places: Iterable[Place]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for session_id, number in dict.fromkeys(places):
        numbers.setdefault(session_id, []).append(number)
    return numbers


def find_turns(
    current: Session, waiting: Session | None, numbers: Iterable[int]
) -> Iterator[tuple[Session, int]]:
    """The text in which each number counts: the current one, or for a turn that is only in a
    changed text, the one that waits."""
    for number in numbers:
        for text in (current, waiting):
            if text is not None and 1 <= number <= len(text.turns):
                if text.turn(number).forgotten:
                    raise NotInMemory(f"Turn {current.id}#{number} was forgotten before.")
                yield text, number
                break
        else:
            raise NotInMemory(f"Session {current.id!r} has {len(current.turns)} turns.")


def remove_marked(session: Session, marks: Collection[str]) -> Session:
    return session.without(find_marked(session, marks)) if marks else session


def remove_forgotten(whole: Whole, forgotten: Collection[str]) -> Whole:
    """Without what was forgotten of it: its cards, and turns with all that rests on them."""
    own = [each for each in forgotten if each.startswith(prefix(whole.session.id))]
    gone, made = find_marked(whole.session, own), whole.digested
    cards = [
        n
        for n, card in enumerate(made.cards)
        if card.id not in forgotten and gone.isdisjoint(card.turns)
    ]
    passages = [n for n, passage in enumerate(made.passages) if passage.turn not in gone]
    if not gone and len(cards) == len(made.cards) and whole.waiting is None:
        return whole
    session = whole.session.without(gone)
    return replace(
        whole,
        session=session,
        waiting=whole.waiting and remove_marked(whole.waiting, own),
        digested=replace(
            made,
            cards=[made.cards[n] for n in cards],
            card_vectors=_select_rows(made.card_vectors, cards),
            passages=[made.passages[n] for n in passages],
            passage_vectors=_select_rows(made.passage_vectors, passages),
            quarantined=() if gone else made.quarantined,
            tokens=min(made.tokens, tokens.count_session(session)) if gone else made.tokens,
        ),
    )


def _select_rows(vectors: Vectors, places: list[int]) -> Vectors:
    return vectors[places] if len(vectors) else vectors
