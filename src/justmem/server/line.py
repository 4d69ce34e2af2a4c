"""Whose turn it is: the spaces one after the other, within a space first come, first served."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection


class Line:
    def __init__(self) -> None:
        self._spaces: OrderedDict[str, deque[str]] = OrderedDict()  # space -> session ids

    def __len__(self) -> int:
        return sum(map(len, self._spaces.values()))

    def join(self, space: str, session_id: str) -> None:
        self._spaces.setdefault(space, deque()).append(session_id)

    def leave(self, space: str, session_id: str) -> None:
        """Nothing happens if it has had its turn already."""
        waiting = self._spaces.get(space)
        if waiting is not None and session_id in waiting:
            waiting.remove(session_id)
            if not waiting:
                del self._spaces[space]

    def next(self, without: Collection[str] = ()) -> tuple[str, str] | None:
        """None if only sessions of the spaces `without` wait."""
        space = next((space for space in self._spaces if space not in without), None)
        if space is None:
            return None
        waiting = self._spaces.pop(space)
        session_id = waiting.popleft()
        if waiting:
            self._spaces[space] = waiting  # at the end: the others come first
        return space, session_id
