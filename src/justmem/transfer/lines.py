"""The lines of an export: JSON, one line for each session (docs/export.md).

What changes them changes VERSION. A session has the same form in an export, in a copy and when two
stores are compared.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, BinaryIO

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from justmem.domain import Card, Passage, Quarantined, Session, SessionState, Turn, dump
from justmem.errors import InvalidFile
from justmem.ports import Digested, Vectors, Whole

VERSION = 1
_COUNTED = ("sessions", "turns", "cards", "quarantined", "forgotten", "days")
_NONE = np.zeros((0, 0), np.float32)
# What a terminal would obey, and what some programs take for the end of a line: escaped.
_OBEYED = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Sums:
    """What the last line says of those before it."""

    def __init__(self) -> None:
        self._digest, self._counts = hashlib.sha256(), Counter[str]()

    def add(self, value: Mapping[str, Any], raw: bytes) -> None:
        self._digest.update(raw)
        self._counts.update(_counted(value))

    @property
    def end(self) -> dict[str, Any]:
        counts = {name: self._counts[name] for name in _COUNTED}
        return {"is": "end", **counts, "sha256": self._digest.hexdigest()}


def line_of(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def _counted(value: Mapping[str, Any]) -> dict[str, int]:
    """What a line adds to the counts of the last one."""
    match value["is"]:
        case "session":
            held = {name: len(value[name]) for name in ("turns", "cards", "quarantined")}
            return {"sessions": 1, **held}
        case "forgotten":
            return {"forgotten": len(value["ids"])}
        case "spending":
            return {"days": 1}
    return {}


def session_line(whole: Whole, *, vectors: bool) -> dict[str, Any]:
    made = whole.digested
    line: dict[str, Any] = {
        "is": "session",
        **_said(whole.session),
        "state": str(made.state),
        "reason": made.reason,
        "tokens": made.tokens,
        "card_tokens": made.card_tokens,
        "cards": [dump(card) for card in made.cards],
        "passages": [[p.turn, p.start, p.end] for p in made.passages],
        "quarantined": [dump(held) for held in made.quarantined],
    }
    if whole.waiting is not None:
        line["waiting"] = {**_said(whole.waiting), "failure": whole.failure}
    if vectors and made.card_vectors.size + made.passage_vectors.size:
        packed = map(_packed, (made.card_vectors, made.passage_vectors))
        line["vectors"] = dict(zip(("cards", "passages"), packed, strict=True))
    return line


def _said(session: Session) -> dict[str, Any]:
    turns = [_turn(turn) for turn in session.turns]
    said: dict[str, Any] = {"id": session.id, "at": session.at.isoformat(), "turns": turns}
    if session.labels:
        said["labels"] = dict(session.labels)
    if session.until is not None:
        said["until"] = session.until.isoformat()
    return said


def _turn(turn: Turn) -> dict[str, Any]:
    said: dict[str, Any] = {"speaker": turn.speaker, "role": turn.role, "text": turn.text}
    if turn.forgotten:
        said["forgotten"] = True
    if turn.key is not None:
        said["key"] = turn.key
    return {**said, "at": turn.at.isoformat()} if turn.at else said


def _packed(vectors: Vectors) -> str:
    return base64.b64encode(np.ascontiguousarray(vectors, "<f4").tobytes()).decode()


# ---------------------------------------------------------------- reading

Count = Annotated[int, Field(ge=0, le=2**53)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Head(_Line):
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
    labels: dict[str, str] = Field(default_factory=dict)
    until: datetime | None = None

    @property
    def session(self) -> Session:
        return Session(
            id=self.id, at=self.at, turns=self.turns, labels=self.labels, until=self.until
        )


class _Waiting(_Said):
    failure: str


class _Packed(_Line):
    cards: str = ""
    passages: str = ""


class _Session(_Said):
    state: SessionState
    reason: str
    tokens: Count
    card_tokens: Count
    cards: tuple[Card, ...]
    passages: tuple[tuple[int, int, int], ...]
    quarantined: tuple[Quarantined, ...]
    waiting: _Waiting | None = None
    vectors: _Packed = _Packed()

    def whole(self, dim: int) -> Whole:
        """ValueError, with the reason, for what no memory could hold."""
        session, count = self.session, len(self.turns)
        if any("\0" in id for id in (self.id, *(card.id for card in self.cards))):
            raise ValueError("an id holds a NUL character")
        if not self.state.settled and (self.cards or self.passages or self.quarantined):
            raise ValueError(f"a session that is {self.state} has no cards yet")
        for card in self.cards:
            if card.session_id != self.id or not card.turns:
                raise ValueError(f"the card {card.id[:40]} rests on no turn of its session")
            if not 1 <= min(card.turns) <= max(card.turns) <= count:
                raise ValueError(f"the card {card.id[:40]} rests on a turn that is not there")
        if len({card.id for card in self.cards}) < len(self.cards):
            raise ValueError("two cards share an id")
        if self.waiting is not None and self.waiting.id != self.id:
            raise ValueError("what waits is another session")
        for turn, start, end in self.passages:
            if not 1 <= turn <= count or not 0 <= start < end <= len(session.turn(turn).text):
                raise ValueError(f"the passage {turn}, {start}, {end} is not in the text")
        digested = Digested(
            state=self.state,
            reason=self.reason,
            cards=self.cards,
            card_vectors=_unpacked(self.vectors.cards, len(self.cards), dim),
            passages=[
                Passage(session_id=self.id, turn=turn, start=start, end=end)
                for turn, start, end in self.passages
            ],
            passage_vectors=_unpacked(self.vectors.passages, len(self.passages), dim),
            quarantined=self.quarantined,
            tokens=self.tokens,
            card_tokens=self.card_tokens,
        )
        if self.waiting is None:
            return Whole(session, digested)
        return Whole(session, digested, self.waiting.session, self.waiting.failure)


class _Forgotten(_Line):
    ids: tuple[str, ...]


class _Spending(_Line):
    day: date
    tokens: Count


_KINDS: dict[str, type[_Line]] = {
    "export": _Head,
    "session": _Session,
    "forgotten": _Forgotten,
    "spending": _Spending,
}


def _unpacked(packed: str, count: int, dim: int) -> Vectors:
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


# ---------------------------------------------------------------- checking a file


@dataclass
class Contents:
    """What a checked file holds, without its words."""

    head: _Head
    sessions: set[str] = field(default_factory=set)
    forgotten: list[str] = field(default_factory=list)
    spending: list[tuple[date, int]] = field(default_factory=list)


def check(file: BinaryIO, name: str) -> Contents:
    """Reads it whole. InvalidFile, with the line, if it is not a complete export."""
    sums = Sums()
    contents: Contents | None = None
    for number, raw in enumerate(file, 1):
        value = _parsed(raw, number, name)
        if contents is not None and value.get("is") == "end":
            if value != sums.end:
                raise InvalidFile(
                    f"{name} is not as it was written: its sums do not agree with its last line. "
                    "Export again, or copy the file again. Nothing was stored."
                )
            if file.read(1):
                raise InvalidFile(f"{name} goes on after its last line: it is two files in one.")
            return contents
        try:
            line = _validated(value, first=contents is None)
            contents = _with(contents, line)
        except (ValueError, OverflowError) as error:
            raise _damaged(name, number, _reason(error)) from None
        sums.add(value, raw)
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
    version = value.get("justmem")
    if number == 1 and (value.get("is") != "export" or not isinstance(version, int)):
        raise InvalidFile(
            f"{name} is no export of a memory: its first line does not say so. Conversations of "
            "other programs are taken in by `justmem remember`."
        )
    if number == 1 and isinstance(version, int) and version > VERSION:
        raise InvalidFile(
            f"{name} was written by a newer JustMem (version {version} of the format, this one "
            f"knows {VERSION}): upgrade JustMem to load it."
        )
    return value


def _validated(value: dict[str, Any], *, first: bool) -> _Line:
    kind = value.get("is")
    if kind not in _KINDS or (kind == "export") != first:
        raise ValueError(f"{str(kind)[:40]!r} is no kind of line that belongs there")
    return _KINDS[kind].model_validate({k: v for k, v in value.items() if k != "is"})


def _with(contents: Contents | None, line: _Line) -> Contents:
    if isinstance(line, _Head):
        return Contents(line)
    assert contents is not None
    match line:
        case _Session():
            if line.id in contents.sessions:
                raise ValueError("this session came before")
            line.whole(contents.head.dim)
            contents.sessions.add(line.id)
        case _Forgotten():
            contents.forgotten += line.ids
        case _Spending():
            contents.spending.append((line.day, line.tokens))
    return contents


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return f"{'.'.join(map(str, error.errors()[0]['loc']))} does not fit"


def _damaged(name: str, number: int, why: str) -> InvalidFile:
    return InvalidFile(
        f"{name} is damaged at line {number} ({why}): export again, or copy the file again. "
        "Nothing was stored."
    )


def sessions_in(file: BinaryIO, dim: int) -> Iterator[Whole]:
    """Of a file that was checked, from its start."""
    file.seek(0)
    for raw in file:
        value = json.loads(raw)
        if value.pop("is") == "session":
            yield _Session.model_validate(value).whole(dim)


def fingerprint(whole: Whole) -> bytes:
    """The same for two sessions that are the same in everything a store holds of them."""
    line = json.dumps(session_line(whole, vectors=True))
    return hashlib.blake2b(line.encode(), digest_size=16).digest()
