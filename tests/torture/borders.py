"""Random input for the library, the command and the server: accepted or refused, never a crash."""

from __future__ import annotations

import contextlib
import inspect
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import typer
from typer.testing import CliRunner

import justmem
from justmem import Memory, config
from justmem.cli import app
from justmem.cli.context import Exit
from justmem.domain import KINDS, STATUSES
from justmem.errors import InputError, JustMemError
from justmem.testing import HashEmbedder
from servers import LIGHT, serve, until
from stories import HISTORY
from torture import _odd as odd
from torture._fixtures import database, folder, time_limit

PROMISE = (
    "The library, the command and the server either accept an input or refuse it with a clear "
    "error. Refused input changes nothing."
)
COUNT = 1_500
SAMPLE = 80

METHODS = tuple(
    name for name, each in vars(Memory).items() if name[0] != "_" and inspect.isfunction(each)
)
_MOST = 40  # sessions, before the space is emptied
Attempt = Callable[[Random], str]


def run(count: int, seed: int = 7) -> str:
    done: Counter[str] = Counter()
    with _borders() as borders:
        for number in range(count):
            name, attempt = borders[number % len(borders)]
            what = f"case {number} of seed {seed}, at the {name}"
            try:
                with time_limit(what):
                    done[attempt(Random(f"{seed}:{number}"))] += 1
            except Exception as error:
                raise AssertionError(f"{what}: {error!r:.3000}") from error
    accepted = done["ok"]
    return f"{count:,} inputs, {accepted:,} accepted, {count - accepted:,} refused, none unhandled"


@contextmanager
def _borders() -> Iterator[list[tuple[str, Attempt]]]:
    with ExitStack() as stack:
        deep = stack.enter_context(folder()) / "a" / "b" / "c" / "d"  # for paths such as ../../etc
        deep.mkdir(parents=True)
        stack.enter_context(contextlib.chdir(deep))
        library = stack.enter_context(closing(Library(deep)))
        shared = stack.enter_context(closing(Library(deep, database("borders"))))
        server = Requests(stack, deep / "server")
        command = Commands(deep)
        yield [
            ("library", library.attempt),
            ("library, with PostgreSQL", shared.attempt),
            ("server", server.attempt),
            ("command", command.attempt),
        ]


# ---------------------------------------------------------------- the library


def _one_of(*known: str) -> Callable[[Random], Any]:
    return lambda r: r.choice(known) if r.random() < 0.5 else odd.text(r)


# By the name of a parameter. Parameters that are not here get an id or random text.
VALUES: Mapping[str, Callable[[Random], Any]] = {
    "question": _one_of(*odd.ASKED),
    "at": odd.moment,
    "until": odd.moment,
    "kind": _one_of(*KINDS),
    "status": _one_of(*STATUSES),
    "limit": lambda r: r.choice((1, 5, 1000, odd.number(r))),
    "offset": lambda r: r.choice((0, 1, odd.number(r))),
    "everything": lambda r: r.random() < 0.1,
    "sessions": lambda r: [odd.session(r) for _ in range(r.randrange(4))],
    "turns": lambda r: [odd.turn(r) for _ in range(r.randrange(3))],
    "value": odd.wrong,
    "labels": lambda r: {odd.text(r): odd.mostly(r, odd.text)},
    "plan": lambda r: {r.choice(("rewrites", "period", "x")): odd.mostly(r, odd.text)},
    "on_done": lambda r: r.choice((None, repr, "repr", 3)),
    **dict.fromkeys(("subject", "speaker", "id", "key"), odd.name),
}


class Library:
    """One memory, reopened whenever a case closes it."""

    def __init__(self, home: Path, store: str | None = None) -> None:
        self._home = home
        self._where: dict[str, Any] = {"store": store} if store else {"folder": home / "home"}
        self._open()

    def _open(self) -> None:
        light = {"embedder": HashEmbedder(64), "reranker": "none", "model": "rules"}
        self.memory = justmem.open("library", **light, **self._where)
        if not self.memory.sessions():
            self.memory.remember_many(HISTORY)

    def close(self) -> None:
        with contextlib.suppress(JustMemError):
            self.memory.close()

    def attempt(self, r: Random) -> str:
        method = r.choice(METHODS)
        given = {
            parameter.name: self._value(r, method, parameter.name)
            for parameter in inspect.signature(getattr(self.memory, method)).parameters.values()
            if parameter.default is inspect.Parameter.empty or r.random() < 0.5
        }
        before = self._contents()
        try:
            done = getattr(self.memory, method)(**given)
            if inspect.isgenerator(done):
                list(done)
        except JustMemError as error:
            check_error(error)
            assert self._contents() == before, f"{method} was refused and changed the store"
            return "refused"
        if method == "close" or given.get("everything") or len(self.memory.sessions()) > _MOST:
            if method != "close":
                self.memory.forget(everything=True)
            self.close()
            self._open()
        return "ok"

    def _value(self, r: Random, method: str, name: str) -> Any:
        if name != "on_done" and r.random() < 0.12:
            return odd.wrong(r)
        if name in ("path", "file"):
            return f"{self._home}/{odd.name(r)}"
        if name == "session" and method in ("remember", "keep"):
            return odd.session(r)
        if name in VALUES:
            return VALUES[name](r)
        sessions = [each.id for each in self.memory.sessions()]
        cards = [each.id for each in self.memory.cards(limit=20)]
        return r.choice([*sessions, *cards, "run#1", "run#99"] + [odd.text(r)] * 20)

    def _contents(self) -> Any:
        stats = self.memory.stats().model_dump(mode="json")
        values = (*self.memory.sessions(), *self.memory.cards(), *self.memory.waiting())
        changing = ("bytes", "spent_tokens")
        return {name: stats[name] for name in stats if name not in changing}, [
            value.model_dump(mode="json") for value in values
        ]


def check_error(error: JustMemError) -> None:
    """It names the caller's mistake, in a sentence."""
    message = str(error)
    assert isinstance(error, InputError), f"not the caller's fault? {error!r}"
    assert 10 < len(message) < 5000, f"{type(error).__name__}: {message[:200]!r}"
    message.encode("utf-8", "surrogateescape")  # as file names may be


# ---------------------------------------------------------------- the command

# These wait for a signal or download weights: they only get arguments that they refuse.
_ENDLESS = {
    "serve": ("--port", "--host", "--upstream"),
    "mcp": ("--config",),
    "work": ("--pause",),
    "demo": ("--model",),
}


class Commands:
    def __init__(self, home: Path) -> None:
        self._home = home
        self._config = home / "cli.toml"
        self._config.write_text(f'folder = "cli"\n{LIGHT}')
        self._known = dict(self._walk(typer.main.get_command(app), ()))
        self._begin()

    def _walk(self, group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name in group.commands:
            each = group.get_command(None, name)
            if hasattr(each, "commands"):
                yield from self._walk(each, (*words, name))
            else:
                yield (*words, name), each

    def _begin(self) -> None:
        for number, each in enumerate(HISTORY):
            file = self._home / f"story{number}.json"
            file.write_text(odd.as_json(each))
            self._run(["remember", str(file)])

    def _run(self, args: list[str], input: bytes | None = None) -> Any:
        with _clean_environment():
            return CliRunner().invoke(app, ["--config", str(self._config), *args], input=input)

    def attempt(self, r: Random) -> str:
        words = ("remember",) if r.random() < 0.25 else r.choice([*self._known])
        args = [*words, *self._arguments(r, words)]
        before = self._contents()
        result = self._run(args, odd.file(r))
        shown = f"{args!r}: exit {result.exit_code}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(shown) from result.exception
        assert result.exit_code in {int(each) for each in Exit}, shown
        assert "Traceback" not in result.output, f"{shown}: {result.output[-2000:]}"
        if result.exit_code not in (Exit.OK, Exit.NOT_IN_MEMORY):
            assert len(result.output.strip()) > 10, f"{shown} without a message"
        if result.exit_code in (Exit.NOT_IN_MEMORY, Exit.INPUT):
            assert self._contents() == before, f"{shown}, and the store changed"
        sessions = len(self._contents())
        if sessions > _MOST:
            self._run(["forget", "--everything", "--yes"])
        if not len(HISTORY) <= sessions <= _MOST:
            self._begin()
        return "refused" if result.exit_code else "ok"

    def _contents(self) -> list[Any]:
        file = self._home / "cli" / "default.db"
        if not file.exists():
            return []
        with closing(sqlite3.connect(file)) as db:
            return db.execute("SELECT id, digest, state, labels FROM sessions").fetchall()

    def _arguments(self, r: Random, words: tuple[str, ...]) -> list[str]:
        if words[0] in _ENDLESS:
            return [r.choice(_ENDLESS[words[0]]), r.choice(("\0", "x:y:z", "~nobody-here/x", "-9"))]
        if words == ("models", "pull"):
            return ["nothing-of-that-name"]
        given: list[str] = []
        for parameter in self._known[words].params:
            if parameter.param_type_name == "argument":
                given.append(self._value(r, parameter.name))
            elif parameter.name != "help" and r.random() < 0.3:
                given.append(r.choice(parameter.opts))
                given += [] if parameter.is_flag else [self._value(r, parameter.name)]
        if r.random() < 0.1:
            given.insert(r.randrange(len(given) + 1), r.choice((odd.text(r), "--", "--x", "-h")))
        return given

    def _value(self, r: Random, name: str) -> str:
        if name == "files":
            path = self._home / f"file{r.randrange(4)}"
            path.write_bytes(odd.file(r))
            return r.choice((str(path), str(path), odd.text(r), "-", "/dev/null", "."))
        if name in ("source", "target"):
            return r.choice(("cli", "elsewhere", "postgresql://[", odd.text(r)))
        usual = ("run", "bike", "User", "now", "2024-05-20", "event", "stable", "5", "run#1")
        return r.choice(usual) if r.random() < 0.5 else odd.text(r)


@contextmanager
def _clean_environment() -> Iterator[None]:
    kept = dict(os.environ)
    for name in (*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY"):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


# ---------------------------------------------------------------- the server


class Requests:
    """Every described route and MCP tool. tests/server/test_server_schema.py tries each route with
    whatever its schema allows; here come the bodies, paths and headers that it does not allow."""

    def __init__(self, stack: ExitStack, home: Path) -> None:
        settings = "rate = 1e9\nburst = 1000000\nbody_bytes = 300000\n"
        self._server = stack.enter_context(serve(home, server=settings))
        self._client = stack.enter_context(self._server.owner())
        self._routes = [
            (method.upper(), path)
            for path, methods in self._client.get("/openapi.json").json()["paths"].items()
            for method in methods
        ]
        self._begin()

    def _begin(self) -> None:
        for session in HISTORY:
            self._client.post("/v1/spaces/ana/sessions?wait=true", json=session)

    def attempt(self, r: Random) -> str:
        before = self._contents()
        method, path = ("POST", "/mcp") if r.random() < 0.15 else r.choice(self._routes)
        if method == "DELETE" and path.endswith("{space}"):
            return self.attempt(r)  # emptying the space all the time leaves nothing to ask
        body = self._tool(r) if path == "/mcp" else self._body(r)
        headers = {"accept": "application/json, text/event-stream"} | self._headers(r)
        address = self._path(r, path)
        answer = self._client.request(method, address, content=body, headers=headers)
        shown = f"{method} {address[:200]} {body[:300]!r}: {answer.status_code} {answer.text[:300]}"
        assert answer.status_code < 500 or answer.status_code in (502, 503), shown
        for word in ("Traceback", "unforeseen"):
            assert word not in self._server.log, f"{shown}: {self._server.log[-3000:]}"
        if answer.status_code >= 400:
            assert self._contents() == before, f"{shown}: refused, and the store changed"
        count = len(self._contents())
        if count > _MOST:
            self._client.delete("/v1/spaces/ana")
        if not count or count > _MOST:
            self._begin()
        return "ok" if answer.status_code < 400 else "refused"

    def _contents(self) -> list[Any]:
        """The sessions, once the cards of all that was accepted are made."""

        def settled() -> list[Any]:
            answer = self._client.get("/v1/spaces/ana/sessions", params={"limit": 1000})
            found = answer.json() if answer.is_success else []
            return [found] if all(each["state"] != "pending" for each in found) else []

        (found,) = until(settled)
        return [[each["id"], each["digest"], each["at"]] for each in found]

    def _path(self, r: Random, path: str) -> str:
        space = "ana" if r.random() < 0.8 else _percent(odd.name(r))
        id = r.choice(("run", "bike", "run%231", _percent(odd.text(r, longest=3000))))
        path = path.replace("{space}", space or "x").replace("{id}", id or "x")
        if r.random() < 0.05:
            path += r.choice(("/", "//", "/..", "/%2e%2e/", "%00", "%ff", ";x", "/a/b/c"))
        name = r.choice(("limit", "offset", "text", "subject", "kind", "state", "wait", "x"))
        value = str(r.choice((5, -1, 2**70, "true", odd.text(r, longest=2000))))
        return path if r.random() < 0.6 else f"{path}?{name}={_percent(value)}"

    def _headers(self, r: Random) -> dict[str, Any]:
        given: dict[str, Any] = {"content-type": "application/json", "x-justmem-space": "ana"}
        if r.random() < 0.1:
            name = r.choice(("accept", "origin", "host", "content-type", "authorization"))
            text = odd.text(r, longest=2000).encode("utf-8", "surrogatepass")[:4000]
            given[name] = bytes(b for b in text if b >= 32 and b != 127).strip() or b"x"
        return given

    def _body(self, r: Random) -> bytes:
        if r.random() < 0.3:
            return odd.file(r)
        if r.random() < 0.4:
            return _json(odd.session(r))
        names = ("question", "at", "speaker", "card", "session", "subject", "key", "text", "fact")
        chosen = r.sample((*names, "turns", "labels", "value", "messages", "plan"), 3)
        body = {name: VALUES.get(name, odd.text)(r) for name in chosen}
        return odd.broken(r, _json(body)) if r.random() < 0.2 else _json(body)

    def _tool(self, r: Random) -> bytes:
        tools = ("remember", "recall", "ask", "note", "forget", "correct", "show")
        names = ("text", "turns", "question", "card", "session", "subject", "at", "id", "key")
        given = {name: odd.mostly(r, odd.text) for name in r.sample(names, r.randrange(4))}
        call: Any = {"name": r.choice(tools), "arguments": given}
        message: Any = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        if r.random() < 0.2:
            message[r.choice([*message, "x"])] = odd.mostly(r, odd.text)
        return odd.broken(r, _json(message)) if r.random() < 0.1 else _json(message)


def _json(value: Any) -> bytes:
    return odd.as_json(value).encode("ascii", "replace")


def _percent(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")[:6000]
