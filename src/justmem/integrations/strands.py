"""Strands Agents: a store for its memory manager."""

from __future__ import annotations

import secrets
from typing import Any

from strands.memory import MemoryStore
from strands.memory.types import AddMessagesContext, MemoryEntry, SearchOptions

from justmem.integrations.safe import SafeMemory, text_of, turn


class JustMemStore(MemoryStore):
    """The manager adds what `search` returns to the prompt and passes messages on without a model
    call. Await `manager.flush()` before the program ends."""

    def __init__(
        self,
        memory: SafeMemory,
        *,
        name: str = "justmem",
        description: str = "Long-term memory of earlier conversations.",
        max_search_results: int | None = None,
        session: str | None = None,
    ) -> None:
        self.memory = memory
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = True
        self.extraction = True
        self._session = session or secrets.token_hex(8)  # message numbers restart with each run

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """One entry with the whole evidence. The options limit its cards."""
        limit = (options or {}).get("max_search_results", self.max_search_results)
        found = await self.memory.prompt(query, limit=limit)
        return [MemoryEntry(content=found)] if found else []

    async def add_messages(
        self, messages: list[Any], context: AddMessagesContext | None = None
    ) -> None:
        numbers = (context.sequence_numbers if context else None) or [None] * len(messages)
        keys = [None if number is None else f"{self._session}-{number}" for number in numbers]
        turns = [
            turn(message["role"], text_of(message["content"]), key)
            for message, key in zip(messages, keys, strict=True)
        ]
        await self.memory.append(f"strands-{self._session}", turns)
