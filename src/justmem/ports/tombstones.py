"""Marks of forgotten turns. A store keeps them, and the ids of forgotten cards.

A mark consists of a hash of the session's id, a hash of the turn's words, and the turn's number.
It recognises the turn when its session is remembered again, also at another place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from justmem.domain import Card, Correction, Session
from justmem.errors import NotInMemory
from justmem.ports.searches import Place
from justmem.ports.store import Derived, StoredSession
from justmem.ports.vectors import Vectors
from justmem.runtime import tokens

FORGOTTEN_SINCE = "a turn of it was forgotten since"  # replaces a reason that may quote the turn


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


_PREFIX = 17  # characters


def prefix(session_id: str) -> str:
    """The start of all marks of a session."""
    return "t" + _hash(session_id)


def prefix_of(id: str) -> str:
    """The session's part of a mark; empty for the id of a card."""
    return id[:_PREFIX] if "." in id else ""


def _words(session_id: str, text: str) -> str:
    """The words' part of a mark. Spaces and capitals do not matter."""
    return prefix(session_id) + _hash(f"{session_id}\0{' '.join(text.split()).casefold()}")


def mark(session: Session, number: int) -> str:
    return f"{_words(session.id, session.turn(number).text)}.{number}"


def find_marked(session: Session, marks: Iterable[str]) -> set[int]:
    """Numbers of the turns that the marks stand for. A moved turn is recognised by its words. If
    several turns have these words, all of them count."""
    hashes = [
        "" if turn.forgotten else _words(session.id, turn.text) if turn.text.strip() else ""
        for turn in session.turns
    ]
    gone: set[int] = set()
    for each in marks:
        words, _, place = each.rpartition(".")
        number = int(place)
        if number <= len(hashes) and session.turn(number).forgotten:
            continue
        if number <= len(hashes) and hashes[number - 1] == words:
            gone.add(number)
        else:
            gone |= {n for n, own in enumerate(hashes, 1) if own == words}
    return gone


def by_session(places: Iterable[Place]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for session_id, number in dict.fromkeys(places):
        numbers.setdefault(session_id, []).append(number)
    return numbers


def check_turns(session: Session, numbers: Iterable[int]) -> None:
    for number in numbers:
        if not 1 <= number <= len(session.turns):
            raise NotInMemory(f"Session {session.id!r} has {len(session.turns)} turns.")
        if session.turn(number).forgotten:
            raise NotInMemory(f"Turn {session.id}#{number} was forgotten before.")


def remove_marked(session: Session, marks: Collection[str]) -> Session:
    return session.without(find_marked(session, marks)) if marks else session


def remove_forgotten(
    whole: StoredSession, forgotten: Collection[str], *, cards: bool = True
) -> StoredSession:
    """The session without its forgotten cards and turns, and without what rests on those turns.
    It is unknown which turns quarantined cards rest on, so all of them go with a turn. `cards`
    False: cards stay when their turns go."""
    marks = [each for each in forgotten if each.startswith(prefix(whole.session.id))]
    gone, made = find_marked(whole.session, marks), whole.derived
    lost = gone if cards else set()
    stay = [
        n
        for n, card in enumerate(made.cards)
        if card.id not in forgotten and lost.isdisjoint(card.turns)
    ]
    if not gone and len(stay) == len(made.cards):
        return whole
    session = whole.session.without(gone)
    passages = [n for n, passage in enumerate(made.passages) if passage.turn not in gone]
    left = select(made, stay, passages)
    removed = [card for n, card in enumerate(made.cards) if n not in stay]
    facts = {(card.subject, card.fact) for card in removed}
    ids = {card.id for card in removed}
    undone = {
        each.original
        for each in made.corrections
        if ids & each.ids or lost & find_marked(whole.session, each.marks)
    }
    return replace(
        whole,
        session=session,
        derived=replace(
            left,
            reason=FORGOTTEN_SINCE if gone and made.reason else made.reason,
            quarantined=[
                held
                for held in made.quarantined
                if not lost and (held.subject, held.fact) not in facts
            ],
            corrections=[each for each in made.corrections if each.original not in undone],
            tokens=min(made.tokens, tokens.count_session(session)) if gone else made.tokens,
        ),
    )


def select(made: Derived, cards: Sequence[int], passages: Sequence[int]) -> Derived:
    """Only the cards and passages at these places."""
    return replace(
        made,
        cards=[made.cards[n] for n in cards],
        card_vectors=_select_rows(made.card_vectors, cards),
        passages=[made.passages[n] for n in passages],
        passage_vectors=_select_rows(made.passage_vectors, passages),
        card_tokens=made.card_tokens * len(cards) // max(1, len(made.cards)),
    )


def living(corrections: Iterable[Correction], cards: Iterable[Card]) -> list[Correction]:
    """The corrections of cards that are there."""
    known, ids = list(corrections), {card.id for card in cards}
    there = {each.original for each in known if not ids.isdisjoint(each.ids)}
    return [each for each in known if each.original in there]


def _select_rows(vectors: Vectors, places: Sequence[int]) -> Vectors:
    return vectors[[*places]] if len(vectors) else vectors
