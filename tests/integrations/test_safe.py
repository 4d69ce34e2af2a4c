"""A memory that fails is told of, and nothing breaks."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from integration_chats import ASKED, SAID, run_page

import justmem
from justmem.errors import InputError, TooSlow
from justmem.integrations.safe import SafeMemory, turn, wait


async def test_an_appended_turn_is_in_the_next_prompt(memory: SafeMemory) -> None:
    await memory.append("chat", [turn("user", SAID, "1")])
    await memory.append("chat", [turn("user", SAID, "1")])  # sent again
    note = await memory.prompt(ASKED)
    assert note.count("walnuts") == 1
    assert "walnuts" in await memory.recall(ASKED, needs_source=True)
    assert memory.error is None


async def test_a_failure_is_logged_and_passed_to_the_hook(
    broken: SafeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[BaseException] = []
    broken._on_error = told.append
    with caplog.at_level(logging.WARNING, "justmem.integrations"):
        assert await broken.prompt(ASKED) == ""
        await broken.append("chat", [turn("user", SAID)])
    assert len(caplog.records) == len(told) == 2
    assert broken.error is told[-1]


async def test_the_tool_tells_the_model_why_it_found_nothing(
    memory: SafeMemory, broken: SafeMemory
) -> None:
    assert await memory.recall(ASKED) == "(nothing in memory)"
    assert await broken.recall(ASKED) == "(memory is not available now)"
    assert "period cannot be 'May'" in await memory.recall(ASKED, period="May")
    assert "The question is empty" in await memory.recall(" ")


async def test_a_slow_memory_is_not_waited_for(memory: SafeMemory) -> None:
    memory._seconds = 0.0
    assert await memory.prompt(ASKED) == ""
    assert isinstance(memory.error, TooSlow)
    assert "justmem models pull" in str(memory.error)


async def test_many_users_share_one_process(settings: dict[str, Any]) -> None:
    async with justmem.Spaces(**settings) as spaces:
        ana, ben = SafeMemory(spaces, "ana"), SafeMemory(spaces, "ben")
        await ana.append("chat", [turn("user", SAID)])
        await ben.append("chat", [turn("user", "I like tea.")])
        await spaces.drain()
        assert "walnuts" in await ana.prompt(ASKED)
        assert "walnuts" not in await ben.prompt(ASKED)
        with pytest.raises(InputError, match="space is needed"):
            SafeMemory(spaces)


def test_synchronous_code_waits(settings: dict[str, Any]) -> None:
    with justmem.open("ana", **settings) as opened:
        memory = SafeMemory(opened)
        wait(memory.append("chat", [turn("user", SAID)]))
        assert "walnuts" in wait(memory.prompt(ASKED))


async def test_removed_turns_are_forgotten(memory: SafeMemory) -> None:
    await memory.append("chat", [turn("user", "I like tea."), turn("user", SAID)])
    await memory.forget_last("chat")
    assert "walnuts" not in await memory.prompt(ASKED)
    assert "tea" in await memory.prompt("What do I like to drink, tea?")
    await memory.forget_session("chat")
    assert await memory.prompt("What do I like to drink, tea?") == ""
    await memory.forget_session("nosuch")


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs() -> None:
    run_page("index.md")
