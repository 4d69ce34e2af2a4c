"""The real Claude Code with our plugin's hooks, against a scripted server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import claude_agent_sdk
import pytest
from integration_chats import ASKED, REPLY, SAID

PLUGIN = Path(__file__).parents[2] / "plugins" / "claude-code"
CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


@pytest.fixture
def requests() -> Iterator[list[Any]]:
    """What Claude Code sends. The address is in the last place."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append(body)
            usage = {"input_tokens": 5, "output_tokens": 5}
            message = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
            message |= {"stop_reason": None, "stop_sequence": None, "usage": usage, "content": []}
            block = {"type": "text", "text": REPLY}
            events: list[Any] = [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": block | {"text": ""}},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "text_delta", "text": REPLY},
                },
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
                {"type": "message_stop"},
            ]
            data = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
            whole = message | {"content": [block], "stop_reason": "end_turn"}
            text = data if body.get("stream") else json.dumps(whole)
            self.send_response(200)
            kind = "text/event-stream" if body.get("stream") else "application/json"
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    seen.append(f"http://127.0.0.1:{server.server_port}")
    yield seen
    server.shutdown()
    server.server_close()


def environment(home: Path, url: str, **more: str) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "JUSTMEM_FOLDER": str(home / "memory"),
        "JUSTMEM_EMBEDDER": "justmem.testing:HashEmbedder",
        "JUSTMEM_RERANKER": "none",
        "IS_SANDBOX": "1",
        **more,
    }


def chat(home: Path, requests: list[Any], text: str, **more: str) -> tuple[str, str]:
    """The answer, and all that the model was sent for it."""
    start = len(requests)
    options = ("--model", "claude-sonnet-4-5", "--setting-sources", "", "--strict-mcp-config")
    done = subprocess.run(
        [str(CLAUDE), "-p", text, "--plugin-dir", str(PLUGIN), *options],
        env=environment(home, requests[0], **more),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip(), json.dumps(requests[start:])


def test_a_second_chat_knows_what_the_first_said(tmp_path: Path, requests: list[Any]) -> None:
    chat(tmp_path, requests, SAID)
    answer, sent = chat(tmp_path, requests, ASKED)
    assert answer == REPLY
    assert "walnuts" in sent
    doctor = subprocess.run(
        [str(Path(sys.executable).parent / "justmem"), "doctor", "--offline", "--json"],
        env=environment(tmp_path, requests[0]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [each["what"] for each in json.loads(doctor.stdout) if "the hook" in each["what"]]
    assert {line.split(" ran last")[0] for line in said} == {
        "the hook recall",
        "the hook remember",
    }
    assert all(line.endswith("for claude-code") for line in said)


def test_a_chat_goes_on_without_memory(tmp_path: Path, requests: list[Any]) -> None:
    (tmp_path / "blocked").write_text("a file where the folder should be")
    answer, _ = chat(tmp_path, requests, SAID, JUSTMEM_FOLDER=str(tmp_path / "blocked"))
    assert answer == REPLY
