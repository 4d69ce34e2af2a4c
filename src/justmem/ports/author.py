"""The author of changes: whom the change log names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime

_actor: ContextVar[str | None] = ContextVar("justmem_actor", default=None)


@dataclass(frozen=True, slots=True)
class Author:
    """Whom the change log names, and by which clock."""

    name: str
    clock: Callable[[], datetime]
    reads: bool = False  # log reads too

    @property
    def acting(self) -> Author:
        """The author under the name of `acting_as`. Called outside of the store's threads."""
        name = _actor.get()
        return self if name is None else replace(self, name=name)


@contextmanager
def acting_as(actor: str | None) -> Iterator[None]:
    """The log names this actor for what is done inside the block. None changes nothing."""
    before = _actor.get()
    _actor.set(before if actor is None else actor)
    try:
        yield
    finally:
        _actor.set(before)  # not `reset`: a generator may end in another context than it began in
