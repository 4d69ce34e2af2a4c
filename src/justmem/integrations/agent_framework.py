"""Microsoft Agent Framework: a context provider."""

from __future__ import annotations

from typing import Any

from agent_framework import ContextProvider, Message

from justmem.integrations.safe import SafeMemory, turn


class JustMemProvider(ContextProvider):
    """Adds evidence for the user's messages to the instructions, and remembers the exchange after
    the run."""

    def __init__(self, memory: SafeMemory, source_id: str = "justmem") -> None:
        super().__init__(source_id)
        self.memory = memory

    async def before_run(
        self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]
    ) -> None:
        evidence = await self.memory.prompt("\n".join(_said(context.input_messages, "user")))
        if evidence:
            context.extend_instructions(self.source_id, evidence)

    async def after_run(
        self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]
    ) -> None:
        replies = context.response.messages if context.response else []
        turns = [turn("user", text) for text in _said(context.input_messages, "user")]
        turns += [turn("assistant", text) for text in _said(replies, "assistant")]
        await self.memory.append(f"agent-framework-{session.session_id}", turns)


def _said(messages: list[Message], role: str) -> list[str]:
    return [each.text for each in messages if str(each.role) == role]
