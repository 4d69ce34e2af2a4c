"""What cannot be right about a session, whatever store it is in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from justmem.domain import Damage, Passage, Session, SessionState
from justmem.ports import Vectors, Whole

RESTORE = "restore it from a backup"
AGAIN = "forget that session and remember it again, or restore the space from a backup"
REEMBED = "run `justmem reembed`"
_MOST = 50  # more of them tell no more
_NOT_ONE = 0.01  # how far from 1 a vector's length may be, for rounding


def damaged(what: str, fix: str) -> Damage:
    return Damage(what=what, fix=fix)


def of_whole(whole: Whole, digest: str, waiting_digest: str | None, dim: int) -> Iterator[Damage]:
    """`digest`, `waiting_digest`: as the store recorded them when the words came in."""
    session, made = whole.session, whole.digested
    name = f"session {session.id!r}"
    if session.digest != digest:
        yield damaged(f"the words of {name} are not those that were stored", AGAIN)
    if whole.waiting is not None and whole.waiting.digest != waiting_digest:
        yield damaged(f"the changed words of {name} are not those that were stored", AGAIN)
    if made.state not in (SessionState.STORED, SessionState.EMPTY) and (
        made.cards or made.passages or made.quarantined
    ):
        yield damaged(f"{name} is {made.state}, but has cards or passages", AGAIN)
    turns = len(session.turns)
    for card in made.cards:
        if not card.turns or not all(1 <= turn <= turns for turn in card.turns):
            yield damaged(f"card {card.id} of {name} rests on turns that are not there", AGAIN)
    if any(not _within(passage, session) for passage in made.passages):
        yield damaged(f"passages of {name} lie outside its turns", AGAIN)
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
            yield damaged(f"the {what} have no vectors", REEMBED)
        return
    if rows.shape != (len(items), dim):
        yield damaged(f"the {what} do not have a vector of {dim} dimensions each", REEMBED)
        return
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not (np.abs(lengths - 1) < _NOT_ONE).all():
        yield damaged(f"the {what} have vectors that are not of length one", REEMBED)


def shortened(found: Iterator[Damage]) -> tuple[Damage, ...]:
    kept = list(found)
    left = len(kept) - _MOST
    if left > 0:
        kept[_MOST:] = [damaged(f"and {left:,} more", RESTORE)]
    return tuple(kept)
