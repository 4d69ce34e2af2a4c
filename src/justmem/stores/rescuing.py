"""What can still be read of a damaged file, brought into a new space.

The words decide. A session whose words are there is brought; where what was made of it is not
wholly sound, it waits, and `retry` makes it anew. What is gone is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, get_args

import numpy as np

from justmem.domain import Card, Kind, Passage, Rescued, Session, SessionState, Status
from justmem.errors import InvalidFile, StoreDamaged, StoreLocked
from justmem.ports import CopyableStore, Digested, Vectors, Whole
from justmem.stores import drivers, rows
from justmem.stores.damage import of_whole
from justmem.stores.pages import Pages, Row

_STATES = frozenset(map(str, SessionState))
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CARD_ID = re.compile(r"c[0-9a-f]{12}")
# Other indexes of a text and a number: cards by their ids, the settings of the index of words.
_NO_SESSION = re.compile(rf"{_CARD_ID.pattern}|version|pgsz|rank|hashsize|\w+merge")
_TURNS = re.compile(r"\d+( \d+)*")
_NONE = np.zeros((0, 0), np.float32)

Values = list[Any]


@dataclass
class Wreck:
    """The rows that were found, by the number of their session."""

    space: Values | None = None
    sessions: dict[int, Values] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    incoming: dict[int, Values] = field(default_factory=dict)
    cards: dict[int, dict[int, Values]] = field(default_factory=dict)
    card_chunks: dict[int, Values] = field(default_factory=dict)
    passage_chunks: dict[int, Values] = field(default_factory=dict)
    quarantine: dict[int, list[Values]] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    spending: dict[date, int] = field(default_factory=dict)
    named: dict[int, set[str]] = field(default_factory=dict)  # ids that an index knows of
    unreadable: int = 0

    @property
    def drops(self) -> bool:
        """Whether the space keeps cards without their words."""
        return self.space is not None and self.space[11:12] == ["drop"]


def read(path: Path) -> Wreck:
    try:
        if drivers.is_locked(path):
            raise StoreLocked(
                f"{path} is locked, and of a locked file no page can be read by itself: restore "
                "it from a copy. Without damage, `justmem export` reads it with its key."
            )
        pages = Pages(path)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read ({error.strerror}).") from None
    wreck = Wreck()
    for row in pages.rows():
        _sort(wreck, row)
    wreck.unreadable = pages.unreadable
    if not (wreck.sessions or wreck.texts or wreck.cards or wreck.space):
        raise InvalidFile(f"{path} holds nothing that could be read as a space of JustMem.")
    return wreck


def _sort(wreck: Wreck, row: Row) -> None:
    """Which table a row is from is told by its shape: the list of tables may be what is damaged."""
    key, values = row.key, list(row.values)
    match values:
        case [str(id)] if key is None:
            wreck.forgotten.add(id)
        case [str(id), int(number)] if key is None and not _NO_SESSION.fullmatch(id):
            wreck.named.setdefault(number, set()).add(id)
        case [str(day), int(tokens), int()] if key is None and _day(day):
            wreck.spending[date.fromisoformat(day)] = max(0, tokens)
        case _ if key is None:
            return
        case [None, str(turns)] if turns.startswith("[["):
            wreck.texts[key] = turns
        case [None, str(), str(), float() | int(), int(), str(digest), str(state), *_] if (
            len(values) >= 13 and state in _STATES and _DIGEST.fullmatch(digest)
        ):
            wreck.sessions[key] = values
        case [None, str(), float() | int(), str(digest), str(state), str(), int(), str(), *_] if (
            state in _STATES and _DIGEST.fullmatch(digest)
        ):
            wreck.incoming[key] = values
        case [None, str(), int(session), *_] if len(values) >= 13 and _is_card(values):
            wreck.cards.setdefault(session, {})[key] = values
        case [None, int(session), int(), bytes(), bytes() | None]:
            wreck.card_chunks[session] = values
        case [None, int(session), int(), bytes(), bytes(), bytes() | None]:
            wreck.passage_chunks[session] = values
        case [int(session), str(), str(), str()]:
            wreck.quarantine.setdefault(session, []).append(values)
        case [_, str(), str(), int(), int(), int(), int(), int(), int(), int(), int(), *_]:
            wreck.space = values


def _day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_card(values: Values) -> bool:
    words = (*values[3:6], *values[8:13])
    if not all(isinstance(word, str) for word in words):
        return False
    return (
        values[9] in get_args(Status)
        and values[10] in get_args(Kind)
        and _TURNS.fullmatch(values[12]) is not None
    )


# ---------------------------------------------------------------- into a new space


@dataclass
class _Sorted:
    """Sessions to bring, and what has to be said of the others."""

    wholes: list[Whole] = field(default_factory=list)
    anew: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)


def name_of(wreck: Wreck, path: Path) -> str:
    """As the file says, or as it is called."""
    return str(wreck.space[1]) if wreck.space else path.name.partition(".")[0]


async def rescue(wreck: Wreck, target: CopyableStore) -> Rescued:
    """Into a space that is empty."""
    embedder, dim = (wreck.space[2], wreck.space[3]) if wreck.space else ("", 0)
    if embedder and dim:
        await target.store.bind(embedder, dim)
    if wreck.drops:
        await target.store.drop_sources(fresh=True)
    found = _sorted(wreck, dim)
    await target.take(found.wholes)
    await target.take_forgotten(sorted(wreck.forgotten))
    for day, tokens in wreck.spending.items():
        if tokens:
            await target.store.spend(day, tokens)
    return Rescued(
        space=target.store.space,
        sessions=len(found.wholes),
        turns=sum(len(whole.session.turns) for whole in found.wholes),
        cards=sum(len(whole.digested.cards) for whole in found.wholes),
        anew=tuple(found.anew),
        doubtful=tuple(found.doubtful),
        lost=tuple(found.lost),
        loose=tuple(found.loose),
        unreadable=wreck.unreadable,
    )


def _sorted(wreck: Wreck, dim: int) -> _Sorted:
    found = _Sorted()
    for key in sorted({*wreck.sessions, *wreck.texts, *wreck.cards}):
        if wreck.drops and (dropped := _dropped(wreck, key, dim)):
            found.wholes.append(dropped)
            continue
        session = _session(wreck, key)
        record = wreck.sessions.get(key)
        if session is None:
            found.lost.append(str(record[1]) if record else f"number {key}")
            found.loose += [f"{v[3]} {v[4]}" for v in wreck.cards.get(key, {}).values()]
            continue
        # The digest does not cover the id: an index may know it better.
        named = session.id in wreck.named.get(key, {session.id})
        sound = record is not None and session.digest == record[5] and named
        if not sound:
            found.doubtful.append(session.id)
        whole = _whole(wreck, key, session, dim) if sound else None
        if whole is None:
            found.anew.append(session.id)
            whole = Whole(session, Digested(SessionState.PENDING))
        found.wholes.append(whole)
    known = {str(record[1]) for record in wreck.sessions.values()}
    elsewhere = {id for key, ids in wreck.named.items() if key not in wreck.sessions for id in ids}
    found.lost += sorted(elsewhere - known)
    return found


def _session(wreck: Wreck, key: int) -> Session | None:
    """None if its words or their time cannot be read."""
    record = wreck.sessions.get(key)
    try:
        turns = rows.turns_of(wreck.texts.get(key, ""))
        at = datetime.fromisoformat(record[2]) if record else _when(wreck, key)
    except (StoreDamaged, ValueError):
        return None
    if not turns or at is None:
        return None
    return Session(id=str(record[1]) if record else f"rescued-{key}", at=at, turns=turns)


def _when(wreck: Wreck, key: int) -> datetime | None:
    """The time of a session whose row is gone, by what was made of it."""
    for values in wreck.cards.get(key, {}).values():
        return datetime.fromisoformat(values[11])
    for chunks in (wreck.passage_chunks, wreck.card_chunks):
        if key in chunks:
            return datetime.combine(date.fromordinal(chunks[key][2]), time())
    return None


def _dropped(wreck: Wreck, key: int, dim: int) -> Whole | None:
    """A session whose words were not kept; None if it is another, or not wholly sound."""
    record = wreck.sessions.get(key)
    if record is None or key in wreck.texts:
        return None
    try:
        at = datetime.fromisoformat(record[2])
    except ValueError:
        return None
    bare = Session(id=str(record[1]), at=at, turns=())
    whole = _whole(wreck, key, bare, dim)
    return whole if whole and whole.dropped else None


def _whole(wreck: Wreck, key: int, session: Session, dim: int) -> Whole | None:
    """None if anything of what was made of its words is missing or unsound."""
    record = wreck.sessions[key]
    state = SessionState(record[6])
    waiting, failure = _waiting(wreck, key, session.id)
    if state not in (SessionState.STORED, SessionState.EMPTY):
        return Whole(session, Digested(state, reason=str(record[7])))
    try:
        cards = _cards(wreck, key, session)
        passages, passage_vectors = _passages(wreck, key, session)
        made = Digested(
            state=state,
            cards=cards,
            card_vectors=_packed(wreck.card_chunks.get(key), 4, len(cards)),
            passages=passages,
            passage_vectors=passage_vectors,
            quarantined=[rows.quarantined_of(v[1:]) for v in wreck.quarantine.get(key, [])],
            tokens=int(record[11]),
            card_tokens=int(record[12]),
        )
    except (StoreDamaged, ValueError, TypeError):
        return None
    whole = Whole(session, made, waiting, failure)
    if not session.turns:
        whole = replace(whole, dropped=(record[5], record[8]))
    counted = (len(made.cards), len(made.quarantined)) == (record[9], record[10])
    unsound = any(of_whole(whole, record[5], waiting.digest if waiting else None, dim))
    return whole if counted and not unsound else None


def _waiting(wreck: Wreck, key: int, id: str) -> tuple[Session | None, str]:
    changed = wreck.incoming.get(key)
    if changed is None:
        return None, ""
    try:
        session = rows.session_of(id, changed[1], changed[7], changed[3])
    except (StoreDamaged, ValueError):
        return None, ""
    return session, str(changed[5]) if changed[4] == SessionState.FAILED else ""


def _cards(wreck: Wreck, key: int, session: Session) -> list[Card]:
    found = wreck.cards.get(key, {})
    if chunk := wreck.card_chunks.get(key):
        keys = np.frombuffer(chunk[3], np.int64).tolist()
    else:
        keys = []
    if keys != sorted(found):
        raise StoreDamaged("The vectors of a session are not those of its cards.")
    if not all(_as_stored(number, values) for number, values in found.items()):
        raise StoreDamaged("A card is not what was stored.")
    made = [rows.card_of((number, v[1], session.id, *v[3:13])) for number, v in _inorder(found)]
    if any(card.id in wreck.forgotten for card in made):
        raise StoreDamaged("A card is there that was forgotten.")
    return made


def _as_stored(number: int, values: Values) -> bool:
    mark = values[13] if len(values) > 13 else ""  # a card from before there were marks has none
    return not mark or rows.card_mark([number, *values[1:13]]) == mark


def _inorder(found: dict[int, Values]) -> Iterable[tuple[int, Values]]:
    return sorted(found.items())


def _passages(wreck: Wreck, key: int, session: Session) -> tuple[list[Passage], Vectors]:
    chunk = wreck.passage_chunks.get(key)
    if chunk is None:
        if any(turn.text.strip() for turn in session.turns):
            raise StoreDamaged("The passages of a session are gone.")
        return [], _NONE
    passages = [
        Passage(session_id=session.id, turn=turn, start=start, end=end)
        for turn, start, end in rows.spans_of(chunk[4]).tolist()
    ]
    return passages, _packed(chunk, 5, len(passages))


def _packed(chunk: Values | None, place: int, count: int) -> Vectors:
    if chunk is None or chunk[place] is None or not count:
        return _NONE
    rows.check_packed(chunk[place], 4 * count)
    return np.frombuffer(chunk[place], np.float32).reshape(count, -1)
