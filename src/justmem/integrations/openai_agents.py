"""OpenAI Agents SDK: a session that remembers, and instructions that recall."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agents.memory import Session

from justmem.integrations.safe import SafeMemory, turn


class JustMemSession:
    """Wraps a session of the SDK, which still stores the items. Messages are also remembered, and
    popped or cleared messages are forgotten."""

    def __init__(self, inner: Session, memory: SafeMemory) -> None:
        self.inner = inner
        self.memory = memory
        self.session_id = inner.session_id
        self.session_settings = inner.session_settings

    @property
    def _id(self) -> str:
        return f"agents-{self.session_id}"

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return list(await self.inner.get_items(limit))

    async def add_items(self, items: list[Any]) -> None:
        await self.inner.add_items(items)
        said = [(item.get("role"), text_of(item)) for item in items]
        turns = [turn(role, text) for role, text in said if role in _ROLES and text]
        await self.memory.append(self._id, turns)

    async def pop_item(self) -> Any:
        item = await self.inner.pop_item()
        if item is not None and item.get("role") in _ROLES and text_of(item):
            await self.memory.forget_last(self._id)
        return item

    async def clear_session(self) -> None:
        await self.inner.clear_session()
        await self.memory.forget_session(self._id)


_ROLES = ("user", "assistant")


def text_of(item: Any) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def recalling(instructions: str, memory: SafeMemory) -> Callable[[Any, Any], Awaitable[str]]:
    """Instructions for an Agent, followed by the evidence for the user's message."""

    async def dynamic(context: Any, agent: Any) -> str:
        said = context.turn_input or []
        asked = [text_of(item) for item in said if item.get("role") == "user"]
        evidence = await memory.prompt(asked[-1]) if asked else ""
        return f"{instructions}\n\n{evidence}".strip()

    return dynamic
