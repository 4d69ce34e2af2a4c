"""The lines of an export: JSON, one line for each session (docs/export.md).

To change the lines, change VERSION.
"""

from __future__ import annotations

import base64
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

from justmem.domain import Card, Correction, Passage, Quarantined, Session, SessionState, Turn, dump
from justmem.errors import InvalidFile
from justmem.ports import Derived, StoredSession, Vectors

VERSION = 1
_NONE = np.zeros((0, 0), np.float32)
# Characters that control a terminal, or that some programs read as the end of a line.
_CONTROL = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_AGAIN = "Export again, or copy the file again. Nothing was stored."


class Sums:
    """Counts and hash of the lines so far, for the last line."""

    def __init__(self) -> None:
        self._digest, self._counts = hashlib.sha256(), Counter[str]()

    def add(self, value: Mapping[str, Any], raw: bytes) -> None:
        self._digest.update(raw)
        match value["is"]:
            case "session":
                held = {name: len(value[name]) for name in ("turns", "cards", "quarantined")}
                self._counts.update(sessions=1, **held)
            case "forgotten":
                self._counts.update(forgotten=len(value["ids"]))
            case "spending":
                self._counts.update(days=1)

    @property
    def end(self) -> dict[str, Any]:
        names = ("sessions", "turns", "cards", "quarantined", "forgotten", "days")
        counts = {name: self._counts[name] for name in names}
        return {"is": "end", **counts, "sha256": self._digest.hexdigest()}


def line_of(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def session_line(whole: StoredSession, *, vectors: bool) -> dict[str, Any]:
    made = whole.derived
    line: dict[str, Any] = {
        "is": "session",
        **_text(whole.session),
        "state": str(made.state),
        "reason": made.reason,
        "tokens": made.tokens,
        "card_tokens": made.card_tokens,
        "cards": [dump(card) for card in made.cards],
        "passages": [[p.turn, p.start, p.end] for p in made.passages],
        "quarantined": [dump(held) for held in made.quarantined],
    }
    if made.corrections:
        line["corrections"] = [dump(each) for each in made.corrections]
    if whole.done and not made.state.settled:
        line["done"] = whole.done
    if vectors and made.card_vectors.size + made.passage_vectors.size:
        packed = _packed(made.card_vectors), _packed(made.passage_vectors)
        line["vectors"] = dict(zip(("cards", "passages"), packed, strict=True))
    return line


def _text(session: Session) -> dict[str, Any]:
    """Without empty fields."""
    turns = [{k: v for k, v in dump(turn).items() if v or k == "text"} for turn in session.turns]
    return {**{name: value for name, value in dump(session).items() if value}, "turns": turns}


def _packed(vectors: Vectors) -> str:
    return base64.b64encode(np.ascontiguousarray(vectors, "<f4").tobytes()).decode()


# ---------------------------------------------------------------- the lines of a file

_Count = Annotated[int, Field(ge=0, le=2**53)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Head(_Line):
    justmem: int
    space: str
    made: str
    embedder: str
    dim: _Count
    vectors: bool
    sessions: _Count
    cards: _Count


class _Text(_Line):
    id: str
    at: datetime
    turns: tuple[Turn, ...] = Field(min_length=1)
    labels: dict[str, str] = Field(default_factory=dict)
    until: datetime | None = None

    @property
    def session(self) -> Session:
        return Session(**{name: getattr(self, name) for name in Session.model_fields})


class _Packed(_Line):
    cards: str = ""
    passages: str = ""


class _Session(_Text):
    state: SessionState
    reason: str
    tokens: _Count
    card_tokens: _Count
    cards: tuple[Card, ...]
    passages: tuple[tuple[int, int, int], ...]
    quarantined: tuple[Quarantined, ...]
    corrections: tuple[Correction, ...] = ()
    done: _Count = 0
    vectors: _Packed = _Packed()

    def whole(self, dim: int) -> StoredSession:
        self._check()
        derived = Derived(
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
            corrections=self.corrections,
            tokens=self.tokens,
            card_tokens=self.card_tokens,
        )
        done = len(self.turns) if self.state.settled else self.done
        return StoredSession(self.session, derived, done)

    def _check(self) -> None:
        """ValueError, with the reason, if no store could hold this."""
        count = len(self.turns)
        if any("\0" in id for id in (self.id, *(card.id for card in self.cards))):
            raise ValueError("an id contains a NUL character")
        if self.done > count:
            raise ValueError(f"{self.done} of its {count} turns cannot have cards")
        for card in self.cards:
            if card.session_id != self.id or not card.turns:
                raise ValueError(f"the card {card.id[:40]} has no turn of its session")
            if not 1 <= min(card.turns) <= max(card.turns) <= count:
                raise ValueError(f"the card {card.id[:40]} has a turn that does not exist")
        if any(each.after.session_id != self.id for each in self.corrections):
            raise ValueError("a correction belongs to another session")
        if len({card.id for card in self.cards}) < len(self.cards):
            raise ValueError("two cards share an id")
        for turn, start, end in self.passages:
            if not 1 <= turn <= count or not 0 <= start < end <= len(self.turns[turn - 1].text):
                raise ValueError(f"the passage {turn}, {start}, {end} is not in the text")


class _Forgotten(_Line):
    ids: tuple[str, ...]


class _Spending(_Line):
    day: date
    tokens: _Count


_KINDS: dict[str, type[_Line]] = {
    "session": _Session,
    "forgotten": _Forgotten,
    "spending": _Spending,
}


def _unpacked(packed: str, count: int, dim: int) -> Vectors:
    try:
        raw = base64.b64decode(packed, validate=True)
    except ValueError:
        raise ValueError("its vectors cannot be read") from None
    if not raw:
        return _NONE
    if not dim or len(raw) != 4 * count * dim:
        raise ValueError("the number of vectors differs from the number of texts")
    vectors = np.frombuffer(raw, "<f4").astype(np.float32).reshape(count, dim)
    if not np.isfinite(vectors).all():
        raise ValueError("its vectors contain NaN or infinity")
    return vectors


@dataclass
class Contents:
    """What a checked file holds, without its words."""

    head: _Head
    sessions: set[str] = field(default_factory=set)
    forgotten: list[str] = field(default_factory=list)
    spending: list[tuple[date, int]] = field(default_factory=list)

    def add(self, value: Mapping[str, Any]) -> None:
        kind = _KINDS.get(str(value.get("is")))
        if kind is None:
            raise ValueError(f"{str(value.get('is'))[:40]!r} is an unknown kind of line")
        match kind.model_validate(_fields(value)):
            case _Session() as line:
                if line.id in self.sessions:
                    raise ValueError("this session occurs twice")
                line.whole(self.head.dim)
                self.sessions.add(line.id)
            case _Forgotten(ids=ids):
                self.forgotten += ids
            case _Spending(day=day, tokens=tokens):
                self.spending.append((day, tokens))


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: field for name, field in value.items() if name != "is"}


def check(file: BinaryIO, name: str) -> Contents:
    """Reads all of it. InvalidFile, with the line, if it is not a complete export."""
    sums = Sums()
    contents: Contents | None = None
    for number, raw in enumerate(file, 1):
        try:
            value = _parsed(raw)
            if contents is None:
                contents = Contents(_head(value, name))
            elif value.get("is") == "end":
                if value != sums.end:
                    why = "its checksums do not match"
                    raise InvalidFile(f"{name} was changed after it was written: {why}. {_AGAIN}")
                if file.read(1):
                    raise InvalidFile(
                        f"{name} continues after its last line: two files may have been joined."
                    )
                return contents
            else:
                contents.add(value)
        except (ValueError, OverflowError, RecursionError) as error:
            if contents is None:
                raise InvalidFile(
                    f"{name} is not an export of JustMem: it is not JSON Lines."
                ) from None
            why = str(error)
            if isinstance(error, ValidationError):
                why = f"{'.'.join(map(str, error.errors()[0]['loc']))} does not fit"
            raise InvalidFile(f"{name} is damaged at line {number} ({why}). {_AGAIN}") from None
        sums.add(value, raw)
    if contents is None:
        raise InvalidFile(f"{name} is empty, so it is not an export of JustMem.")
    raise InvalidFile(f"{name} is cut short: its last line is missing. {_AGAIN}")


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is no text
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value


def _head(value: Mapping[str, Any], name: str) -> _Head:
    version = value.get("justmem")
    if value.get("is") != "export" or not isinstance(version, int):
        raise InvalidFile(
            f"{name} is not an export of JustMem: its first line does not say so. Read "
            "conversations of other programs with `justmem remember`."
        )
    if version > VERSION:
        raise InvalidFile(
            f"{name} was written by a newer JustMem (version {version} of the format, this one "
            f"knows {VERSION}): upgrade JustMem to load it."
        )
    return _Head.model_validate(_fields(value))


def sessions_in(file: BinaryIO, dim: int) -> Iterator[StoredSession]:
    """Of a file that was checked, from its start."""
    file.seek(0)
    for raw in file:
        value = json.loads(raw)
        if value["is"] == "session":
            yield _Session.model_validate(_fields(value)).whole(dim)
