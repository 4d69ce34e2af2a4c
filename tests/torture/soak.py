"""Mixed load on many spaces of a library and on a server: nothing grows that should not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx

from justmem import AsyncMemory, Spaces
from justmem.testing import HashEmbedder
from justmem_eval.loopback import Request, Respond, chat_body, serve_openai
from replies import chat_stream
from servers import serve
from torture._fixtures import folder, statement

PROMISE = (
    "Memory, open files, threads and the size of the store stay flat under mixed load for five "
    "minutes, in the library and in the server."
)
COUNT = 5  # minutes
SAMPLE = 1  # the ordinary suite counts operations instead
BRIEF = 160  # operations of a run that is not timed
_MEASURED = 60  # times in a run
_SESSIONS = 20  # that a space holds; older ones are forgotten
_SPACES = 12  # of which Spaces keeps four open
# Allowed growth from the middle to the last third of a run: a share, plus a constant for
# allocators, the write-ahead log and the number of open spaces
LIMITS: dict[str, tuple[float, float]] = {
    "memory (MB)": (0.03, 12.0),
    "open files": (0.0, 25.0),
    "threads": (0.0, 12.0),
    "store (MB)": (0.05, 4.0),
}
OPERATIONS = ("remember", "remember", "append", "note", "ask", "recall", "correct", "look", "chat")


def run(count: int, seed: int = 7, minutes: float | None = None) -> str:
    brief = minutes is None and count <= SAMPLE
    seconds = 0.0 if brief else 60 * (count if minutes is None else minutes)
    return asyncio.run(_run(Random(seed), seconds))


async def _run(r: Random, seconds: float) -> str:
    settings = "rate = 1e9\nburst = 1000000\npause_seconds = 0\n"
    light: dict[str, Any] = {"embedder": HashEmbedder(128), "reranker": "none"}
    with folder() as home, serve_openai(_upstream) as chat:
        settings += f'upstream = "{chat.url}"\n'
        with serve(home / "server", server=settings) as server, server.owner() as client:
            async with Spaces(folder=home / "library", most_open=4, **light) as spaces:
                library = Figures(os.getpid(), home / "library")
                served = Figures(server.process.pid, server.home)
                load = Load(r, spaces, client)
                ends, done = time.monotonic() + seconds, 0
                measured = time.monotonic()
                while done < BRIEF if not seconds else time.monotonic() < ends:
                    await load.one(done)
                    done += 1
                    pause = seconds / _MEASURED
                    if time.monotonic() - measured > pause if seconds else done % 8 == 0:
                        measured = time.monotonic()
                        library.take()
                        served.take()
    return f"{done:,} operations; library {library.judged()}; server {served.judged()}"


class Figures:
    """Measurements of one process."""

    def __init__(self, pid: int, store: Path) -> None:
        self._pid, self._store = pid, store
        self._taken: dict[str, list[float]] = {name: [] for name in LIMITS}

    def take(self) -> None:
        status = Path(f"/proc/{self._pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        values = (
            int(fields["VmRSS"].split()[0]) / 1024,
            len(os.listdir(f"/proc/{self._pid}/fd")),
            int(fields["Threads"]),
            sum(_size(path) for path in self._store.rglob("*")) / 1e6,
        )
        for name, value in zip(LIMITS, values, strict=True):
            self._taken[name].append(float(value))

    def judged(self) -> str:
        """Compares the last third with the middle third; the first third is the warm-up."""
        shown = []
        for name, values in self._taken.items():
            third = len(values) // 3
            before = statistics.median(values[third : 2 * third])
            after = statistics.median(values[2 * third :])
            share, constant = LIMITS[name]
            grown = f"{name} grew: {before:g} to {after:g}, {values}"
            assert after <= before * (1 + share) + constant, grown
            shown.append(f"{after:.0f} {name}")
        return ", ".join(shown)


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0


def _upstream(request: Request) -> Respond:
    text = "Of course, I remember."
    return Respond(chat_stream(text) if request.body.get("stream") else chat_body(text))


class Load:
    def __init__(self, r: Random, spaces: Spaces, client: httpx.Client) -> None:
        self._r, self._spaces, self._client = r, spaces, client
        self._stored: dict[str, list[str]] = {}

    async def one(self, number: int) -> None:
        space, operation = f"space{self._r.randrange(_SPACES)}", self._r.choice(OPERATIONS)
        session = {"id": f"s{number}", "at": "2024-05-10", "turns": [self._turn(number)]}
        question = {"question": f"What do I keep, thing{number}?", "at": "2025-01-01"}
        if self._r.random() < 0.5:
            async with self._spaces.use(space) as memory:
                await self._library(memory, space, operation, session, question)
        else:
            self._server(f"/v1/spaces/{space}", space, operation, session, question)

    def _turn(self, number: int) -> dict[str, str]:
        return {"role": "user", "content": statement(f"name{number}"), "key": f"t{number}"}

    def _oldest(self, where: str, id: str) -> str | None:
        """A session to forget, so that the space stays small."""
        stored = self._stored.setdefault(where, [])
        stored.append(id)
        return stored.pop(0) if len(stored) > _SESSIONS else None

    async def _library(
        self, memory: AsyncMemory, space: str, operation: str, session: Any, question: Any
    ) -> None:
        match operation:
            case "remember":
                await memory.remember(session)
                if (old := self._oldest(space, session["id"])) is not None:
                    await memory.forget(session=old)
            case "append" | "chat":
                await self._spaces.append(space, session["turns"], id="chat", at="2024-05-10")
                if self._r.random() < 0.1:
                    await self._spaces.drain()
                    await memory.forget(session="chat")
            case "note":
                await memory.note(session["turns"][0]["content"], key=f"k{self._r.randrange(5)}")
            case "ask":
                await memory.ask(**question)
            case "recall":
                await memory.recall(**question)
            case "correct":
                cards = [each for each in await memory.cards() if each.kind != "note"]
                for card in cards[:1]:
                    await memory.pin(card.id)
                    await memory.undo(card.id)
            case _:
                await memory.cards(limit=50), await memory.sessions(), await memory.stats()

    def _server(self, url: str, space: str, operation: str, session: Any, question: Any) -> None:
        client = self._client
        match operation:
            case "remember":
                _check(client.post(f"{url}/sessions?wait=true", json=session))
                if (old := self._oldest(url, session["id"])) is not None:
                    _check(client.post(f"{url}/forget", json={"session": old}))
            case "note":
                note = {"text": session["turns"][0]["content"]}
                _check(client.put(f"{url}/notes/k{self._r.randrange(5)}", json=note))
            case "ask" | "recall":
                client.post(f"{url}/{operation}", json=question)
            case "chat":
                self._chat(url, space, session["turns"][0]["content"])
            case _:
                for path in ("/cards", "/sessions", "/export", ""):
                    client.get(url + path)

    def _chat(self, url: str, space: str, text: str) -> None:
        body = {"messages": [{"role": "user", "content": text}], "stream": self._r.random() < 0.5}
        headers = {"x-justmem-space": space, "x-justmem-session": "soak"}
        self._client.post("/v1/chat/completions", json=body, headers=headers)
        if self._r.random() < 0.2:  # a conversation that never ends is no leak
            answer = self._client.get(f"{url}/sessions?limit=1000")
            found = answer.json() if answer.is_success else []
            for id in (each["id"] for each in found if each["id"].startswith("chat-")):
                self._client.post(f"{url}/forget", json={"session": id})


def _check(answer: httpx.Response) -> None:
    assert answer.status_code < 300, answer.text
