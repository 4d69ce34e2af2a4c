"""Chats that pass through the proxy -> sessions.

A conversation that names itself is a session; one that does not belongs to the session of the
day. Each exchange is kept at once. Cards are made when the chat has been quiet for a while, so
that a conversation is read once and not again after every reply; one that grows long goes on in
a session of its own (`chat-2024-05-20`, `chat-2024-05-20.2`, ...).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from justmem.domain import Session, Turn
from justmem.errors import InputError
from justmem.intake.sessions import as_session
from justmem.server.ingestion import Ingestion

_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one request adds to a conversation: the new messages of the user, and the reply.
    `before` is the reply that the client remembers as the last one. `question` is what memory is
    searched for."""

    said: tuple[str, ...]
    reply: str = ""
    before: str = ""
    question: str = ""


class Chats:
    def __init__(self, ingestion: Ingestion, *, pause: float, most_turns: int) -> None:
        self._ingestion = ingestion
        self._pause = pause
        self._most_turns = most_turns
        self._parts: OrderedDict[tuple[str, str], int] = OrderedDict()

    async def add(
        self,
        space: str,
        conversation: str | None,
        exchange: Exchange,
        at: datetime,
        by: str | None = None,
    ) -> str | None:
        """Keeps an exchange; the id of its session. None if nothing was said."""
        turns = [Turn(speaker="User", text=text, at=at) for text in exchange.said]
        if exchange.reply:
            turns.append(Turn(speaker="Assistant", role="assistant", text=exchange.reply, at=at))
        if not turns:
            return None
        name = _checked(conversation) if conversation else f"{at:%Y-%m-%d}"
        while True:
            part = self._parts.get((space, name), 1)
            id = f"chat-{name}" if part == 1 else f"chat-{name}.{part}"
            async with self._ingestion.alone(space, id):
                if await self._put(space, id, exchange, turns, at, by):
                    return id
            self._next(space, name, part + 1)

    async def _put(
        self,
        space: str,
        id: str,
        exchange: Exchange,
        turns: list[Turn],
        at: datetime,
        by: str | None,
    ) -> bool:
        """Whether this session could take it: one that is long, or whose earlier words are not
        kept, does not grow."""
        known = await self._ingestion.newest(space, id, by)
        if known is not None and all(turn.forgotten for turn in known.turns):
            return False
        room = known is None or len(known.turns) < self._most_turns
        if room or (known is not None and _is_repeated(known.turns, exchange)):
            grown = _grown(known, id, turns, exchange, at)
            await self._ingestion.put(space, grown, by, pause=self._pause)
            return True
        return False

    def _next(self, space: str, name: str, part: int) -> None:
        self._parts[space, name] = part
        self._parts.move_to_end((space, name))
        while len(self._parts) > _MOST_KNOWN:
            self._parts.popitem(last=False)


def _checked(conversation: str) -> str:
    name = conversation.strip()
    if not name or len(name) > 150 or not name.isprintable():
        raise InputError("X-JustMem-Session is 1 to 150 printable characters.")
    return name


def _grown(
    known: Session | None, id: str, turns: list[Turn], exchange: Exchange, at: datetime
) -> Session:
    earlier = list(known.turns) if known else []
    if _is_repeated(earlier, exchange):  # asked for another reply: it takes the first one's place
        while earlier and earlier[-1].role == "assistant":
            earlier.pop()
        del earlier[len(earlier) - len(exchange.said) :]
    start = known.at if known else at
    return as_session(Session(id=id, at=start, turns=(*earlier, *turns)))


def _is_repeated(earlier: Sequence[Turn], exchange: Exchange) -> bool:
    if not exchange.said:
        return False
    end = len(earlier)
    while end and earlier[end - 1].role == "assistant":
        end -= 1
    same = tuple(turn.text for turn in earlier[:end][-len(exchange.said) :]) == exchange.said
    replied = "\n".join(turn.text for turn in earlier[end:])
    return same and (not replied or replied != exchange.before)
