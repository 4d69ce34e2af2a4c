"""The lines of an export: JSON, one line for each session (docs/export.md).

To change the lines, change VERSION.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from datetime import date
from typing import Annotated, BinaryIO, ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from justmem.domain import Card, Correction, Passage, Quarantined, Session, SessionState
from justmem.errors import InvalidFile
from justmem.ports import Derived, StoredSession, Vectors

VERSION = 2
_NONE = np.zeros((0, 0), np.float32)
_AGAIN = "Export again, or copy the file again. Nothing was stored."
_Count = Annotated[int, Field(ge=0, le=2**53)]


class Line(BaseModel):
    """A kind of line. Fields with their default value are left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str]

    @property
    def text(self) -> str:
        value = {"is": self.kind, **self.model_dump(mode="json", exclude_defaults=True)}
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


class Head(Line):
    kind = "export"
    justmem: int = Field(ge=1, le=VERSION)
    space: str
    made: str
    embedder: str
    dim: _Count
    sessions: _Count
    cards: _Count
    forgotten: tuple[str, ...] = ()  # ids of cards and marks of turns
    spending: tuple[tuple[date, _Count], ...] = ()  # tokens by day


class SessionLine(Line):
    kind = "session"
    session: Session
    state: SessionState
    reason: str = ""
    cards: tuple[Card, ...] = ()
    passages: tuple[Passage, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    corrections: tuple[Correction, ...] = ()
    tokens: _Count = 0
    card_tokens: _Count = 0
    done: _Count
    card_vectors: str = ""  # rows of float32 in base64
    passage_vectors: str = ""

    @classmethod
    def of(cls, whole: StoredSession, *, vectors: bool) -> Self:
        made = whole.derived
        return cls(
            session=whole.session,
            done=whole.done,
            card_vectors=_packed(made.card_vectors) if vectors else "",
            passage_vectors=_packed(made.passage_vectors) if vectors else "",
            **{name: getattr(made, name) for name in _DERIVED},
        )

    def whole(self, dim: int) -> StoredSession:
        derived = Derived(
            card_vectors=_unpacked(self.card_vectors, len(self.cards), dim),
            passage_vectors=_unpacked(self.passage_vectors, len(self.passages), dim),
            **{name: getattr(self, name) for name in _DERIVED},
        )
        return StoredSession(self.session, derived, self.done)

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuses what no store could hold."""
        id, turns = self.session.id, self.session.turns
        if not turns or self.done > len(turns):
            raise ValueError(f"{self.done} of its {len(turns)} turns cannot have cards")
        if any("\0" in each for each in (id, *(card.id for card in self.cards))):
            raise ValueError("an id contains a NUL character")
        if len({card.id for card in self.cards}) < len(self.cards):
            raise ValueError("two cards share an id")
        cards = [*self.cards, *(each.after for each in self.corrections)]
        if {*(card.session_id for card in cards), *(p.session_id for p in self.passages)} - {id}:
            raise ValueError("a card, passage or correction belongs to another session")
        for card in self.cards:
            if not card.turns or not set(card.turns) <= set(range(1, len(turns) + 1)):
                raise ValueError(f"the card {card.id[:40]} has a turn that does not exist")
        for each in self.passages:
            text = turns[each.turn - 1].text if 0 < each.turn <= len(turns) else ""
            if not 0 <= each.start < each.end <= len(text):
                raise ValueError(f"the passage {each.start} to {each.end} is not in the text")
        return self


_OWN = {"session", "done", "card_vectors", "passage_vectors"}
_DERIVED = SessionLine.model_fields.keys() - _OWN  # fields with the names of Derived


class End(Line):
    kind = "end"
    sha256: str  # of all lines before
    left_out: _Count = 0  # sessions that were forgotten during the export


_KINDS: dict[str, type[Line]] = {line.kind: line for line in (Head, SessionLine, End)}


def _packed(vectors: Vectors) -> str:
    return base64.b64encode(np.ascontiguousarray(vectors, "<f4").tobytes()).decode()


def _unpacked(packed: str, count: int, dim: int) -> Vectors:
    raw = base64.b64decode(packed, validate=True)
    if not raw:
        return _NONE
    if not dim or len(raw) != 4 * count * dim:
        raise ValueError("the number of vectors differs from the number of texts")
    vectors = np.frombuffer(raw, "<f4").astype(np.float32).reshape(count, dim)
    if not np.isfinite(vectors).all():
        raise ValueError("its vectors contain NaN or infinity")
    return vectors


# ---------------------------------------------------------------- reading a file


def check(file: BinaryIO, name: str) -> tuple[Head, set[str]]:
    """Reads all of it. Returns the head and the ids of the sessions. InvalidFile, with the line, if
    it is not a complete export."""
    first = file.readline()
    head, ids, sums = _head(first, name), set[str](), hashlib.sha256(first)
    for number, raw in enumerate(file, 2):
        try:
            line = _parsed(raw)
            if isinstance(line, End):
                break
            if not isinstance(line, SessionLine):
                raise ValueError(f"a second line {line.kind!r}")
            line.whole(head.dim)
            if line.session.id in ids:
                raise ValueError("this session occurs twice")
        except ValueError as error:
            raise InvalidFile(
                f"{name} is damaged at line {number} ({_reason(error)}). {_AGAIN}"
            ) from None
        ids.add(line.session.id)
        sums.update(raw)
    else:
        raise InvalidFile(f"{name} is cut short: its last line is missing. {_AGAIN}")
    if line.sha256 != sums.hexdigest() or file.read(1):
        raise InvalidFile(
            f"{name} was changed after it was written: its checksum does not match. {_AGAIN}"
        )
    if len(ids) + line.left_out != head.sessions:
        raise InvalidFile(
            f"{name} is not complete: it has {len(ids)} of {head.sessions} sessions. {_AGAIN}"
        )
    return head, ids


def _head(raw: bytes, name: str) -> Head:
    try:
        head = _parsed(raw)
        if isinstance(head, Head) and head.justmem == VERSION:
            return head
    except ValueError:
        head = None
    if isinstance(head, Head):
        raise InvalidFile(
            f"{name} is an export in an earlier format of JustMem, which this version does not "
            "read. Nothing was stored. Load it with the version that wrote it."
        )
    raise InvalidFile(
        f"{name} is not an export that this JustMem can load. If it is an export of a newer "
        "JustMem, upgrade. If it is from another program, use `justmem remember`."
    )


def _parsed(raw: bytes) -> Line:
    value = from_json(raw)  # unlike json.loads, it refuses lone surrogates and deep nesting
    kind = str(value.pop("is", None) if isinstance(value, dict) else None)
    if kind not in _KINDS:
        raise ValueError(f"{kind[:40]!r} is an unknown kind of line")
    return _KINDS[kind].model_validate(value)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


def sessions_in(file: BinaryIO, dim: int) -> Iterator[StoredSession]:
    """Of a file that was checked, from its start."""
    file.seek(0)
    for raw in file:
        line = _parsed(raw)
        if isinstance(line, SessionLine):
            yield line.whole(dim)
