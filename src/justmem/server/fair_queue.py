"""A queue of sessions that serves the spaces in turn; within a space, first in, first out."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection


class FairQueue:
    def __init__(self) -> None:
        self._spaces: OrderedDict[str, deque[str]] = OrderedDict()  # space -> session ids

    def __len__(self) -> int:
        return sum(map(len, self._spaces.values()))

    def push(self, space: str, session_id: str) -> None:
        self._spaces.setdefault(space, deque()).append(session_id)

    def remove(self, space: str, session_id: str) -> None:
        """Does nothing if the session is not in the queue any more."""
        waiting = self._spaces.get(space)
        if waiting is not None and session_id in waiting:
            waiting.remove(session_id)
            if not waiting:
                del self._spaces[space]

    def pop(self, without: Collection[str] = ()) -> tuple[str, str] | None:
        """The next space and session; None if only sessions of the spaces `without` wait."""
        space = next((space for space in self._spaces if space not in without), None)
        if space is None:
            return None
        waiting = self._spaces.pop(space)
        session_id = waiting.popleft()
        if waiting:
            self._spaces[space] = waiting  # to the end, so that the other spaces come first
        return space, session_id
