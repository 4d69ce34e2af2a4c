"""What is wrong with a store."""

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
