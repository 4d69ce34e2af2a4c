"""LlamaIndex with a scripted model."""

from __future__ import annotations

from typing import Any

import pytest
from integration_chats import ARGUMENTS, ASKED, REPLY, SAID, run_page, turns
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.tools import FunctionTool

import justmem
from justmem.integrations.llama_index import JustMemMemory
from justmem.integrations.safe import SafeMemory, turn

SEEN: list[str] = []


class Scripted(MockLLM):
    @llm_chat_callback()
    def chat(self, messages: Any, **_: Any) -> Any:
        from llama_index.core.base.llms.types import ChatResponse

        SEEN.append("\n".join(str(each.content) for each in messages))
        return ChatResponse(message=ChatMessage(role="assistant", content=REPLY))

    @llm_chat_callback()
    async def achat(self, messages: Any, **given: Any) -> Any:
        return self.chat(messages, **given)


def engine(memory: SafeMemory, session: str) -> Any:
    return SimpleChatEngine.from_defaults(llm=Scripted(), memory=JustMemMemory(memory, session))


async def test_a_second_chat_knows_what_the_first_said(memory: SafeMemory) -> None:
    await engine(memory, "one").achat(SAID)
    answer = await engine(memory, "two").achat(ASKED)
    assert str(answer) == REPLY
    assert "allergic to walnuts" in SEEN[-1]
    assert (await turns(memory))[:2] == [f"user: {SAID}", f"assistant: {REPLY}"]


def test_without_an_event_loop(settings: dict[str, Any]) -> None:
    with justmem.open("ana", **settings) as opened:
        engine(SafeMemory(opened), "one").chat(SAID)
        engine(SafeMemory(opened), "two").chat(ASKED)
    assert "allergic to walnuts" in SEEN[-1]


async def test_the_history_of_the_chat_stays_in_its_own_memory(memory: SafeMemory) -> None:
    chat = JustMemMemory(memory, "one")
    await chat.aput(ChatMessage(role="user", content="Hello."))
    assert [each.content for each in await chat.aget_all()] == ["Hello."]
    await chat.areset()
    assert await chat.aget_all() == []


async def test_a_chat_goes_on_without_memory(broken: SafeMemory) -> None:
    assert str(await engine(broken, "one").achat(SAID)) == REPLY
    assert broken.error is not None


async def test_the_tool_takes_the_callers_plan(memory: SafeMemory) -> None:
    await memory.append("chat", [turn("user", SAID)])
    recall = FunctionTool.from_defaults(async_fn=memory.recall)
    assert set(recall.metadata.get_parameters_dict()["properties"]) == ARGUMENTS
    assert "walnuts" in str(await recall.acall(question=ASKED, needs_source=True))


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs() -> None:
    run_page("llama-index.md", model=Scripted())
