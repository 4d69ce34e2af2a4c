"""A stage's file: one JSON line per item, written once, resumed after a kill."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Generic, TypeVar

from justmem.domain import Value

T = TypeVar("T", bound="Item")


class Item(Value):
    id: str
    error: str = ""


class Lines(Generic[T]):
    """Items by id; the last line of an id counts. A line that was cut by a kill is dropped,
    and an item that failed is done again by the next run."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.path = path
        self._kind = kind
        self._items: dict[str, T] = {}
        self._whole = True
        if path.exists():
            self._read()

    def _read(self) -> None:
        raw = self.path.read_bytes()
        self._whole = not raw or raw.endswith(b"\n")
        for line in raw.splitlines():
            try:
                item = self._kind.model_validate(json.loads(line))
            except ValueError:
                continue
            self._items[item.id] = item

    def __getitem__(self, id: str) -> T:
        return self._items[id]

    def get(self, id: str) -> T | None:
        return self._items.get(id)

    def __contains__(self, id: str) -> bool:
        return id in self._items

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[T]:
        return list(self._items.values())

    def done(self, id: str) -> bool:
        item = self._items.get(id)
        return item is not None and not item.error

    def add(self, item: T) -> None:
        data = item.model_dump_json().encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(data if self._whole else b"\n" + data)
            file.flush()
            os.fsync(file.fileno())
        self._whole = True
        self._items[item.id] = item


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n", "utf-8")
    draft.replace(path)
