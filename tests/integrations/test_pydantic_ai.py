"""Pydantic AI with a scripted model."""

from __future__ import annotations

from typing import Any

import pytest
from integration_chats import ARGUMENTS, ASKED, REPLY, SAID, run_page, turns
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

import justmem
from justmem.integrations.pydantic_ai import JustMemCapability
from justmem.integrations.safe import SafeMemory

SEEN: list[Any] = []


async def reply(messages: Any, info: Any) -> ModelResponse:
    SEEN.append(info.instructions or "")
    return ModelResponse(parts=[TextPart(REPLY)])


def agent(memory: Any) -> Any:
    return Agent(FunctionModel(reply), capabilities=[JustMemCapability(memory)])


async def test_a_second_run_knows_what_the_first_said(memory: SafeMemory) -> None:
    chat = agent(memory)
    await chat.run(SAID)
    answer = await chat.run(ASKED)
    assert answer.output == REPLY
    assert "allergic to walnuts" in SEEN[-1]
    assert (await turns(memory))[:2] == [f"user: {SAID}", f"assistant: {REPLY}"]


async def test_each_user_has_a_memory(settings: dict[str, Any]) -> None:
    async with justmem.Spaces(**settings) as spaces:
        chat = agent(lambda context: SafeMemory(spaces, context.deps))
        await chat.run(SAID, deps="ana")
        await spaces.drain()
        await chat.run(ASKED, deps="ben")
        assert "walnuts" not in SEEN[-1]
        await chat.run(ASKED, deps="ana")
        assert "walnuts" in SEEN[-1]


async def test_a_chat_goes_on_without_memory(broken: SafeMemory) -> None:
    assert (await agent(broken).run(SAID)).output == REPLY
    assert broken.error is not None


def test_the_tool_takes_the_callers_plan(memory: SafeMemory) -> None:
    schema = Tool(memory.recall).function_schema.json_schema
    assert set(schema["properties"]) == ARGUMENTS


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs() -> None:
    run_page("pydantic-ai.md", model=FunctionModel(reply))
