"""The real Claude Code with our plugin, against a scripted server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from integration_chats import (
    ASKED,
    REPLY,
    SAID,
    home_environment,
    hooks_that_ran,
    run_program,
    scripted_server,
)

ROOT = Path(__file__).parents[2]
CLAUDE = str(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")


def reply(request: Any) -> Any:
    usage = {"input_tokens": 5, "output_tokens": 5}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage, "content": []}
    block = {"type": "text", "text": REPLY}
    if not request.get("stream"):
        return message | {"content": [block], "stop_reason": "end_turn"}
    delta = {"type": "text_delta", "text": REPLY}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block | {"text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    with scripted_server(reply) as served:
        yield served


def claude(home: Path, url: str, *options: str, **more: str) -> str:
    environment = home_environment(
        home,
        ANTHROPIC_BASE_URL=url,
        ANTHROPIC_API_KEY="not-a-key",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        MCP_TIMEOUT="120000",
        IS_SANDBOX="1",
        **more,
    )
    return run_program([CLAUDE, *options], home, environment).stdout.strip()


def install(home: Path, url: str) -> None:
    """As the page says."""
    claude(home, url, "plugin", "marketplace", "add", str(ROOT))
    claude(home, url, "plugin", "install", "justmem@justmem")


def test_a_second_chat_knows_what_the_first_said(
    tmp_path: Path, server: tuple[str, list[Any]]
) -> None:
    url, seen = server
    install(tmp_path, url)
    claude(tmp_path, url, "-p", SAID)
    seen.clear()
    assert claude(tmp_path, url, "-p", ASKED) == REPLY
    assert "walnuts" in json.dumps(seen)
    ran = {"the hook recall of claude-code", "the hook remember of claude-code"}
    assert hooks_that_ran(tmp_path) == ran


def test_the_plugin_brings_the_tools(tmp_path: Path, server: tuple[str, list[Any]]) -> None:
    url, _ = server
    install(tmp_path, url)
    (line,) = [each for each in claude(tmp_path, url, "mcp", "list").splitlines() if "just" in each]
    assert line.startswith("plugin:justmem:justmem")
    assert line.endswith("Connected")


def test_a_chat_goes_on_without_memory(tmp_path: Path, server: tuple[str, list[Any]]) -> None:
    url, _ = server
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    install(tmp_path, url)
    assert claude(tmp_path, url, "-p", SAID, JUSTMEM_FOLDER=str(blocked)) == REPLY
