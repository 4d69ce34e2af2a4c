"""Google ADK: a memory service. Each user of an app has a space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai.types import Content, Part

from justmem.errors import InputError
from justmem.integrations.safe import SafeMemory, turn
from justmem.spaces import Spaces


class JustMemMemoryService(BaseMemoryService):
    """`options` are those of SafeMemory."""

    def __init__(self, spaces: Spaces, **options: Any) -> None:
        self._spaces = spaces
        self._options = options
        self.error: BaseException | None = None  # the last one

    def _memory(self, app_name: str, user_id: str) -> SafeMemory:
        space = f"{quote(app_name, safe='')}/{quote(user_id, safe='')}"
        return SafeMemory(self._spaces, space, **self._options)

    async def add_session_to_memory(self, session: Any) -> None:
        """Adds all events. Memory leaves out the ones whose id it knows."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        memory = self._memory(app_name, user_id)
        day = f"{datetime.now():%Y-%m-%d}"
        await memory.append(
            f"adk-{session_id or day}", [t for each in events if (t := _turn(each))]
        )
        self.error = memory.error or self.error

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        memory = self._memory(app_name, user_id)
        found = await memory.evidence(query)
        self.error = memory.error or self.error
        cards = found.cards if found else ()
        return SearchMemoryResponse(
            memories=[
                MemoryEntry(
                    id=card.id,
                    author=card.subject,
                    timestamp=card.said_at.astimezone().isoformat(),
                    content=Content(role="user", parts=[Part(text=card.text)]),
                    custom_metadata={"event_date": str(card.event_date)},
                )
                for card in cards
            ]
        )

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forgets the card and its turns. Errors are raised, so that nobody believes that something
        is erased if it is not."""
        if memory_id is None:
            raise InputError("Name the memory to delete: memory_id is the id of a memory entry.")
        async with self._memory(app_name, user_id).using() as memory:
            card = await memory.card(memory_id)
            for number in card.turns:
                await memory.forget(turn=f"{card.session_id}#{number}")


def _turn(event: Any) -> dict[str, str] | None:
    parts = event.content.parts if event.content else None
    text = "\n".join(part.text for part in parts or [] if part.text and not part.thought)
    role = "user" if event.author == "user" else "assistant"
    return turn(role, text, event.id) if text.strip() and not event.partial else None
