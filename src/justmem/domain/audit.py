"""Who did what: entries that chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import Field

from justmem.domain.value import Value


class Entry(Value):
    """One line of the audit: who did what, when, to how much. It holds no words: `targets` are
    keyed hashes of ids. `before` is the hash of the entry before, so that none can be changed or
    taken out unseen."""

    number: int
    at: datetime  # UTC
    actor: str
    verb: str
    targets: tuple[str, ...] = ()
    counts: Mapping[str, int] = Field(default_factory=dict)
    before: str
    hash: str

    @property
    def digest(self) -> str:
        """What `hash` has to be."""
        said = spoken(self.at, self.actor, self.verb, self.targets, self.counts)
        return hashlib.sha256(chained(self.number, said, self.before).encode()).hexdigest()


def spoken(
    at: datetime, actor: str, verb: str, targets: Sequence[str], counts: Mapping[str, int]
) -> str:
    """The inner part of an entry's canonical JSON: known before its number is."""
    said = [at.isoformat(timespec="milliseconds"), actor, verb, list(targets), counts]
    return json.dumps(said, sort_keys=True, separators=(",", ":"))[1:-1]


def chained(number: int, said: str, before: str) -> str:
    """An entry's canonical JSON: an array, in ASCII, without spaces, keys in order."""
    return f'[{number},{said},"{before}"]'


class Checked(Value):
    """What looking through the audit found. `last` is its newest entry's hash: kept elsewhere, it
    shows later whether everything up to it is still there."""

    entries: int = 0
    last: str = ""
    problem: str = ""  # where the chain breaks, and how

    @property
    def whole(self) -> bool:
        return not self.problem
