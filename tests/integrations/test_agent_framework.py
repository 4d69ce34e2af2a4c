"""Microsoft Agent Framework with a scripted client."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import Agent, BaseChatClient, ChatResponse, Message, tool
from integration_chats import ARGUMENTS, ASKED, REPLY, SAID, run_page, turns

from justmem.integrations.agent_framework import JustMemProvider
from justmem.integrations.safe import SafeMemory, turn


class Scripted(BaseChatClient):  # type: ignore[type-arg]
    seen: list[str] = []  # noqa: RUF012

    def _inner_get_response(
        self, *, messages: Any, stream: bool = False, options: Any, **_: Any
    ) -> Any:
        async def answer() -> ChatResponse:
            said = [str(options.get("instructions") or ""), *(each.text for each in messages)]
            self.seen.append("\n".join(said))
            return ChatResponse(messages=[Message("assistant", [REPLY])])

        return answer()


def agent(memory: SafeMemory) -> Any:
    return Agent(client=Scripted(), context_providers=[JustMemProvider(memory)])


async def test_a_second_session_knows_what_the_first_said(memory: SafeMemory) -> None:
    chat = agent(memory)
    await chat.run(SAID, session=chat.create_session())
    answer = await chat.run(ASKED, session=chat.create_session())
    assert answer.text == REPLY
    assert "allergic to walnuts" in Scripted.seen[-1]
    assert (await turns(memory))[:2] == [f"user: {SAID}", f"assistant: {REPLY}"]


async def test_a_chat_goes_on_without_memory(broken: SafeMemory) -> None:
    chat = agent(broken)
    assert (await chat.run(SAID, session=chat.create_session())).text == REPLY
    assert broken.error is not None


async def test_the_tool_takes_the_callers_plan(memory: SafeMemory) -> None:
    await memory.append("chat", [turn("user", SAID)])
    recall = tool(memory.recall)
    assert set(recall.parameters()["properties"]) == ARGUMENTS
    found = await recall.invoke(arguments={"question": ASKED, "needs_source": True})
    assert "walnuts" in found[0].text


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs() -> None:
    run_page("agent-framework.md", client=Scripted())
