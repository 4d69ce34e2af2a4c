"""OpenAI Agents SDK with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.memory import Session, SQLiteSession
from agents.models.interface import Model
from agents.tool_context import ToolContext
from agents.usage import Usage
from integration_chats import ARGUMENTS, ASKED, REPLY, SAID, run_own_suite, run_page, turns
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from justmem.integrations.openai_agents import JustMemSession, recalling
from justmem.integrations.safe import SafeMemory, turn

set_tracing_disabled(True)


class Scripted(Model):
    def __init__(self) -> None:
        self.instructions: list[str] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        self.instructions.append(system_instructions or "")
        text = ResponseOutputText(type="output_text", text=REPLY, annotations=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def chat(memory: SafeMemory, text: str, session: str) -> tuple[str, str]:
    model = Scripted()
    agent = Agent(
        name="helper",
        model=model,
        instructions=recalling("Be brief.", memory),
    )
    kept = JustMemSession(SQLiteSession(session), memory)
    assert isinstance(kept, Session)
    config = RunConfig(tracing_disabled=True)
    result = await Runner.run(agent, text, session=kept, run_config=config)
    return str(result.final_output), model.instructions[-1]


async def test_a_second_session_knows_what_the_first_said(memory: SafeMemory) -> None:
    await chat(memory, SAID, "one")
    answer, instructions = await chat(memory, ASKED, "two")
    assert answer == REPLY
    assert instructions.startswith("Be brief.")
    assert "allergic to walnuts" in instructions
    assert (await turns(memory))[:2] == [f"user: {SAID}", f"assistant: {REPLY}"]


async def test_a_chat_goes_on_without_memory(broken: SafeMemory) -> None:
    assert await chat(broken, SAID, "one") == (REPLY, "Be brief.")
    assert broken.error is not None


# What stands in for the SDK's session in its own tests.
STAND_IN = """
import tempfile
import agents
import justmem
from justmem.integrations.openai_agents import JustMemSession
from justmem.integrations.safe import SafeMemory
from justmem.testing import HashEmbedder

settings = {"folder": tempfile.mkdtemp(), "embedder": HashEmbedder(), "reranker": "none"}
memory = SafeMemory(justmem.open("ana", **settings))

class SQLiteSession(JustMemSession):
    def __init__(self, *given, **named):
        super().__init__(agents.SQLiteSession(*given, **named), memory)
    def close(self):
        self.inner.close()
"""
# These look inside of SQLite.
NOT_PORTABLE = (
    "mutation or connection or corrupt or lock or closed or rolls_back or cancellation "
    "or add_items_exception"
)


def test_our_session_passes_the_portable_tests_of_the_sdk(tmp_path: Path) -> None:
    change = (
        "SQLiteSession, TResponseInputItem",
        "TResponseInputItem\nfrom stand_in import SQLiteSession",
    )
    passed = run_own_suite(
        tmp_path, "openai-agents", "tests/memory/test_session.py", STAND_IN, change, NOT_PORTABLE
    )
    assert passed > 20


async def test_popped_and_cleared_messages_are_forgotten(memory: SafeMemory) -> None:
    session = JustMemSession(SQLiteSession("one"), memory)
    await session.add_items([{"role": "user", "content": "I like tea."}])
    await session.add_items([{"role": "user", "content": SAID}])
    assert len(await session.get_items(1)) == 1
    assert (await session.pop_item())["content"] == SAID
    assert "walnuts" not in await memory.prompt(ASKED)
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None
    assert await turns(memory) == []


async def test_the_tool_takes_the_callers_plan(memory: SafeMemory) -> None:
    await memory.append("chat", [turn("user", SAID)])
    recall = function_tool(memory.recall)
    assert set(recall.params_json_schema["properties"]) == ARGUMENTS
    asked = json.dumps(dict.fromkeys(ARGUMENTS) | {"question": ASKED, "needs_source": True})
    context: Any = ToolContext(None, tool_name="recall", tool_call_id="1", tool_arguments=asked)
    assert "walnuts" in await recall.on_invoke_tool(context, asked)


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs() -> None:
    run_page("openai-agents.md", model=Scripted())
