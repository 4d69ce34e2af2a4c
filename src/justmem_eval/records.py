"""What each stage writes: one JSON line per item, in a file that is resumed after a kill.

memory.jsonl          Built       a history
evidence.jsonl        Retrieved   a question
predictions.N.jsonl   Predicted   a question
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Generic, TypeVar

from justmem.domain import Call, Plan, Value
from justmem.errors import JustMemError, ModelError

T = TypeVar("T", bound="Record")
Place = tuple[str, tuple[int, ...]]  # a session and turns of it


class PeerFailed(ModelError):
    """The peer crashed, hung, or reported an error. `seen`: the tokens it took."""

    seen: int = 0


class PeerCannotStart(JustMemError):
    """Ends the run: a peer that cannot start fails on every question in the same way."""


class Record(Value):
    """One item of a stage with the calls it took. `seen`: tokens that the meter counted, where a
    system's own calls are out of sight."""

    id: str
    error: str = ""
    calls: tuple[Call, ...] = ()
    seen: int | None = None

    @property
    def tokens(self) -> int:
        if self.seen is not None:
            return self.seen
        return sum(call.tokens_in + call.tokens_out for call in self.calls)


class Built(Record):
    """`id` is the history's."""

    sessions: int = 0
    cards: int = 0
    card_tokens: int = 0
    failed: tuple[str, ...] = ()  # sessions without cards, and why


class Piece(Value):
    """One chosen piece of evidence. `aligned`: its place was found by its words."""

    place: Place
    text: str = ""
    aligned: bool = False


class Retrieved(Record):
    """The evidence for a question. No gold in it."""

    history: str
    plan: Plan | None = None
    access: str = ""
    chosen: tuple[Piece, ...] = ()  # best first; recall@10 counts the first ten
    read: tuple[Place, ...] = ()  # everything that is read, the chosen included
    read_texts: tuple[str, ...] = ()  # the words of each, where the system names its own sources
    sources: tuple[Place, ...] = ()
    pool: tuple[Place, ...] = ()  # all candidates
    context: str = ""  # what a reader is shown
    evidence_tokens: int = 0  # of the context
    notes: tuple[str, ...] = ()
    payload: Any = None  # what the system itself needs to answer


class Predicted(Record):
    answer: str = ""
    sufficient: bool = True
    cited: tuple[tuple[str, int], ...] = ()  # session and turn


class Lines(Generic[T]):
    """The records of a file by id; the last line of an id counts. A line that was cut by a kill is
    dropped, and an item that failed is done again by the next run."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.path = path
        self._items: dict[str, T] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                item = kind.model_validate_json(line)
            except ValueError:
                continue
            self._items[item.id] = item

    def __getitem__(self, id: str) -> T:
        return self._items[id]

    def get(self, id: str) -> T | None:
        return self._items.get(id)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[T]:
        return list(self._items.values())

    def done(self, id: str) -> bool:
        item = self._items.get(id)
        return item is not None and not item.error

    def add(self, item: T) -> None:
        append_line(self.path, item.model_dump_json())
        self._items[item.id] = item


def append_line(path: Path, line: str) -> None:
    """The line before may have been cut by a kill, so a new one is begun."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"\n" + line.encode() + b"\n")


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n", "utf-8")
    draft.replace(path)
