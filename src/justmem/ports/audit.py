"""Deeds on their way into the audit, and how entries are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

Audit = Literal["all", "writes", "off"]
_GOING = ("forget", "erase")  # always entered
CHANGES = ("keep", "settle", "fail", *_GOING, "reembed", "import", "copy")
MOST_TARGETS = 100  # of one entry: what touches more says how many


@dataclass(frozen=True, slots=True)
class Deed:
    """Something done, on its way into the audit. `targets` are ids; a store enters their marks."""

    at: datetime
    actor: str
    verb: str
    targets: Sequence[str]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Author:
    """In whose name something is done, and how much of it the audit is to have."""

    actor: str
    clock: Callable[[], datetime]
    audit: Audit = "all"

    def did(self, verb: str, targets: Sequence[str] = (), **counts: int) -> list[Deed]:
        """The deed, or none where the setting leaves it out. Forgetting is never left out."""
        changes = verb in CHANGES
        wanted = {"all": True, "writes": changes, "off": verb in _GOING}
        if not wanted[self.audit]:
            return []
        at = self.clock().astimezone(UTC)
        named = tuple(dict.fromkeys(targets))
        return [Deed(at, self.actor, verb, named if len(named) <= MOST_TARGETS else (), counts)]


@dataclass(frozen=True, slots=True)
class EntryFilter:
    after: int = 0  # numbers above this one
    before: int | None = None  # numbers below this one
    since: datetime | None = None
    target: str | None = None  # an id: entries that name it
    latest: bool = False  # the last `limit` of them; else the first
    limit: int = 1000
