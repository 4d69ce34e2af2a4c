"""What is wrong with a store, and what was brought out of it."""

from __future__ import annotations

from justmem.domain.value import Value


class Damage(Value):
    """Something in a store that cannot be right, and what to do about it."""

    what: str
    fix: str


class Health(Value):
    """What `check` went through, and what it found wrong."""

    space: str
    sessions: int
    cards: int
    passages: int
    damage: tuple[Damage, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.damage


class Rescued(Value):
    """What was brought out of a damaged file, and what is gone. Sessions go by their ids."""

    space: str
    sessions: int
    turns: int
    cards: int
    anew: tuple[str, ...] = ()  # their words are there; `retry` makes their cards again
    doubtful: tuple[str, ...] = ()  # their words can be read, but are not those that were stored
    lost: tuple[str, ...] = ()  # their words cannot be read
    loose: tuple[str, ...] = ()  # what cards of those said; not brought, for nothing backs them
    unreadable: int = 0  # rows that were passed over
