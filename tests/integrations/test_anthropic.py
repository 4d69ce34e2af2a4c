"""The memory tool beside the SDK's own file-system tool, and with the real client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaAsyncLocalFilesystemMemoryTool
from integration_chats import SAID, run_page, scripted_server

import justmem
from justmem.integrations.anthropic import AsyncJustMemMemoryTool, JustMemMemoryTool
from justmem.integrations.safe import SafeMemory


def command(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"command": name, "path": path, **more}


def create(path: str, text: str = "one\ntwo\nthree\n") -> dict[str, Any]:
    return command("create", path, file_text=text)


def replace(path: str, old: str, new: str) -> dict[str, Any]:
    return command("str_replace", path, old_str=old, new_str=new)


def insert(path: str, line: int, text: str = "new\n") -> dict[str, Any]:
    return command("insert", path, insert_line=line, insert_text=text)


def rename(old: str, new: str) -> dict[str, Any]:
    return {"command": "rename", "old_path": old, "new_path": new}


A, B = "/memories/a.txt", "/memories/work/b.txt"
VIEW = command("view", "/memories")
STORIES = {
    "an empty memory": [VIEW, command("view", "/memories/"), command("view", A)],
    "a file": [create(A), command("view", A), create(A, "x"), VIEW],
    "a blank file": [create(A, ""), command("view", A), insert(A, 0), command("view", A), VIEW],
    "a part": [create(A), *(command("view", A, view_range=r) for r in ([2, 3], [2, -1], [0, 9]))],
    "directories": [
        create(A, "x" * 1024),
        create(B, "é" * 900),
        create("/memories/work/deep/deeper/c.txt"),
        create("/memories/work.txt", ""),
        create("/memories/.hidden/d.txt"),
        create("/memories/work/.hidden"),
        VIEW,
        command("view", "/memories/work"),
        command("view", "/memories/work/deep/deeper"),
        command("view", "/memories/work/../work/b.txt"),
        create("/memories/work"),
        create("/memories"),
        replace("/memories/work", "a", "b"),
        insert("/memories/work", 0),
    ],
    "replace": [
        create(A, "one\ntwo\nthree two\n" + "more\n" * 9),
        replace(A, "one", "first\nline"),
        replace(A, "two", "2"),
        replace(A, "four", "4"),
        replace(A, "", "4"),
        replace(B, "one", "1"),
        replace(A, "three two", ""),
        command("view", A),
    ],
    "overlapping": [create(A, "aaaa"), replace(A, "aa", "b"), replace(A, "aaa", "b")],
    "insert": [
        create(A, "one\ntwo"),
        insert(A, 0),
        insert(A, 3, "last"),
        insert(A, 1, "a\nb\n\n"),
        insert(A, -1),
        insert(A, 99),
        insert(B, 0),
        command("view", A),
    ],
    "delete": [
        create(A),
        create(B),
        command("delete", A),
        command("delete", A),
        command("view", A),
        command("delete", "/memories/work"),
        command("delete", "/memories"),
        command("delete", "/memories/"),
        VIEW,
    ],
    "rename": [
        create(A),
        create(B, "two"),
        create("/memories/work/deep/c.txt"),
        rename(A, B),
        rename(A, "/memories/work"),
        rename("/memories/missing", "/memories/found"),
        rename("/memories", "/memories/x"),
        rename("/memories/work", "/memories/life"),
        command("view", "/memories/life/deep/c.txt"),
        command("view", B),
        rename("/memories/a.txt", "/memories/life/first.txt"),
        VIEW,
    ],
    "paths": [
        command("view", "/etc/passwd"),
        command("view", "/memories/../secret"),
        create("/memories/a/../../b"),
        command("delete", "/memories/.."),
        rename(A, "/elsewhere"),
        create("/memories//a//./b.txt"),
        VIEW,
        command("view", "/memories/a/b.txt/c"),
    ],
}


async def said(tool: Any, given: dict[str, Any]) -> str:
    try:
        return str(await tool.call(given))
    except ToolError as error:
        return f"error: {error}"


@pytest.mark.parametrize("story", STORIES)
async def test_the_replies_are_those_of_the_file_system_tool(
    story: str, memory: SafeMemory, tmp_path: Path
) -> None:
    own, theirs = AsyncJustMemMemoryTool(memory), BetaAsyncLocalFilesystemMemoryTool(str(tmp_path))
    for given in STORIES[story]:
        assert await said(own, given) == await said(theirs, given), given


@pytest.mark.parametrize("given", [create(f"{A}/b.txt"), rename(B, f"{A}/b.txt")])
async def test_a_file_cannot_be_a_directory(memory: SafeMemory, given: dict[str, Any]) -> None:
    tool = AsyncJustMemMemoryTool(memory)
    for path in (A, B):
        await said(tool, create(path))
    assert await said(tool, given) == f"error: {A} is a file, not a directory"
    moved = await said(tool, rename("/memories/work", "/memories/work/inner"))
    assert moved == "error: The path /memories/work cannot be moved into itself"


async def test_files_are_recalled_and_cleared_like_notes(memory: SafeMemory) -> None:
    tool = AsyncJustMemMemoryTool(memory)
    await tool.call(create(A, SAID))
    assert "walnuts" in await memory.prompt("walnuts")
    assert await tool.clear_all_memory() == "All memory cleared"
    async with memory.using() as opened:
        assert await opened.notes() == []


def test_the_synchronous_tool_does_the_same(settings: dict[str, Any]) -> None:
    with justmem.open("ana", **settings) as opened:
        tool = JustMemMemoryTool(SafeMemory(opened))
        given = [create(A), replace(A, "one", "1"), insert(A, 1), rename(A, B), command("view", B)]
        replies = [str(tool.call(each)) for each in given]
        assert "     2\tnew" in replies[-1]
        assert "deleted" in str(tool.call(command("delete", B)))
        assert tool.clear_all_memory() == "All memory cleared"


# ---------------------------------------------------------------- with the client


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    """Calls the tool twice, then ends."""
    script = [[create(A, SAID)], [command("view", A)], []]

    def reply(_: Any) -> Any:
        calls = [
            {"type": "tool_use", "id": f"t{len(script)}", "name": "memory", "input": each}
            for each in script.pop(0)
        ]
        return {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": calls or [{"type": "text", "text": "Done."}],
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {"input_tokens": 5, "output_tokens": 5},
        }

    with scripted_server(reply) as served:
        yield served


def results(request: Any) -> list[Any]:
    return [part for part in request["messages"][-1]["content"] if part["type"] == "tool_result"]


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs(server: tuple[str, list[Any]]) -> None:
    url, seen = server
    with Anthropic(api_key="not-a-key", base_url=url) as client:
        made = run_page("anthropic.md", client=client)
    assert {"type": "memory_20250818", "name": "memory"} in seen[0]["tools"]
    assert "walnuts" in str(results(seen[2])[0]["content"])
    assert made["message"].content[0].text == "Done."


async def test_a_chat_goes_on_without_memory(
    server: tuple[str, list[Any]], broken: SafeMemory
) -> None:
    url, seen = server
    async with AsyncAnthropic(api_key="not-a-key", base_url=url) as client:
        runner = client.beta.messages.tool_runner(
            model="m",
            max_tokens=100,
            tools=[AsyncJustMemMemoryTool(broken)],
            messages=[{"role": "user", "content": SAID}],
        )
        message = await runner.until_done()
    assert message.content[0].text == "Done."
    assert results(seen[1])[0]["is_error"]
