"""Pydantic AI with a scripted model."""

from __future__ import annotations

from typing import Any

import pytest
from integration_chats import ASKED, REPLY, SAID, run_page, turns
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

import justmem
from justmem.integrations.pydantic_ai import JustMemCapability
from justmem.integrations.safe import SafeMemory

SEEN: list[Any] = []


async def reply(messages: Any, info: Any) -> ModelResponse:
    SEEN.append((info.instructions or "", [tool.name for tool in info.function_tools]))
    return ModelResponse(parts=[TextPart(REPLY)])


def agent(memory: Any, **more: Any) -> Any:
    return Agent(FunctionModel(reply), capabilities=[JustMemCapability(memory, **more)])


async def test_a_second_run_knows_what_the_first_said(memory: SafeMemory) -> None:
    chat = agent(memory, tool=True)
    await chat.run(SAID)
    answer = await chat.run(ASKED)
    assert answer.output == REPLY
    instructions, tools = SEEN[-1]
    assert "allergic to walnuts" in instructions
    assert tools == ["recall"]
    assert (await turns(memory))[:2] == [f"user: {SAID}", f"assistant: {REPLY}"]


async def test_each_user_has_a_memory(settings: dict[str, Any]) -> None:
    async with justmem.Spaces(**settings) as spaces:
        chat = agent(lambda context: SafeMemory(spaces, context.deps))
        await chat.run(SAID, deps="ana")
        await spaces.drain()
        await chat.run(ASKED, deps="ben")
        assert "walnuts" not in SEEN[-1][0]
        await chat.run(ASKED, deps="ana")
        assert "walnuts" in SEEN[-1][0]


async def test_a_chat_goes_on_without_memory(broken: SafeMemory) -> None:
    assert (await agent(broken).run(SAID)).output == REPLY
    assert broken.error is not None


@pytest.mark.usefixtures("quiet_settings")
async def test_the_page_runs() -> None:
    made = await run_page("pydantic-ai.md", model=FunctionModel(reply))
    assert made["memory"].error is None
    assert "walnuts" in await made["memory"].note(ASKED)
    async with made["memory"].using() as opened:
        await opened.close()
