"""LangChain: a middleware for agents, and a retriever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import StructuredTool
from langgraph.config import get_config
from pydantic import ConfigDict, Field

from justmem.domain import Evidence
from justmem.integrations.safe import MemoryFor, SafeMemory, memory_for, turn, wait


class JustMemMiddleware(AgentMiddleware):
    """Adds evidence for the user's message to the system message of each model call, and remembers
    the exchange after the run. `memory` is a SafeMemory, or a function from the runtime to one, so
    that one agent can serve many users."""

    def __init__(self, memory: SafeMemory | MemoryFor) -> None:
        super().__init__()
        self._memory = memory

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Any:
        note = await memory_for(self._memory, request.runtime).note(_question(request.messages))
        return await handler(_noted(request, note))

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> Any:
        note = wait(memory_for(self._memory, request.runtime).note(_question(request.messages)))
        return handler(_noted(request, note))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        await memory_for(self._memory, runtime).append(_thread(state), _turns(state["messages"]))

    def after_agent(self, state: Any, runtime: Any) -> None:
        wait(memory_for(self._memory, runtime).append(_thread(state), _turns(state["messages"])))


def _question(messages: Sequence[AnyMessage]) -> str:
    """The user's last message, also in the later steps of a tool loop."""
    return next((str(each.text) for each in reversed(messages) if each.type == "human"), "")


def _noted(request: ModelRequest[Any], note: str) -> ModelRequest[Any]:
    if not note:
        return request
    known = request.system_message
    blocks = [*known.content_blocks] if known else []
    message = SystemMessage(content=[*blocks, {"type": "text", "text": note}])
    return request.override(system_message=message)


def _thread(state: Any) -> str:
    """The id of the thread, or else of the first message."""
    thread = get_config().get("configurable", {}).get("thread_id")
    return f"langchain-{thread or state['messages'][0].id}"


def _turns(messages: Sequence[AnyMessage]) -> list[dict[str, str]]:
    """All turns of the thread. Memory leaves out the ones whose id it knows."""
    roles = {"human": "user", "ai": "assistant"}
    return [
        turn(roles[each.type], str(each.text), each.id)
        for each in messages
        if each.type in roles and str(each.text).strip()
    ]


class JustMemRetriever(BaseRetriever):
    """Cards as documents, the best first. Errors are raised."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: SafeMemory
    k: int = Field(10, ge=1)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, **given: Any
    ) -> list[Document]:
        async with self.memory.using() as memory:
            return _documents(await memory.recall(query), given.get("k", self.k))

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, **given: Any
    ) -> list[Document]:
        return wait(self._aget_relevant_documents(query, run_manager=run_manager, **given))


def _documents(evidence: Evidence, k: int) -> list[Document]:
    return [
        Document(
            id=card.id,
            page_content=card.text,
            metadata={
                "session": card.session_id,
                "said_at": card.said_at.isoformat(),
                "event_date": str(card.event_date),
                "kind": card.kind,
            },
        )
        for card in evidence.cards[:k]
    ]


def memory_tools(memory: SafeMemory) -> list[StructuredTool]:
    """`recall`, for an agent that decides when to search."""
    return [StructuredTool.from_function(coroutine=memory.recall, name="recall")]
