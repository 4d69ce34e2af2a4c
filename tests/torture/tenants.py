"""Two tenants in one store never see or change each other's data.

The check finds every operation by inspection: the methods of Memory, the routes that the server
describes, the tools that it lists. An operation with an unknown parameter is an error, so that
nothing new is left out.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from urllib.parse import quote

import httpx

from justmem import Memory
from justmem.errors import JustMemError
from servers import until
from torture._fixtures import folder, time_limit
from torture._tenants import Tenant, World, leaks, worlds
from torture.borders import METHODS

PROMISE = (
    "A tenant never reads or changes the words of another tenant, in the library, over HTTP, "
    "MCP and the proxy, in files and in PostgreSQL."
)
COUNT = 100  # pairs of tenants
SAMPLE = 1
STEPS = 40

Operation = Callable[[Tenant, Tenant, Random], str]  # returns all that it received
Value = Callable[[Tenant, Tenant, Random], Any]


def run(count: int, seed: int = 7) -> str:
    done = 0
    with folder() as home, worlds(home, min(count, 2)) as made:
        known = [operations(world) for world in made]
        for number in range(count):
            world, every = made[number % len(made)], known[number % len(made)]
            r, name = Random(f"{seed}:{number}"), f"pair {number} of seed {seed}"
            with time_limit(name), world.pair(r) as tenants:
                done += _live(world, tenants, every, r, name)
    kinds = max(len(every) for every in known)
    return f"{count:,} pairs of tenants, {done:,} operations of {kinds} kinds, 0 leaks"


def _live(
    world: World,
    tenants: tuple[Tenant, Tenant],
    every: Mapping[str, Operation],
    r: Random,
    name: str,
) -> int:
    steps: list[str] = []
    try:
        for each in tenants:
            each.memory.remember(each.session(r))
        for _ in range(STEPS):
            me, other = r.sample(tenants, 2)
            world.check_log()
            steps.append(f"{me.label}: {_step(every, me, other, r)}")
    except Exception as error:
        names = f"{name}, {tenants[0].space!r} and {tenants[1].space!r}"
        raise AssertionError(f"{names}, after {steps[-5:]}: {error!r:.2000}") from error
    return len(steps)


def _step(every: Mapping[str, Operation], me: Tenant, other: Tenant, r: Random) -> str:
    before = other.contents()
    what = r.choice([*every])
    reply = every[what](me, other, r)
    found = leaks(reply, me, other)
    assert not found, f"{what} of {me.label} returned {found}: {reply[:1500]}"
    assert other.contents() == before, f"{what} of {me.label} changed the other's data"
    return what


def operations(world: World) -> dict[str, Operation]:
    with world.server.owner() as client:
        described = client.get("/openapi.json").json()
        listed = call_mcp(client, "tools/list", {}).json()["result"]["tools"]
    routes = {
        f"{method.upper()} {path}": _by_http(method.upper(), path, about)
        for path, methods in described["paths"].items()
        for method, about in methods.items()
    }
    tools = {f"tool {each['name']}": _by_tool(each) for each in listed}
    library = {f"library {name}": _by_library(name) for name in METHODS if name != "close"}
    return {**library, **routes, **tools, "GET pages": _page}


# ---------------------------------------------------------------- values


def _question(me: Tenant, other: Tenant, r: Random) -> str:
    usual = ("What did I buy?", "Whom did I meet?", "What exactly did you note?", "How many lamps?")
    known = [*other.guessable[-20:], *me.guessable[-20:]] or ["nothing"]
    return r.choice(usual) if r.random() < 0.5 else f"Where is {me.sending(r.choice(known))}?"


def _id(me: Tenant, other: Tenant, r: Random) -> str:
    known = other.ids() if r.random() < 0.5 else me.ids()
    return me.sending(r.choice([*known, "s1", "s1#1", "none"]))


def _word(me: Tenant, other: Tenant, r: Random) -> str:
    return me.sending(r.choice([*other.guessable[-5:], "bike", "User", "Ines"]))


def _words(me: Tenant, other: Tenant, r: Random) -> list[str]:
    return [_word(me, other, r)]


def _key(me: Tenant, other: Tenant, r: Random) -> str:
    """Both tenants use the same keys."""
    return me.sending(r.choice(("k1", "k2", *other.guessable[-3:])))


def _labels(me: Tenant, other: Tenant, r: Random) -> Any:
    return {"topic": _word(me, other, r)}


def _message(me: Tenant, other: Tenant, r: Random) -> str:
    return me.sentence(r) if r.random() < 0.5 else _question(me, other, r)


def _file(me: Tenant, other: Tenant, r: Random) -> str:
    path = me.folder / "export.jsonl"
    path.write_text("".join(me.memory.export()), "utf-8")
    return str(path)


def _one_of(*values: Any) -> Value:
    return lambda me, other, r: r.choice(values)


VALUES: Mapping[str, Value] = {
    **dict.fromkeys(("question", "query"), _question),
    **dict.fromkeys(("card_id", "session_id", "card", "turn", "session", "id", "of"), _id),
    **dict.fromkeys(("subject", "text", "last", "fact", "actor"), _word),
    **dict.fromkeys(("rewrites", "entities"), _words),
    **dict.fromkeys(("key", "prefix"), _key),
    **dict.fromkeys(("value", "labels"), _labels),
    **dict.fromkeys(("at", "since", "until", "as_of"), _one_of("2024-05-10", "2024-12-01")),
    **dict.fromkeys(("limit", "before"), _one_of(1, 5, 100)),
    **dict.fromkeys(
        ("verify", "preview", "vectors", "wait", "cards", "prose"), _one_of(True, False)
    ),
    **dict.fromkeys(("needs_source", "spans_sessions", "everything"), _one_of(True)),
    **dict.fromkeys(("on_done", "on_loaded", "extractor"), _one_of(None)),
    "turns": _one_of(True, False),
    "event_date": _one_of("2024-05", "2024-05-09"),
    "period": _one_of("2024-05", "2024"),
    "tokens": _one_of(50, 400),
    "offset": _one_of(0, 1),
    "kind": _one_of("event", "fact"),
    "status": _one_of("stable", "completed"),
    "state": _one_of("stored", "failed"),
    "action": _one_of("correct", "pin", "unpin", "undo"),
    "what": _one_of("profile", "history", "about", "notes", "sessions", "session", "source"),
    "name": _id,
    "rebuild": _one_of(True, False),
    "speaker": _one_of("User", "Ines"),
    "evidence": lambda me, other, r: me.memory.recall(_question(me, other, r)),
    "sessions": lambda me, other, r: [me.session(r)],
    "file": _file,
    "path": lambda me, other, r: str(me.folder / f"backup-{r.getrandbits(64):x}"),
    "plan": lambda me, other, r: {"rewrites": _words(me, other, r), "period": "2024-05"},
}
# By the schema of a request's body, or the end of its path
BODIES: Mapping[str, Value] = {
    "SessionIn": lambda me, other, r: me.session(r),
    "Question": lambda me, other, r: {"question": _question(me, other, r), "candidates": True},
    "Recall": lambda me, other, r: {
        "question": _question(me, other, r),
        **r.choice(({}, {"sessions": [_id(me, other, r)]}, {"labels": _labels(me, other, r)})),
    },
    "RecallSpaces": lambda me, other, r: {
        "question": _question(me, other, r),
        "spaces": [me.space, *([me.sending(other.space)] if r.random() < 0.5 else [])],
    },
    "TurnsIn": lambda me, other, r: {"turns": me.session(r)["turns"], "at": "2024-05-10"},
    "NoteIn": lambda me, other, r: {"text": me.sentence(r), "value": _labels(me, other, r)},
    "Changes": lambda me, other, r: {"fact": me.sentence(r)},
    "Forget": lambda me, other, r: {
        r.choice(("card", "session", "subject", "key")): _id(me, other, r),
        "preview": r.random() < 0.5,
    },
    "responses": lambda me, other, r: {"model": "m", "input": _message(me, other, r)},
    **dict.fromkeys(
        ("completions", "messages", "count_tokens"),
        lambda me, other, r: {
            "model": "m",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": _message(me, other, r)}],
            "stream": r.random() < 0.3,
        },
    ),
}
CHATS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
TARGETS = ("card", "turn", "session", "subject", "key", "since", "everything")  # of `forget`


def _given(names: Mapping[str, bool], me: Tenant, other: Tenant, r: Random) -> dict[str, Any]:
    """A value for each required parameter and for some of the others; only one target."""
    unknown = set(names) - set(VALUES)
    assert not unknown, f"VALUES needs an entry for {unknown}"
    chosen = {name for name, required in names.items() if required or r.random() < 0.3}
    if len(targets := [name for name in TARGETS if name in names]) > 3:
        rare = r.random() < 0.1  # afterwards there is little left to mix up
        chosen = (chosen - set(TARGETS)) | {r.choice(targets if rare else targets[:3])}
    return {name: VALUES[name](me, other, r) for name in sorted(chosen)}


# ---------------------------------------------------------------- library, HTTP, MCP


def _by_library(name: str) -> Operation:
    parameters = inspect.signature(getattr(Memory, name)).parameters
    names = {
        each: about.default is inspect.Parameter.empty
        for each, about in parameters.items()
        if each != "self"
    }

    def operation(me: Tenant, other: Tenant, r: Random) -> str:
        given = _given(names, me, other, r)
        if name in ("remember", "keep"):
            given["session"] = me.session(r)
        if name == "append":
            given["turns"] = me.session(r)["turns"]
        if name == "note":
            given["text"] = me.sentence(r)
        if name == "recall" and "sessions" in given:
            given["sessions"] = [_id(me, other, r)]
        try:
            done = getattr(me.memory, name)(**given)
            done = list(done) if inspect.isgenerator(done) else done
        except JustMemError as error:
            done = error
        if given.get("everything"):
            me.reopen()
        if name in ("keep", "append"):
            me.memory.retry()
        return _received(done)

    return operation


def _received(done: Any) -> str:
    if hasattr(done, "model_dump_json"):
        return str(done.model_dump_json())
    return "\n".join(map(_received, done)) if isinstance(done, list) else f"{done} {done!r}"


def _by_http(method: str, path: str, about: Any) -> Operation:
    query_names = {
        each["name"]: each.get("required", False)
        for each in about.get("parameters", [])
        if each["in"] == "query"
    }
    body_type = about.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = body_type.get("schema", {})
    first = schema.get("oneOf", [schema])[0]  # the others are shorter forms of it
    kind = first.get("$ref", path).rpartition("/")[2] if body_type else ""
    assert not body_type or kind in BODIES, f"BODIES needs an entry for {method} {path}: {kind}"

    def operation(me: Tenant, other: Tenant, r: Random) -> str:
        space = me.space if r.random() < 0.7 else me.sending(r.choice((other.space, "nobody")))
        if method == "DELETE" and space == me.space and r.random() < 0.7:
            return ""
        address = path.replace("{space}", quote(space, safe=""))
        address = address.replace("{id}", quote(_id(me, other, r), safe=""))
        headers = {"x-justmem-space": quote(space, safe="")} if r.random() < 0.5 else {}
        query = _given(query_names, me, other, r)
        query |= {"wait": "true"} if "wait" in query_names else {}
        body = BODIES[kind](me, other, r) if kind else None
        chats = me.chats()
        answer = me.client.request(method, address, params=query, json=body, headers=headers)
        if path in CHATS and answer.is_success:  # remembered after the end of the stream
            until(lambda: me.chats() > chats)
        _check_status(answer, path, space, me, other)
        if method == "DELETE" and answer.is_success:
            me.reopen()
        return _whole(answer)

    return operation


def _check_status(answer: httpx.Response, path: str, space: str, me: Tenant, other: Tenant) -> None:
    shown = f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    assert answer.status_code < 500, shown
    if space == other.space and "{space}" in path:
        assert answer.status_code == 404, shown
    if path == "/v1/spaces":
        assert set(answer.json()) <= {me.space}, shown
    if path == "/metrics":
        assert answer.status_code == 403, shown


def _whole(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.headers!r} {answer.text}"


def _page(me: Tenant, other: Tenant, r: Random) -> str:
    pages = ("/", "/app.js", "/openapi.json", "/nothing", "/keys.json", "/../home/keys.json")
    return _whole(me.client.get(r.choice(pages)))


def _by_tool(about: Any) -> Operation:
    schema = about["inputSchema"]
    names = {each: each in schema.get("required", []) for each in schema.get("properties", {})}

    def operation(me: Tenant, other: Tenant, r: Random) -> str:
        space = me.sending(other.space) if r.random() < 0.2 else me.space
        given: dict[str, Any] = {"text": me.sentence(r), "at": "2024-05-20"}
        if about["name"] != "remember":
            given = _given(names, me, other, r)
        call = {"name": about["name"], "arguments": given}
        return _whole(call_mcp(me.client, "tools/call", call, space))

    return operation


def call_mcp(
    client: httpx.Client, method: str, params: Any, space: str | None = None
) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if space is not None:
        headers["x-justmem-space"] = quote(space, safe="")
    return client.post("/mcp", content=json.dumps(message).encode(), headers=headers)
