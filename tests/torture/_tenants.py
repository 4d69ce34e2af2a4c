"""Two tenants whose spaces look alike, in one store, each with a library and a key of its own."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

import justmem
from justmem import Memory
from justmem.errors import JustMemError
from justmem.intake.sessions import as_time
from justmem.server.access_keys import Keys
from justmem.testing import HashEmbedder
from justmem_eval.loopback import Request, Respond, chat_body, serve_openai
from replies import chat_stream
from servers import Running, serve, until
from torture._fixtures import database

SERVER = "rate = 1e9\nburst = 1000000\npause_seconds = 0\n"
# {} makes each pair its own: all of them live in one folder, or one database.
PAIRS = (
    ("ana{}", "Ana{}"),
    ("caf\u00e9{}", "cafe\u0301{}"),
    ("a.b{}", "a/b{}"),
    ("x{}", "x{} "),
    ("trail{}", "trail{}."),
    ("y" * 190 + "{}a", "y" * 190 + "{}b"),
    ("stra\u00dfe{}", "strasse{}"),
    ("k{}", "\u212a{}"),
    ("a%2Fb{}", "a/b{} "),
    ("../up{}", "..\\up{}"),
    ("{}", " {}"),
    ("o'b{}", 'o"b{}'),
    ("n{}_1", "n{}%1"),
    ("tab{} a", "tab{}  a"),
    ("\u0430na{}", "ana{}-"),
)
IDS = ("s1", "s2", "chat", "s1#1", "run")  # both tenants use the same ones


@dataclass
class Tenant:
    """`label` is in every word it plants: see `mark`."""

    label: str
    space: str
    folder: Path
    opened: Callable[[], Memory]
    client: httpx.Client
    chats: Callable[[], int]  # that the server's proxy has remembered so far
    sent: set[str] = field(default_factory=set)  # whatever it said itself, guesses too
    guessable: list[str] = field(default_factory=list)  # marks that the other may come to know

    def __post_init__(self) -> None:
        self.memory = self.opened()

    def reopen(self) -> None:
        """After its space was erased, there or here."""
        self.close()
        self.memory = self.opened()

    def close(self) -> None:
        with suppress(JustMemError):
            self.memory.close()

    def mark(self, r: Random) -> str:
        return f"zq{self.label}{r.getrandbits(40):010x}"

    def guessed(self, r: Random) -> str:
        self.guessable.append(self.mark(r))
        return self.guessable[-1]

    def sending(self, text: str) -> str:
        self.sent.add(text)
        return text

    def sentence(self, r: Random) -> str:
        """Two marks: one may be guessed, the other then still tells."""
        things = ("a bike for 80 euros", "my sister Ines", "three days in Kyoto", "a red lamp")
        verb = r.choice(("I bought", "I met", "I planned", "I love", "My friend saw"))
        return f"{verb} {r.choice(things)}, called {self.guessed(r)}, near {self.mark(r)}."

    def session(self, r: Random) -> dict[str, Any]:
        id = r.choice((*IDS, self.guessed(r)))
        turns = [{"role": "user", "text": self.sentence(r)} for _ in range(r.choice((1, 2)))]
        turns.append({"role": "assistant", "text": f"Noted: {self.sentence(r)}"})
        return {"id": id, "at": f"2024-0{r.randrange(1, 10)}-10T10:00", "turns": turns}

    def contents(self) -> str:
        """All its data, once no session is pending."""

        def settled() -> str:
            if any(each.state == "pending" for each in self.memory.sessions()):
                return ""
            values = (*self.memory.sessions(), *self.memory.cards(limit=10_000))
            sums = self.memory.stats().model_dump(mode="json")
            return json.dumps(
                [[each.model_dump(mode="json") for each in values], sums["cards"], sums["turns"]]
            )

        return str(until(settled))

    def ids(self) -> list[str]:
        cards = [each.id for each in self.memory.cards()]
        return [*cards, *(each.id for each in self.memory.sessions())]


class World:
    """One store with a server before it. Pairs of tenants come and go."""

    def __init__(self, server: Running, store: str | None) -> None:
        self.server = server
        self._store = store
        self._owner = server.owner()
        self._pairs = 0
        self._read = 0

    @contextmanager
    def pair(self, r: Random) -> Iterator[tuple[Tenant, Tenant]]:
        self._pairs += 1
        names = [name.format(self._pairs) for name in r.choice(PAIRS)]
        r.shuffle(names)
        with ExitStack() as stack:
            one, two = (self._tenant(stack, *pair) for pair in zip("ab", names, strict=True))
            yield one, two

    def _tenant(self, stack: ExitStack, label: str, space: str) -> Tenant:
        where = {"store": self._store} if self._store else {"folder": self.server.home}

        def opened() -> Memory:
            return justmem.open(space, embedder=HashEmbedder(64), reranker="none", **where)

        token = Keys(self.server.home).add(label, "admin", (space,), as_time("2024-06-01"))
        client = stack.enter_context(self.server.client(token))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jm-tenant-")))
        tenant = Tenant(label, space, folder, opened, client, self._chats)
        stack.callback(tenant.close)
        return tenant

    def _chats(self) -> int:
        text = self._owner.get("/metrics").text
        assert "zq" not in text
        return sum(
            int(n) for n in re.findall(r"^justmem_proxy_chats_total\{.*\} (\d+)", text, re.M)
        )

    def check_log(self, *tenants: Tenant) -> None:
        """No words of anybody, and no names of spaces."""
        with open(self.server.log_file, encoding="utf-8", errors="replace") as log:
            log.seek(self._read)
            fresh = log.read()
            self._read = log.tell()
        assert not re.search(r"zq[ab][0-9a-f]{10}", fresh), f"the log: {fresh[-2000:]}"
        assert "Traceback" not in fresh, f"the log: {fresh[-2000:]}"


def leaks(received: str, me: Tenant, other: Tenant) -> list[str]:
    """Words of the other in what I received, apart from those that I sent myself."""
    found = re.findall(rf"zq{other.label}[0-9a-f]{{10}}", received, re.IGNORECASE)
    said = " ".join(me.sent)
    return [each for each in found if each not in said]


def upstream(request: Request) -> Respond:
    if request.path == "/v1/models":
        return Respond({"object": "list", "data": []})
    # What it was shown comes back: a note from another's memory would come with it.
    said = json.dumps(request.body)[-3000:]
    if request.path == "/v1/responses":
        content = [{"type": "output_text", "text": said}]
        output = [{"type": "message", "role": "assistant", "content": content}]
        return Respond({"id": "r", "object": "response", "output": output})
    if request.path == "/v1/messages":
        return Respond({"id": "m", "type": "message", "content": [{"type": "text", "text": said}]})
    if request.path == "/v1/messages/count_tokens":
        return Respond({"input_tokens": 3})
    return Respond(chat_stream(said) if request.body.get("stream") else chat_body(said))


@contextmanager
def worlds(folder: Path, kinds: int) -> Iterator[list[World]]:
    """A folder of files, and (if `kinds` is 2) a PostgreSQL."""
    with ExitStack() as stack:
        chat = stack.enter_context(serve_openai(upstream))
        settings = f'{SERVER}upstream = "{chat.url}"\nanthropic_upstream = "{chat.url}"\n'
        made = [World(stack.enter_context(serve(folder / "files", server=settings)), None)]
        if kinds > 1:
            url = database("tenants")
            served = serve(folder / "database", f'store = "{url}"', server=settings)
            made.append(World(stack.enter_context(served), url))
        yield made
