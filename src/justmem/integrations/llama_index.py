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

    # The asynchronous methods of BaseMemory call these in a thread.
    def get(self, input: str | None = None, **given: Any) -> list[ChatMessage]:
        history = list(self.inner.get(input, **given))
        said = [each.content or "" for each in history if each.role == MessageRole.USER]
        evidence = wait(self._memory.prompt(input or (said[-1] if said else "")))
        return [ChatMessage(role="system", content=evidence), *history] if evidence else history

    def put(self, message: ChatMessage) -> None:
        self.inner.put(message)
        role = {MessageRole.USER: "user", MessageRole.ASSISTANT: "assistant"}.get(message.role)
        if role:
            said = turn(role, message.content or "")
            wait(self._memory.append(f"llama-index-{self.session}", [said]))

    def get_all(self) -> list[ChatMessage]:
        return list(self.inner.get_all())

    def set(self, messages: list[ChatMessage]) -> None:
        self.inner.set(messages)

    def reset(self) -> None:
        self.inner.reset()
