"""Who did what: entries that chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime

from pydantic import Field, computed_field

from justmem.domain.value import Value


class Entry(Value):
    """One line of the change log: who did what, when, to which sessions and cards. It holds ids
    and counts, and no words of a conversation. `before` is the hash of the entry before, so that
    none can be changed or taken out unseen."""

    number: int
    at: datetime  # UTC
    actor: str
    verb: str
    targets: tuple[str, ...] = ()
    counts: Mapping[str, int] = Field(default_factory=dict)
    before: str
    hash: str = ""

    @property
    def digest(self) -> str:
        """What `hash` has to be: of the other fields, as JSON in ASCII with sorted keys."""
        at = self.at.isoformat(timespec="milliseconds")
        said = [self.number, at, self.actor, self.verb, self.targets, self.counts, self.before]
        canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Checked(Value):
    """What looking through the log found. `last` is its newest entry's hash: kept elsewhere, it
    shows later whether everything up to it is still there."""

    entries: int = 0
    last: str = ""
    problem: str = ""  # where the chain breaks, and how

    @computed_field  # type: ignore[prop-decorator]
    @property
    def whole(self) -> bool:
        return not self.problem
