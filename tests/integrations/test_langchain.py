"""LangChain agents with a scripted model, and the official tests for retrievers."""

from __future__ import annotations

from typing import Any

import pytest
from integration_chats import ARGUMENTS, ASKED, REPLY, SAID, run_page, turns
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langgraph.checkpoint.memory import InMemorySaver

import justmem
from justmem.integrations.langchain import JustMemMiddleware, JustMemRetriever, recall_tool
from justmem.integrations.safe import SafeMemory, turn, wait


class Scripted(BaseChatModel):
    seen: list[str] = []  # noqa: RUF012  pydantic copies it

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        self.seen.append("\n".join(str(each.text) for each in messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(REPLY))])

    @property
    def _llm_type(self) -> str:
        return "scripted"


def said(text: str, thread: str) -> tuple[Any, Any]:
    messages = {"messages": [{"role": "user", "content": text}]}
    return messages, {"configurable": {"thread_id": thread}}


def agent(model: Scripted, memory: Any) -> Any:
    return create_agent(
        model,
        system_prompt="Be brief.",
        middleware=[JustMemMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )


async def test_a_second_thread_knows_what_the_first_said(memory: SafeMemory) -> None:
    model = Scripted()
    chat = agent(model, memory)
    await chat.ainvoke(*said(SAID, "one"))
    await chat.ainvoke(*said("Thanks.", "one"))
    answer = await chat.ainvoke(*said(ASKED, "two"))
    assert "Be brief." in model.seen[-1]
    assert "allergic to walnuts" in model.seen[-1]
    assert answer["messages"][-1].text == REPLY
    exchange = [f"user: {SAID}", f"assistant: {REPLY}", "user: Thanks.", f"assistant: {REPLY}"]
    assert (await turns(memory))[:4] == exchange  # nothing twice


async def test_a_streamed_run_is_remembered(memory: SafeMemory) -> None:
    async for _ in agent(Scripted(), memory).astream(*said(SAID, "one")):
        pass
    assert f"user: {SAID}" in await turns(memory)


def test_without_an_event_loop(settings: dict[str, Any]) -> None:
    model = Scripted()
    with justmem.open("ana", **settings) as opened:
        chat = agent(model, SafeMemory(opened))
        chat.invoke(*said(SAID, "one"))
        chat.invoke(*said(ASKED, "two"))
    assert "allergic to walnuts" in model.seen[-1]


async def test_each_user_has_a_memory(settings: dict[str, Any]) -> None:
    model = Scripted()
    async with justmem.Spaces(**settings) as spaces:
        chat = agent(model, lambda runtime: SafeMemory(spaces, runtime.context["user"]))
        await chat.ainvoke(*said(SAID, "one"), context={"user": "ana"})
        await spaces.drain()
        await chat.ainvoke(*said(ASKED, "two"), context={"user": "ben"})
        assert "walnuts" not in model.seen[-1]
        await chat.ainvoke(*said(ASKED, "three"), context={"user": "ana"})
        assert "walnuts" in model.seen[-1]


async def test_a_chat_goes_on_without_memory(broken: SafeMemory) -> None:
    answer = await agent(Scripted(), broken).ainvoke(*said(SAID, "one"))
    assert answer["messages"][-1].text == REPLY
    assert broken.error is not None


async def test_the_tool_takes_the_callers_plan(memory: SafeMemory) -> None:
    tool = recall_tool(memory)
    assert set(tool.args) == ARGUMENTS
    await memory.append("chat", [turn("user", SAID)])
    asked = {"question": ASKED, "needs_source": True}
    assert "walnuts" in await tool.ainvoke(asked)
    assert "walnuts" in tool.invoke(asked)


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs() -> None:
    run_page("langchain.md", model=Scripted())


class TestRetriever(RetrieversIntegrationTests):
    """The official tests."""

    @pytest.fixture(autouse=True)
    def filled(self, settings: dict[str, Any]) -> Any:
        with justmem.open("ana", **settings) as opened:
            type(self).memory = SafeMemory(opened)
            facts = ("I like walnuts.", "I like tea.", "I like chess.", "I like Graz.")
            wait(type(self).memory.append("chat", [turn("user", fact) for fact in facts]))
            yield

    @property
    def retriever_constructor(self) -> type[JustMemRetriever]:
        return JustMemRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": type(self).memory}  # type: ignore[attr-defined]

    @property
    def retriever_query_example(self) -> str:
        return "What do I like: walnuts, tea, chess or Graz?"
