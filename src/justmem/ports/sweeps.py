"""Looking for what was forgotten: where, and what is left."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Searched:
    """Where traces were looked for, and the places where some were found."""

    files: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    bytes: int = 0
    remains: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()  # files whose content cannot be read

    def __add__(self, other: Searched) -> Searched:
        return Searched(
            self.files + other.files,
            self.tables + other.tables,
            self.bytes + other.bytes,
            self.remains + other.remains,
            self.unsearched + other.unsearched,
        )
