"""A real server process for tests: `with serve(folder) as server: server.client(key)`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from justmem.intake.sessions import as_time
from justmem.server.access_keys import Keys, Right
from justmem_eval.loopback import Request, Respond, chat_body
from replies import chat_stream

# No weights, no network: rules, and vectors that are close when words are shared.
LIGHT = 'embedder = "justmem.testing:HashEmbedder"\nreranker = "none"\n'


@dataclass
class Running:
    url: str
    home: Path
    process: subprocess.Popen[bytes]
    log_file: Path

    def key(self, *spaces: str, right: Right = "write", name: str = "test") -> str:
        return Keys(self.home).add(name, right, spaces, as_time("2024-06-01"))

    def client(self, key: str | None, **options: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=30, trust_env=False, **options
        )

    def owner(self) -> httpx.Client:
        return self.client(self.key("*", right="admin", name="owner"))

    @property
    def log(self) -> str:
        return self.log_file.read_text("utf-8")


def command(*args: str) -> list[str]:
    return [sys.executable, "-c", "from justmem.cli import main; main()", *args]


def environment(**more: str) -> dict[str, str]:
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("JUSTMEM_")}
    return quiet | more


@contextmanager
def serve(
    folder: Path, settings: str = "", *args: str, server: str = "", **variables: str
) -> Iterator[Running]:
    """`settings` goes into the top of justmem.toml, `server` into its [server] table."""
    folder.mkdir(exist_ok=True)
    config, log = folder / "justmem.toml", folder / "log.txt"
    config.write_text(
        f'folder = "home"\n{LIGHT}{settings}\n[server]\nport = 0\n{server}\n', "utf-8"
    )
    with open(log, "ab") as stream:
        start = log.stat().st_size
        process = subprocess.Popen(
            command("--config", str(config), "serve", *args),
            stderr=stream,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env=environment(**variables),
        )
    try:
        url = _listening(process, log, start)
        yield Running(url, folder / "home", process, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def _listening(process: subprocess.Popen[bytes], log: Path, start: int) -> str:
    for _ in range(600):
        said = log.read_bytes()[start:].decode()
        if found := re.search(r"listening on (\S+)", said):
            url = found[1]
            try:
                if httpx.get(f"{url}/health/ready", trust_env=False).status_code == 200:
                    return url
            except httpx.TransportError:
                pass
        if process.poll() is not None:
            raise AssertionError(f"the server ended: {said}")
        time.sleep(0.1)
    raise AssertionError(f"the server is not ready: {log.read_text()}")


def until(check: Any, seconds: float = 20.0) -> Any:
    """What `check` returns once it is true."""
    for _ in range(int(seconds / 0.05)):
        if found := check():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def bike_model(request: Request) -> Respond:
    """A model server that answers every question from the card that names a price."""
    shown = request.body["messages"][-1]["content"]
    found = re.search(r"^(\d+) .*1,450", shown, re.MULTILINE)
    reply = {
        "answer": "It cost 1,450 euros.",
        "used": [found[1]] if found else [],
        "sufficient": found is not None,
    }
    return Respond(chat_stream(reply) if request.body.get("stream") else chat_body(reply))
