"""Strands Agents with a scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from integration_chats import ASKED, REPLY, SAID, run_page, turns
from strands import Agent
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext
from strands.models import Model

from justmem.integrations.safe import SafeMemory, turn
from justmem.integrations.strands import JustMemStore


class Scripted(Model):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.seen.append(json.dumps(messages))
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": REPLY}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


async def chat(memory: SafeMemory, text: str) -> tuple[str, str]:
    model = Scripted()
    manager = MemoryManager(stores=[JustMemStore(memory)])
    agent = Agent(model=model, memory_manager=manager, callback_handler=None)
    answer = await agent.invoke_async(text)
    await manager.flush()
    return str(answer).strip(), model.seen[-1]


async def test_a_second_agent_knows_what_the_first_was_told(memory: SafeMemory) -> None:
    await chat(memory, SAID)
    answer, seen = await chat(memory, ASKED)
    assert answer == REPLY
    assert "allergic to walnuts" in seen
    assert (await turns(memory))[:2] == [f"user: {SAID}", f"assistant: {REPLY}"]


async def test_a_retried_batch_is_stored_once(memory: SafeMemory) -> None:
    store = JustMemStore(memory)
    batch: Any = [{"role": "user", "content": [{"text": SAID}]}]
    for _ in range(2):
        await store.add_messages(batch, AddMessagesContext(sequence_numbers=[0]))
    assert await turns(memory) == [f"user: {SAID}"]


async def test_a_chat_goes_on_without_memory(broken: SafeMemory) -> None:
    assert (await chat(broken, SAID))[0] == REPLY
    assert broken.error is not None


async def test_the_managers_tool_searches_it(memory: SafeMemory) -> None:
    await memory.append("chat", [turn("user", SAID)])
    (search,) = MemoryManager(stores=[JustMemStore(memory)]).tools
    use: Any = {"toolUseId": "1", "name": "search_memory", "input": {"query": ASKED}}
    results = [each async for each in search.stream(use, {})]
    assert "walnuts" in str(results[-1])


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs() -> None:
    run_page("strands.md", model=Scripted())
