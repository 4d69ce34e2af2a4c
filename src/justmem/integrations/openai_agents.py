"""OpenAI Agents SDK: a session that remembers, and instructions that recall."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agents.memory import Session

from justmem.integrations.safe import SafeMemory, text_of, turn


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
        await self.memory.append(self._id, _turns(items))

    async def pop_item(self) -> Any:
        item = await self.inner.pop_item()
        if item is not None and _turns([item]):
            await self.memory.forget_last(self._id)
        return item

    async def clear_session(self) -> None:
        await self.inner.clear_session()
        await self.memory.forget_session(self._id)


def _turns(items: list[Any]) -> list[dict[str, str]]:
    said = [(item.get("role"), text_of(item.get("content"))) for item in items]
    return [turn(role, text) for role, text in said if role in ("user", "assistant") and text]


def recalling(instructions: str, memory: SafeMemory) -> Callable[[Any, Any], Awaitable[str]]:
    """Instructions for an Agent, followed by the evidence for the user's message."""

    async def dynamic(context: Any, agent: Any) -> str:
        said = _turns(context.turn_input or [])
        asked = [each["content"] for each in said if each["role"] == "user"]
        evidence = await memory.prompt(asked[-1]) if asked else ""
        return f"{instructions}\n\n{evidence}".strip()

    return dynamic
