"""LlamaIndex: a wrapper around the chat's own memory, which still stores the history."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemory, Memory

from justmem.integrations.safe import SafeMemory, turn, wait


class JustMemMemory(BaseMemory):
    """`put` remembers a message. `get` adds the evidence for the last one. A memory block would get
    messages only when the history overflows."""

    inner: Any
    session: str
    _memory: SafeMemory = PrivateAttr()

    def __init__(self, memory: SafeMemory, session: str, inner: BaseMemory | None = None) -> None:
        super().__init__(inner=inner or Memory.from_defaults(session_id=session), session=session)
        self._memory = memory

    @classmethod
    def class_name(cls) -> str:
        return "JustMemMemory"

    @classmethod
    def from_defaults(cls, **given: Any) -> JustMemMemory:
        return cls(**given)

    async def aget(self, input: str | None = None, **given: Any) -> list[ChatMessage]:
        history = await self.inner.aget(input, **given)
        said = [each.content or "" for each in history if each.role == MessageRole.USER]
        evidence = await self._memory.prompt(input or (said[-1] if said else ""))
        return [ChatMessage(role="system", content=evidence), *history] if evidence else history

    async def aput(self, message: ChatMessage) -> None:
        await self.inner.aput(message)
        await self._remember([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        await self.inner.aput_messages(messages)
        await self._remember(messages)

    async def _remember(self, messages: list[ChatMessage]) -> None:
        roles = {MessageRole.USER: "user", MessageRole.ASSISTANT: "assistant"}
        said = [(roles.get(each.role), each.content or "") for each in messages]
        turns = [turn(role, text) for role, text in said if role and text.strip()]
        await self._memory.append(f"llama-index-{self.session}", turns)

    async def aget_all(self) -> list[ChatMessage]:
        return list(await self.inner.aget_all())

    async def aset(self, messages: list[ChatMessage]) -> None:
        await self.inner.aset(messages)

    async def areset(self) -> None:
        await self.inner.areset()

    def get(self, input: str | None = None, **given: Any) -> list[ChatMessage]:
        return wait(self.aget(input, **given))

    def get_all(self) -> list[ChatMessage]:
        return wait(self.aget_all())

    def put(self, message: ChatMessage) -> None:
        wait(self.aput(message))

    def set(self, messages: list[ChatMessage]) -> None:
        wait(self.aset(messages))

    def reset(self) -> None:
        wait(self.areset())
