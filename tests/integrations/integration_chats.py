"""What is said in the tests of the integrations."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any

from justmem.integrations.safe import SafeMemory, wait

PAGES = Path(__file__).parents[2] / "docs" / "integrations"

OWN_SUITE = "own suite: "  # `make integrations` shows lines that begin so
SAID = "I am allergic to walnuts."
REPLY = "I will keep that in mind."
ASKED = "What am I allergic to?"
ARGUMENTS = {"question", "rewrites", "needs_source", "spans_sessions", "period"}  # of `recall`


async def turns(memory: SafeMemory) -> list[str]:
    async with memory.using() as inner:
        sessions = [await inner.session(each.id) for each in await inner.sessions()]
    return [f"{turn.role}: {turn.text}" for each in sessions for turn in each.turns]


@contextmanager
def scripted_server(reply: Callable[[Any], Any]) -> Iterator[tuple[str, list[Any]]]:
    """A server of a model on loopback: its address, and the requests it got. `reply` returns
    events to stream, or one JSON object."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            answer, kind = reply(seen[-1]), "application/json"
            text = json.dumps(answer)
            if isinstance(answer, list):
                kind = "text/event-stream"
                events = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in answer]
                text = "".join(events)
            self.send_response(200)
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
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


def home_environment(home: Path, **more: str) -> dict[str, str]:
    """For a coding assistant that runs `justmem` in a home folder of its own."""
    return {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "JUSTMEM_FOLDER": str(home / "memory"),
        "JUSTMEM_EMBEDDER": "justmem.testing:HashEmbedder",
        "JUSTMEM_RERANKER": "none",
        **more,
    }


def run_program(
    command: list[str], home: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        env=environment,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def hooks_that_ran(home: Path) -> set[str]:
    """As `justmem doctor` tells."""
    command = [str(Path(sys.executable).parent / "justmem"), "doctor", "--offline", "--json"]
    shown = json.loads(run_program(command, home, home_environment(home)).stdout)
    return {one["what"].split(" ran last")[0] for one in shown if " ran last" in one["what"]}


def run_page(name: str, **given: Any) -> dict[str, Any]:
    """Runs the Python of a page of docs/integrations. Each given name, such as a scripted model,
    stands in for the line that assigns it. Afterwards the page's `memory` knows what was said."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (PAGES / name).read_text("utf-8"), re.S))
    for each in given:
        code, found = re.subn(rf"^{each} = .*$", "", code, flags=re.MULTILINE)
        assert found == 1
    exec(compile(code, name, "exec"), given)
    if memory := given.get("memory"):
        assert memory.error is None
        if SAID in code:
            assert "walnuts" in wait(memory.prompt(ASKED))
        memory._memory.close()
    return given


def run_own_suite(
    folder: Path, package: str, file: str, stand_in: str, change: tuple[str, str], leave_out: str
) -> int:
    """Runs a test file of a framework's source package against ours: `change` makes it import from
    `stand_in`, and `leave_out` names the tests that look inside of the framework's own class.
    Returns how many passed."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    download += ["--no-build-isolation", "--no-binary", ":all:", f"{package}=={version(package)}"]
    subprocess.run(download, cwd=folder, check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (root,) = (each.parent for each in folder.glob("*/PKG-INFO"))
    text = (root / file).read_text("utf-8")
    assert change[0] in text
    (root / file).write_text(text.replace(*change), "utf-8")
    (root / "stand_in.py").write_text(stand_in, "utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-k", f"not ({leave_out})"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, file],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    said = re.search(r"(\d+) passed(, \d+ deselected)?", done.stdout)
    assert said
    print(f"{OWN_SUITE}{package}'s {file}: {said[0]}")  # noqa: T201
    return int(said[1])
