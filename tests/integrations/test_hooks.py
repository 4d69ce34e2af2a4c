"""The hook commands with the events that assistants send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from integration_chats import ASKED, SAID
from typer.testing import CliRunner

from justmem.cli import app
from justmem.integrations.hooks import FILE, Event
from justmem.runtime import private_files

PROMPTS: dict[str, dict[str, Any]] = {
    "claude-code": {"session_id": "s1", "hook_event_name": "UserPromptSubmit"},
    "codex": {"session_id": "s1", "turn_id": "t1", "hook_event_name": "UserPromptSubmit"},
    "cursor": {"conversation_id": "s1", "hook_event_name": "beforeSubmitPrompt"},
    "cline": {"hookName": "UserPromptSubmit", "taskId": "s1"},
}
ADDED = {
    "claude-code": ("hookSpecificOutput", "additionalContext"),
    "codex": ("hookSpecificOutput", "additionalContext"),
    "cursor": ("additional_context",),
    "cline": ("contextModification",),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "HOME": str(tmp_path),
        "JUSTMEM_FOLDER": str(tmp_path / "memory"),
        "JUSTMEM_EMBEDDER": "justmem.testing:HashEmbedder",
        "JUSTMEM_RERANKER": "none",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def hook(name: str, event: Any, *options: str) -> Any:
    sent = event if isinstance(event, str) else json.dumps(event)
    done = CliRunner().invoke(app, ["hook", name, *options], input=sent)
    assert done.exit_code == 0, done.output
    return done


def event(client: str, prompt: str, **more: Any) -> dict[str, Any]:
    said = {"prompt": prompt}
    return PROMPTS[client] | ({"userPromptSubmit": said} if client == "cline" else said) | more


@pytest.mark.parametrize("client", PROMPTS)
def test_the_next_prompt_recalls_the_last_one(home: Path, client: str) -> None:
    hook("remember", event(client, SAID))
    found = json.loads(hook("recall", event(client, ASKED)).stdout)
    for name in ADDED[client]:
        found = found[name]
    assert "walnuts" in found
    assert hook("recall", event(client, "hi")).stdout == ""


ROWS = [
    {"type": "user", "uuid": "a", "message": {"role": "user", "content": SAID}},
    {"type": "user", "uuid": "b", "isMeta": True, "message": {"role": "user", "content": "meta"}},
    {"type": "summary"},
    {
        "uuid": "c",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "I see."}]},
    },
    {"uuid": "d", "message": {"role": "user", "content": "<command-name>/clear</command-name>"}},
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "From Codex."}],
        },
    },
]


def test_the_record_of_hook_runs_is_private(home: Path) -> None:
    hook("recall", event("codex", ASKED))
    assert not private_files.is_open(home / "memory" / FILE)


def test_a_transcript_is_remembered_once(home: Path) -> None:
    path = home / "talk.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS) + '\n{"cut', "utf-8")
    sent = event("claude-code", "", transcript_path=str(path))
    for _ in range(2):
        hook("remember", sent)
    read = [each["content"] for each in Event.read(json.dumps(sent)).turns()]
    assert read == [SAID, "I see.", "From Codex."]
    shown = CliRunner().invoke(app, ["sessions", "--json"])
    (session,) = json.loads(shown.stdout)
    assert (session["id"], session["turns"]) == ("claude-code-s1", 3)


@pytest.mark.parametrize("sent", ["", "no JSON", "[]", '{"transcript_path": "/nosuch"}'])
def test_an_invalid_event_does_not_stop_the_assistant(home: Path, sent: str) -> None:
    for name in ("recall", "remember"):
        assert hook(name, sent).stdout == ""


def test_a_broken_memory_does_not_stop_the_assistant_and_doctor_reports_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "memory").mkdir()
    (home / "memory" / "default.db").write_bytes(b"not a database at all" * 500)
    done = hook("recall", event("claude-code", ASKED))
    assert done.stdout == ""
    assert "justmem hook recall" in done.stderr
    shown = CliRunner().invoke(app, ["doctor", "--offline", "--json"])
    what = "the hook recall of claude-code"
    (check,) = [each for each in json.loads(shown.stdout) if what in each["what"]]
    assert check["state"] == "wrong"
