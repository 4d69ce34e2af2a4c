"""Chats that pass through the proxy, as sessions.

A named conversation is a session of its own. The others belong to the session of the day. Each
exchange is stored at once. Cards are made when the chat has been quiet for a while, so that a
conversation is read once. A long conversation continues in a new session (`chat-2024-05-20.2`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from justmem.domain import Session, Turn
from justmem.errors import InputError
from justmem.intake.sessions import as_session
from justmem.server.state import Server

_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one request adds to a conversation: the new messages of the user, and the reply.
    `before` is the last reply that the client sends along. Memory is searched for `question`."""

    said: tuple[str, ...]
    reply: str = ""
    before: str = ""
    question: str = ""


class Chats:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._parts: OrderedDict[tuple[str, str], int] = OrderedDict()  # the latest part

    async def add(
        self, space: str, conversation: str | None, exchange: Exchange, by: str
    ) -> str | None:
        """Stores an exchange. Returns the id of its session, or None if nothing was said."""
        at = self._server.clock()
        turns = [Turn(speaker="User", text=text, at=at) for text in exchange.said]
        if exchange.reply:
            turns.append(Turn(speaker="Assistant", role="assistant", text=exchange.reply, at=at))
        if not turns:
            return None
        name = _checked(conversation) if conversation else f"{at:%Y-%m-%d}"
        ingestion, serving = self._server.ingestion, self._server.serving
        while True:
            part = self._parts.get((space, name), 1)
            id = f"chat-{name}" if part == 1 else f"chat-{name}.{part}"
            async with ingestion.alone(space, id):
                known = await ingestion.newest(space, id, by)
                if known is None or _has_room(known, exchange, serving.chat_turns):
                    earlier = _without_repeated(known.turns if known else (), exchange)
                    start = known.at if known else at
                    grown = as_session(Session(id=id, at=start, turns=(*earlier, *turns)))
                    await ingestion.put(space, grown, by, pause=serving.pause_seconds)
                    return id
            self._parts[space, name] = part + 1
            self._parts.move_to_end((space, name))
            while len(self._parts) > _MOST_KNOWN:
                self._parts.popitem(last=False)


def _checked(conversation: str) -> str:
    name = conversation.strip()
    if not name or len(name) > 150 or not name.isprintable():
        raise InputError("X-JustMem-Session is 1 to 150 printable characters.")
    return name


def _has_room(known: Session, exchange: Exchange, most: int) -> bool:
    """A long session, or one whose words were forgotten, does not grow."""
    if all(turn.forgotten for turn in known.turns):
        return False
    earlier = _without_repeated(known.turns, exchange)
    return len(known.turns) < most or len(earlier) < len(known.turns)


def _without_repeated(earlier: Sequence[Turn], exchange: Exchange) -> Sequence[Turn]:
    """If the user asks for another reply to the same words, the new reply replaces the old one."""
    if not exchange.said:
        return earlier
    end = len(earlier)
    while end and earlier[end - 1].role == "assistant":
        end -= 1
    start = end - len(exchange.said)
    same = start >= 0 and tuple(turn.text for turn in earlier[start:end]) == exchange.said
    replied = "\n".join(turn.text for turn in earlier[end:])
    return earlier[:start] if same and (not replied or replied != exchange.before) else earlier
