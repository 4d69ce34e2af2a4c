"""An hour of mixed load on a library and a server: nothing grows that should not."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

import justmem
from justmem import Memory
from justmem.testing import HashEmbedder, Request, Respond, chat_body, chat_stream, serve_openai
from servers import Running, serve

PROMISE = (
    "Memory, open files, threads and the size of the store stay flat under mixed load for ten "
    "minutes, in the library and in the server."
)
COUNT = 10  # minutes
SAMPLE = 1  # in the ordinary suite a minute is as many operations as fit a few seconds
BRIEF = 160  # operations of a run that is not timed
_SAMPLES = 60  # how often a run is measured
_SESSIONS = 20  # that a space holds; older ones are forgotten
_SPACES = 5
# What a figure may grow by between the middle and the last third of a run: a share, and a sum that
# allocators, the write-ahead log and the chance of how many spaces are open are allowed.
LIMITS: dict[str, tuple[float, float]] = {
    "memory (MB)": (0.03, 12.0),
    "open files": (0.0, 25.0),
    "threads": (0.0, 12.0),
    "store (MB)": (0.05, 4.0),
}


def run(count: int, seed: int = 7, minutes: float | None = None) -> str:
    """`count` minutes; 1 of the ordinary suite is counted in operations instead."""
    with tempfile.TemporaryDirectory(prefix="jm-soak-") as name, _load(Path(name), seed) as load:
        if minutes is None and count <= SAMPLE:
            load.work(lambda done: done >= BRIEF, every=BRIEF // 20)
        else:
            lasts = 60 * (count if minutes is None else minutes)
            ends = time.monotonic() + lasts
            load.work(lambda _: time.monotonic() >= ends, seconds=lasts / _SAMPLES)
        figures = [f"{who} {judged(each)}" for who, each in load.measured.items()]
    return f"{load.operations:,} operations; " + "; ".join(figures)


# ---------------------------------------------------------------- measuring


@dataclass
class Figures:
    """One process, looked at again and again."""

    pid: int
    store: Path
    taken: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in LIMITS})

    def take(self) -> None:
        status = Path(f"/proc/{self.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        size = sum(_size(path) for path in self.store.rglob("*"))
        for name, value in zip(
            LIMITS,
            (
                int(fields["VmRSS"].split()[0]) / 1024,
                len(os.listdir(f"/proc/{self.pid}/fd")),
                int(fields["Threads"]),
                size / 1e6,
            ),
            strict=True,
        ):
            self.taken[name].append(float(value))


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0


def judged(figures: Figures) -> str:
    """The last third beside the middle one; the first is for warming up."""
    shown = []
    for name, values in figures.taken.items():
        third = len(values) // 3
        middle, last = values[third : 2 * third], values[2 * third :]
        before, after = statistics.median(middle), statistics.median(last)
        share, more = LIMITS[name]
        assert after <= before * (1 + share) + more, (
            f"{name} grew: {before:g} to {after:g}, {values}"
        )
        shown.append(f"{after:.0f} {name}")
    return ", ".join(shown)


# ---------------------------------------------------------------- the load


@contextmanager
def _load(folder: Path, seed: int) -> Iterator[Load]:
    with ExitStack() as stack:
        chat = stack.enter_context(serve_openai(_upstream))
        settings = "rate = 1e9\nburst = 1000000\npause_seconds = 0\n"
        settings += f'idle_seconds = 5\nupstream = "{chat.url}"\n'
        server = stack.enter_context(serve(folder / "server", server=settings))
        client = stack.enter_context(server.owner())
        load = Load(folder / "library", server, client, Random(seed))
        stack.callback(load.close)
        yield load


def _upstream(request: Request) -> Respond:
    said = "Of course, I remember."
    return Respond(chat_stream(said) if request.body.get("stream") else chat_body(said))


class Load:
    def __init__(self, folder: Path, server: Running, client: httpx.Client, r: Random) -> None:
        self._folder = folder
        self._client = client
        self._r = r
        self._open: dict[str, Memory] = {}
        self._kept: dict[tuple[str, str], list[str]] = {}
        self.operations = 0
        self.measured = {
            "library": Figures(os.getpid(), folder),
            "server": Figures(server.process.pid, server.home),
        }

    def close(self) -> None:
        for memory in self._open.values():
            memory.close()

    def work(
        self, over: Callable[[int], bool], *, every: int | None = None, seconds: float = 0.0
    ) -> None:
        """Until it is over, measured after `every` operations or so many seconds."""
        measured = time.monotonic()
        while not over(self.operations):
            self._one()
            self.operations += 1
            now = time.monotonic()
            if self.operations % every == 0 if every else now - measured > seconds:
                measured = now
                for figures in self.measured.values():
                    figures.take()

    def _one(self) -> None:
        space = f"space{self._r.randrange(_SPACES)}"
        by_library = self._r.random() < 0.5
        name = self._r.choice(_DOES)
        if by_library:
            self._library(name, space)
        else:
            self._server(name, space)

    def _session(self, where: str, space: str) -> dict[str, Any]:
        r = self._r
        id = f"s{self.operations}"
        self._kept.setdefault((where, space), []).append(id)
        things = ("bike", "lamp", "boat", "garden", "book", "coat")
        turns = [
            {
                "role": "user",
                "content": f"I bought a {r.choice(things)} for {r.randrange(999)} euros.",
            }
            for _ in range(r.randrange(1, 6))
        ]
        return {"id": id, "at": f"2024-{r.randrange(1, 13):02}-10T10:00", "turns": turns}

    def _oldest(self, where: str, space: str) -> str | None:
        kept = self._kept.get((where, space), [])
        return kept.pop(0) if len(kept) > _SESSIONS else None

    def _library(self, name: str, space: str) -> None:
        memory = self._memory(space)
        match name:
            case "remember":
                memory.remember(self._session("library", space))
                if (old := self._oldest("library", space)) is not None:
                    memory.forget(session=old)
            case "ask":
                memory.ask(self._question())
            case "recall":
                memory.recall(self._question())
            case "follow":
                list(memory.follow(self._question()))
            case "reopen":
                self._open.pop(space).close()
            case _:
                memory.cards(limit=50), memory.sessions(), memory.stats()

    def _memory(self, space: str) -> Memory:
        if space not in self._open:
            self._open[space] = justmem.open(
                space, folder=self._folder, embedder=HashEmbedder(128), reranker="none"
            )
        return self._open[space]

    def _server(self, name: str, space: str) -> None:
        url, client = f"/v1/spaces/{space}", self._client
        asked = {"question": self._question(), "at": "2025-01-01"}
        match name:
            case "remember":
                session = self._session("server", space)
                _good(client.post(f"{url}/sessions?wait=true", json=session))
                if (old := self._oldest("server", space)) is not None:
                    _good(client.post(f"{url}/forget", json={"session": old}))
            case "ask":
                client.post(f"{url}/ask", json=asked)
            case "recall":
                client.post(f"{url}/recall", json=asked)
            case "follow":
                client.post(f"{url}/ask", json=asked, headers={"accept": "text/event-stream"})
            case "reopen":
                self._chat(space)
            case _:
                for path in ("/cards", "/sessions", "/export", "/timeline", ""):
                    client.get(url + path)

    def _chat(self, space: str) -> None:
        said = [{"role": "user", "content": f"Hello {self.operations}."}]
        body = {"messages": said, "stream": self._r.random() < 0.5}
        headers = {"x-justmem-space": space, "x-justmem-session": "soak"}
        self._client.post("/v1/chat/completions", json=body, headers=headers)
        if self._r.random() < 0.2:  # a conversation that never ends is no leak
            for id in self._chats(space):
                self._client.post(f"/v1/spaces/{space}/forget", json={"session": id})

    def _chats(self, space: str) -> list[str]:
        found = self._client.get(f"/v1/spaces/{space}/sessions?limit=1000").json()
        return [each["id"] for each in found.get("sessions", []) if each["id"].startswith("chat-")]

    def _question(self) -> str:
        things = ("bike", "lamp", "boat", "garden", "book", "coat", f"thing{self.operations}")
        return f"What did I pay for the {self._r.choice(things)}?"


_DOES = ("remember", "remember", "remember", "ask", "recall", "follow", "look", "reopen")


def _good(answer: httpx.Response) -> None:
    assert answer.status_code < 300, answer.text
