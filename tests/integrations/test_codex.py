"""The real Codex with our hooks, against a scripted server on loopback. CODEX is the program."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration_chats import (
    ASKED,
    PAGES,
    REPLY,
    SAID,
    home_environment,
    hooks_that_ran,
    run_program,
    scripted_server,
)


def reply(_: Any) -> Any:
    part = {"type": "output_text", "text": REPLY, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    usage = {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}
    usage |= {"input_tokens_details": None, "output_tokens_details": None}
    done = {"id": "r", "output": [message], "usage": usage}
    return [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": done},
    ]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With the hooks of the page."""
    page = (PAGES / "claude-code.md").read_text("utf-8")
    hooks = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert hooks
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "hooks.json").write_text(hooks[1], "utf-8")
    return tmp_path


@pytest.fixture
def server(home: Path) -> Iterator[list[Any]]:
    with scripted_server(reply) as (url, seen):
        provider = f'name = "local"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
        head = 'model = "m"\nmodel_provider = "local"\n[model_providers.local]\n'
        (home / ".codex" / "config.toml").write_text(head + provider, "utf-8")
        yield seen


def codex(home: Path, text: str, **more: str) -> str:
    # A user trusts the hooks once, in the program.
    options = ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", text]
    done = run_program([os.environ["CODEX"], *options], home, home_environment(home, **more))
    return done.stdout.strip()


def test_a_second_chat_knows_what_the_first_said(home: Path, server: list[Any]) -> None:
    codex(home, SAID)
    server.clear()
    assert codex(home, ASKED) == REPLY
    assert "walnuts" in json.dumps(server)
    assert hooks_that_ran(home) == {"the hook recall of codex", "the hook remember of codex"}


@pytest.mark.usefixtures("server")
def test_a_chat_goes_on_without_memory(home: Path) -> None:
    (home / "blocked").write_text("a file where the folder should be")
    assert codex(home, SAID, JUSTMEM_FOLDER=str(home / "blocked")) == REPLY
