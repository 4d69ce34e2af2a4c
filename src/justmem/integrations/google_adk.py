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

    def memory(self, app_name: str, user_id: str) -> SafeMemory:
        space = f"{quote(app_name, safe='')}/{quote(user_id, safe='')}"
        return SafeMemory(self._spaces, space, **self._options)

    async def add_session_to_memory(self, session: Any) -> None:
        """Adds all events. Memory leaves out the ones whose id it knows."""
        whose = {"app_name": session.app_name, "user_id": session.user_id}
        await self.add_events_to_memory(**whose, events=session.events, session_id=session.id)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        turns = [_turn(each) for each in events if not each.partial]
        id = f"adk-{session_id or format(datetime.now(), '%Y-%m-%d')}"
        await self.memory(app_name, user_id).append(id, turns)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """One entry with the whole evidence."""
        found = await self.memory(app_name, user_id).prompt(query)
        entry = MemoryEntry(content=Content(role="user", parts=[Part(text=found)]))
        return SearchMemoryResponse(memories=[entry] if found else [])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forgets a turn, such as `adk-monday#3`. Errors are raised, so that nobody believes that
        something is erased if it is not."""
        if memory_id is None:
            raise InputError("Name the turn to delete: memory_id is SESSION#NUMBER.")
        async with self.memory(app_name, user_id).using() as memory:
            await memory.forget(turn=memory_id)


def _turn(event: Any) -> dict[str, str]:
    parts = event.content.parts if event.content else None
    text = "\n".join(part.text for part in parts or [] if part.text and not part.thought)
    return turn("user" if event.author == "user" else "assistant", text, event.id)
