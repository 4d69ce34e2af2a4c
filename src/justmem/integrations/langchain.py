"""LangChain: a middleware for agents, a retriever and a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import StructuredTool
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.config import get_config
from pydantic import ConfigDict, Field

from justmem.integrations.safe import MemoryFor, SafeMemory, memory_for, turn, wait


class _State(AgentState[Any]):
    """The evidence of a run. It is in no checkpoint."""

    justmem: NotRequired[  # type: ignore[valid-type]
        Annotated[str, UntrackedValue, PrivateStateAttr]
    ]


class JustMemMiddleware(AgentMiddleware):
    """Adds evidence for the user's message to the system message of each model call, and remembers
    the exchange after the run. `memory` is a SafeMemory, or a function from the runtime to one, so
    that one agent can serve many users."""

    state_schema = _State

    def __init__(self, memory: SafeMemory | MemoryFor) -> None:
        super().__init__()
        self._memory = memory

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, str]:
        question = _question(state["messages"])
        return {"justmem": await memory_for(self._memory, runtime).prompt(question)}

    def before_agent(self, state: Any, runtime: Any) -> dict[str, str]:
        return wait(self.abefore_agent(state, runtime))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Any:
        return await handler(_with_evidence(request))

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> Any:
        return handler(_with_evidence(request))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        await memory_for(self._memory, runtime).append(_thread(state), _turns(state["messages"]))

    def after_agent(self, state: Any, runtime: Any) -> None:
        wait(memory_for(self._memory, runtime).append(_thread(state), _turns(state["messages"])))


def _question(messages: Sequence[AnyMessage]) -> str:
    """The user's last message."""
    return next((str(each.text) for each in reversed(messages) if each.type == "human"), "")


def _with_evidence(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The evidence is at the end of the system message."""
    evidence = request.state.get("justmem")
    if not evidence:
        return request
    known = request.system_message
    blocks = [*known.content_blocks] if known else []
    message = SystemMessage(content=[*blocks, {"type": "text", "text": evidence}])
    return request.override(system_message=message)


def _thread(state: Any) -> str:
    """The id of the thread, or else of the first message."""
    thread = get_config().get("configurable", {}).get("thread_id")
    return f"langchain-{thread or state['messages'][0].id}"


def _turns(messages: Sequence[AnyMessage]) -> list[dict[str, str]]:
    """All turns of the thread. Memory leaves out the ones whose id it knows."""
    roles = {"human": "user", "ai": "assistant"}
    return [
        turn(roles[each.type], str(each.text), each.id) for each in messages if each.type in roles
    ]


class JustMemRetriever(BaseRetriever):
    """At most `k` cards as documents, the best first. None if memory fails."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: SafeMemory
    k: int = Field(10, ge=1)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, **given: Any
    ) -> list[Document]:
        found = await self.memory.evidence(query, limit=given.get("k", self.k))
        return [
            Document(id=card.id, page_content=card.text, metadata=card.model_dump(mode="json"))
            for card in (found.cards if found else ())
        ]

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, **given: Any
    ) -> list[Document]:
        return wait(self._aget_relevant_documents(query, run_manager=run_manager, **given))


def recall_tool(memory: SafeMemory) -> StructuredTool:
    """`recall`, for agents with and without an event loop."""
    tool = StructuredTool.from_function(coroutine=memory.recall)
    tool.func = lambda **given: wait(memory.recall(**given))
    return tool
