"""The file of an export, read and checked: what it holds, or why it cannot be taken in."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, BinaryIO

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from justmem.domain import (
    Card,
    Passage,
    Quarantined,
    Session,
    SessionState,
    Turn,
)
from justmem.errors import InvalidFile
from justmem.ports import Digested, Vectors, Whole
from justmem.transfer.exporting import VERSION, counted

_NONE = np.zeros((0, 0), np.float32)


# ---------------------------------------------------------------- the lines


Count = Annotated[int, Field(ge=0, le=2**53)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Head(_Line):
    justmem: int
    space: str
    made: str
    embedder: str
    dim: Count
    vectors: bool
    sessions: Count
    cards: Count


class _Said(_Line):
    id: str
    at: datetime
    turns: tuple[Turn, ...] = Field(min_length=1)

    @property
    def session(self) -> Session:
        return Session(id=self.id, at=self.at, turns=self.turns)


class _Waiting(_Said):
    failure: str


class _Packed(_Line):
    cards: str
    passages: str


class _Session(_Said):
    state: SessionState
    reason: str
    tokens: Count
    card_tokens: Count
    cards: tuple[Card, ...]
    passages: tuple[tuple[int, int, int], ...]
    quarantined: tuple[Quarantined, ...]
    waiting: _Waiting | None = None
    vectors: _Packed | None = None


class _Forgotten(_Line):
    ids: tuple[str, ...]


class _Spending(_Line):
    day: date
    tokens: Count


_KINDS: dict[str, type[BaseModel]] = {
    "export": Head,
    "session": _Session,
    "forgotten": _Forgotten,
    "spending": _Spending,
}


# ---------------------------------------------------------------- reading and checking


@dataclass
class Contents:
    """What a checked file holds, without its words."""

    head: Head
    sessions: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # by id: see `mark`
    forgotten: list[str] = field(default_factory=list)
    spending: list[tuple[date, int]] = field(default_factory=list)
    digest: str = ""


def check(file: BinaryIO, name: str) -> Contents:
    """Reads it whole. InvalidFile, with the line, if it is not a complete export."""
    digest, counts, contents = hashlib.sha256(), Counter[str](), None
    for number, raw in enumerate(file, 1):
        value = _parsed(raw, number, name)
        if contents is not None and value.get("is") == "end":
            _check_end(value, counts, digest.hexdigest(), name)
            if file.read(1):
                raise InvalidFile(f"{name} goes on after its last line: it is two files in one.")
            contents.digest = digest.hexdigest()
            return contents
        digest.update(raw)
        line = _line(value, number, name)
        counts.update(counted(value))
        if contents is None:
            assert isinstance(line, Head)
            contents = Contents(line)
        else:
            _take_in(contents, line, number, name)
    if contents is None:
        raise InvalidFile(f"{name} is empty: it is no export of a memory.")
    raise InvalidFile(
        f"{name} is cut short: its last line is missing. Export again, or copy the file again. "
        "Nothing was stored."
    )


def _parsed(raw: bytes, number: int, name: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is no text
    except (ValueError, RecursionError):
        if number == 1:
            raise InvalidFile(f"{name} is no export of a memory: it is not JSON Lines.") from None
        raise _damaged(name, number, "it is not JSON") from None
    if not isinstance(value, dict):
        raise _damaged(name, number, "it is no object")
    if number == 1:
        _check_version(value, name)
    return value


def _check_version(value: dict[str, Any], name: str) -> None:
    version = value.get("justmem")
    if value.get("is") != "export" or not isinstance(version, int):
        raise InvalidFile(
            f"{name} is no export of a memory: its first line does not say so. Conversations of "
            "other programs are taken in by `justmem remember`."
        )
    if version > VERSION:
        raise InvalidFile(
            f"{name} was written by a newer JustMem (version {version} of the format, this one "
            f"knows {VERSION}): upgrade JustMem to load it."
        )


def _line(value: dict[str, Any], number: int, name: str) -> BaseModel:
    kind = value.get("is")
    if kind not in _KINDS or (kind == "export") != (number == 1):
        raise _damaged(name, number, f"{str(kind)[:40]!r} is no kind of line that belongs there")
    try:
        return _KINDS[kind].model_validate({k: v for k, v in value.items() if k != "is"})
    except (ValidationError, OverflowError) as error:
        place = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ()
        raise _damaged(name, number, f"{'.'.join(map(str, place))} does not fit") from None


def _damaged(name: str, number: int, why: str) -> InvalidFile:
    return InvalidFile(
        f"{name} is damaged at line {number} ({why}): export again, or copy the file again. "
        "Nothing was stored."
    )


def _check_end(end: dict[str, Any], counts: Counter[str], digest: str, name: str) -> None:
    said = {key: value for key, value in end.items() if key not in ("is", "sha256")}
    if end.get("sha256") != digest or any(counts[key] != value for key, value in said.items()):
        raise InvalidFile(
            f"{name} is not as it was written: its sums do not agree with its last line. Export "
            "again, or copy the file again. Nothing was stored."
        )


def _take_in(contents: Contents, line: BaseModel, number: int, name: str) -> None:
    match line:
        case _Session():
            if line.id in contents.sessions:
                raise _damaged(name, number, "this session came before")
            try:
                contents.sessions[line.id] = mark(whole_of(line, contents.head.dim))
            except ValueError as error:
                raise _damaged(name, number, str(error)) from None
        case _Forgotten():
            contents.forgotten += line.ids
        case _Spending():
            contents.spending.append((line.day, line.tokens))


# ---------------------------------------------------------------- sessions


def whole_of(line: _Session, dim: int) -> Whole:
    """ValueError, with the reason, for what no memory could hold."""
    session = line.session
    settled = line.state.settled
    if any("\0" in id for id in (line.id, *(card.id for card in line.cards))):
        raise ValueError("an id holds a NUL character")
    if not settled and (line.cards or line.passages or line.quarantined):
        raise ValueError(f"a session that is {line.state} has no cards yet")
    for card in line.cards:
        if card.session_id != line.id or not card.turns:
            raise ValueError(f"the card {card.id[:40]} rests on no turn of its session")
        if not 1 <= min(card.turns) <= max(card.turns) <= len(session.turns):
            raise ValueError(f"the card {card.id[:40]} rests on a turn that is not there")
    if len({card.id for card in line.cards}) < len(line.cards):
        raise ValueError("two cards share an id")
    if line.waiting is not None and line.waiting.id != line.id:
        raise ValueError("what waits is another session")
    packed = line.vectors or _Packed(cards="", passages="")
    return Whole(
        session=session,
        digested=Digested(
            state=line.state,
            reason=line.reason,
            cards=line.cards,
            card_vectors=_vectors(packed.cards, len(line.cards), dim),
            passages=[_passage(session, *place) for place in line.passages],
            passage_vectors=_vectors(packed.passages, len(line.passages), dim),
            quarantined=line.quarantined,
            tokens=line.tokens,
            card_tokens=line.card_tokens,
        ),
        waiting=line.waiting.session if line.waiting else None,
        failure=line.waiting.failure if line.waiting else "",
    )


def _passage(session: Session, turn: int, start: int, end: int) -> Passage:
    inside = 1 <= turn <= len(session.turns)
    if not inside or not 0 <= start < end <= len(session.turn(turn).text):
        raise ValueError(f"the passage {turn}, {start}, {end} is not in the text")
    return Passage(session_id=session.id, turn=turn, start=start, end=end)


def _vectors(packed: str, count: int, dim: int) -> Vectors:
    try:
        raw = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("its vectors cannot be read") from None
    if not raw:
        return _NONE
    if not dim or len(raw) != 4 * count * dim:
        raise ValueError("its vectors are not one for each text")
    vectors = np.frombuffer(raw, "<f4").astype(np.float32).reshape(count, dim)
    if not np.isfinite(vectors).all():
        raise ValueError("its vectors hold what is no number")
    return vectors


def mark(whole: Whole) -> tuple[Any, ...]:
    """What tells whether a session is here already: as the store would list it."""
    made, newest = whole.digested, whole.waiting or whole.session
    state = made.state
    if whole.waiting is not None:
        state = SessionState.FAILED if whole.failure else SessionState.PENDING
    return newest.digest, state, len(made.quarantined), made.tokens, [c.id for c in made.cards]


def sessions(file: BinaryIO, dim: int) -> Iterator[Whole]:
    """Of a file that was checked."""
    for raw in file:
        value = json.loads(raw)
        if value["is"] == "session":
            del value["is"]
            yield whole_of(_Session.model_validate(value), dim)
