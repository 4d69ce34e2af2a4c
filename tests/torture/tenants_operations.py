"""Everything a tenant can do, found by looking: the methods of Memory, the routes that the server
describes, the tools that it lists. Each operation returns all that it received.

What a parameter or a body may hold is written here. One that is not is an error, so that nothing
new is left out.
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
from torture.library_border import METHODS
from torture.tenants_world import Tenant, World

Operation = Callable[[Tenant, Tenant, Random], str]
Value = Callable[[Tenant, Tenant, Random], Any]

PAGES = ("/", "/app.js", "/openapi.json", "/nothing", "/keys.json", "/../home/keys.json")
CHATS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
# Of these, `forget` and its like take one at a time.
TARGETS = ("card", "turn", "session", "subject", "key", "since", "everything")


def operations(world: World) -> dict[str, Operation]:
    with world.server.owner() as client:
        described = client.get("/openapi.json").json()
        listed = tool_call(client, "tools/list", {}).json()["result"]["tools"]
    routes = {
        f"{method.upper()} {path}": _by_http(method.upper(), path, about, described)
        for path, methods in described["paths"].items()
        for method, about in methods.items()
    }
    tools = {f"tool {each['name']}": _by_tool(each) for each in listed}
    library = {f"library {name}": _by_library(name) for name in METHODS if name != "close"}
    return {**library, **routes, **tools, "GET pages": _page}


# ---------------------------------------------------------------- values


def _question(me: Tenant, other: Tenant, r: Random) -> str:
    usual = ("What did I buy?", "Whom did I meet?", "What exactly did you note?", "How many lamps?")
    if r.random() < 0.5:
        return r.choice(usual)
    known = [*other.guessable[-20:], *me.guessable[-20:]] or ["nothing"]
    return f"Where is {me.sending(r.choice(known))}?"


def _id(me: Tenant, other: Tenant, r: Random) -> str:
    known = other.ids() if r.random() < 0.5 else me.ids()
    return me.sending(r.choice([*known, "s1", "s1#1", "none"]))


def _word(me: Tenant, other: Tenant, r: Random) -> str:
    return me.sending(r.choice([*other.guessable[-5:], "bike", "User", "Ines"]))


def _file(me: Tenant, other: Tenant, r: Random) -> str:
    """My own export, if there is such a thing; else nothing that could be read."""
    path = me.folder / "export.jsonl"
    if hasattr(me.memory, "export"):
        path.write_text("\n".join(line.rstrip("\n") for line in me.memory.export()), "utf-8")
    return str(path)


def _sessions(me: Tenant, other: Tenant, r: Random) -> Any:
    return [me.session(r)]


def _labels(me: Tenant, other: Tenant, r: Random) -> Any:
    return {"topic": _word(me, other, r)}


def _key(me: Tenant, other: Tenant, r: Random) -> str:
    """Both tenants use the same ones."""
    return me.sending(r.choice(("k1", "k2", *other.guessable[-3:])))


def _turns(me: Tenant, other: Tenant, r: Random) -> Any:
    return me.session(r)["turns"]


def _filtered(me: Tenant, other: Tenant, r: Random) -> dict[str, Any]:
    filters = {"sessions": [_id(me, other, r)], "labels": _labels(me, other, r), "limit": 5}
    chosen = r.choice((*filters, ""))
    return {"question": _question(me, other, r), "at": "2024-12-01"} | {
        name: value for name, value in filters.items() if name == chosen
    }


def _fixed(*values: Any) -> Value:
    return lambda me, other, r: r.choice(values)


VALUES: Mapping[str, Value] = {
    **dict.fromkeys(("question", "query"), _question),
    **dict.fromkeys(("card_id", "session_id", "card", "turn", "session", "id", "of"), _id),
    **dict.fromkeys(("subject", "text", "last", "fact"), _word),
    "event_date": _fixed("2024-05", "2024-05-09"),
    "extractor": _fixed(None),
    **dict.fromkeys(("key", "prefix"), _key),
    **dict.fromkeys(("value", "labels"), _labels),
    "evidence": lambda me, other, r: me.memory.recall(_question(me, other, r)),
    "tokens": _fixed(50, 400),
    **dict.fromkeys(("at", "since", "until", "as_of"), _fixed("2024-05-10", "2024-12-01")),
    **dict.fromkeys(("limit", "before"), _fixed(1, 5, 100)),
    "offset": _fixed(0, 1),
    "kind": _fixed("event", "fact"),
    "status": _fixed("stable", "completed"),
    "state": _fixed("stored", "failed"),
    "speaker": _fixed("User", "Ines"),
    "actor": _word,
    "sessions": _sessions,
    "everything": _fixed(True),
    **dict.fromkeys(
        ("turns", "verify", "preview", "vectors", "wait", "cards"), _fixed(True, False)
    ),
    "file": _file,
    "path": lambda me, other, r: str(me.folder / f"backup-{r.getrandbits(64):x}"),
    "plan": lambda me, other, r: {"rewrites": [_word(me, other, r)], "period": "2024-05"},
    **dict.fromkeys(("rewrites", "entities"), lambda me, other, r: [_word(me, other, r)]),
    "period": _fixed("2024-05", "2024"),
    **dict.fromkeys(("exact_words", "spans_sessions"), _fixed(True)),
    **dict.fromkeys(("on_done", "on_loaded"), _fixed(None)),
}
BODIES: Mapping[str, Value] = {
    "SessionIn": lambda me, other, r: me.session(r),
    "Question": lambda me, other, r: {
        "question": _question(me, other, r),
        "candidates": True,
        "at": "2024-12-01",
    },
    "Recall": _filtered,
    "RecallSpaces": lambda me, other, r: {
        "question": _question(me, other, r),
        "spaces": [me.space, *([me.sending(other.space)] if r.random() < 0.5 else [])],
    },
    "TurnsIn": lambda me, other, r: {"turns": _turns(me, other, r), "at": "2024-05-10"},
    "NoteIn": lambda me, other, r: {"text": me.sentence(r), "value": _labels(me, other, r)},
    "Correct": lambda me, other, r: {"fact": me.sentence(r)},
    "Forget": lambda me, other, r: {
        r.choice(("card", "session", "subject", "key")): _id(me, other, r),
        "preview": r.random() < 0.5,
    },
    "completions": lambda me, other, r: {
        "messages": [{"role": "user", "content": _said(me, other, r)}],
        "stream": r.random() < 0.3,
    },
    "responses": lambda me, other, r: {"model": "m", "input": _said(me, other, r)},
    "messages": lambda me, other, r: {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": _said(me, other, r)}],
    },
    "count_tokens": lambda me, other, r: {
        "model": "m",
        "messages": [{"role": "user", "content": _said(me, other, r)}],
    },
}


def _said(me: Tenant, other: Tenant, r: Random) -> str:
    return me.sentence(r) if r.random() < 0.5 else _question(me, other, r)


def _given(names: Mapping[str, bool], me: Tenant, other: Tenant, r: Random) -> dict[str, Any]:
    """A value for each parameter that is needed, and for some of the others; of several targets,
    one."""
    unknown = set(names) - set(VALUES)
    assert not unknown, f"say in VALUES what {unknown} may be"
    chosen = {name for name, needed in names.items() if needed or r.random() < 0.3}
    if len(targets := [name for name in TARGETS if name in names]) > 3:
        # Everything at once is rare: afterwards there is little to mix up.
        one = r.choice(targets) if r.random() < 0.1 else r.choice(targets[:3])
        chosen = (chosen - set(TARGETS)) | {one}
    return {name: VALUES[name](me, other, r) for name in sorted(chosen)}


# ---------------------------------------------------------------- the library


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
            given["turns"] = _turns(me, other, r)
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
        return received(done)

    return operation


def received(done: Any) -> str:
    if hasattr(done, "model_dump_json"):
        return str(done.model_dump_json())
    if isinstance(done, list):
        return "\n".join(map(received, done))
    return f"{done} {done!r}"


# ---------------------------------------------------------------- HTTP


def _by_http(method: str, path: str, about: Any, described: Any) -> Operation:
    asked = {
        each["name"]: each.get("required", False)
        for each in about.get("parameters", [])
        if each["in"] == "query"
    }
    shape = about.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = shape.get("schema", {})
    first = schema.get("oneOf", [schema])[0]  # the others are shorter forms of it
    kind = first.get("$ref", path).rpartition("/")[2] if shape else ""
    assert not shape or kind in BODIES, f"say in BODIES what {method} {path} takes: {kind}"

    def operation(me: Tenant, other: Tenant, r: Random) -> str:
        # Most often at home; else at the other's door, or at one that is nobody's.
        space = me.space if r.random() < 0.7 else me.sending(r.choice((other.space, "nobody")))
        if method == "DELETE" and space == me.space and r.random() < 0.7:
            return ""
        address = path.replace("{space}", quote(space, safe=""))
        address = address.replace("{id}", quote(_id(me, other, r), safe=""))
        headers = {"x-justmem-space": quote(space, safe="")} if r.random() < 0.5 else {}
        if path.endswith("/ask") and r.random() < 0.3:
            headers["accept"] = "text/event-stream"
        query = _given(asked, me, other, r) | ({"wait": "true"} if "wait" in asked else {})
        body = BODIES[kind](me, other, r) if kind else None
        chats = me.chats()
        answer = me.client.request(method, address, params=query, json=body, headers=headers)
        if path in CHATS and answer.is_success:  # streamed: remembered after its end
            until(lambda: me.chats() > chats)
        _check(answer, path, space, me, other)
        if method == "DELETE" and answer.is_success:
            me.reopen()
        return whole(answer)

    return operation


def _check(answer: httpx.Response, path: str, space: str, me: Tenant, other: Tenant) -> None:
    shown = f"{answer.request.method} {answer.request.url}: {answer.status_code}"
    assert answer.status_code < 500, shown
    if space == other.space and "{space}" in path:
        assert answer.status_code == 404, shown
    if path == "/v1/spaces":
        assert set(answer.json()["spaces"]) <= {me.space}, answer.text
    if path == "/metrics":
        assert answer.status_code == 403, shown


def whole(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.headers!r} {answer.text}"


def _page(me: Tenant, other: Tenant, r: Random) -> str:
    return whole(me.client.get(r.choice(PAGES)))


# ---------------------------------------------------------------- MCP


def _by_tool(about: Any) -> Operation:
    schema = about["inputSchema"]
    names = {each: each in schema.get("required", []) for each in schema.get("properties", {})}

    def operation(me: Tenant, other: Tenant, r: Random) -> str:
        space = me.sending(other.space) if r.random() < 0.2 else me.space
        if about["name"] == "remember":
            given: dict[str, Any] = {"text": me.sentence(r), "at": "2024-05-20"}
        else:
            given = _given(names, me, other, r)
        call = {"name": about["name"], "arguments": given}
        return whole(tool_call(me.client, "tools/call", call, space))

    return operation


def tool_call(
    client: httpx.Client, method: str, params: Any, space: str | None = None
) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    if space is not None:
        headers["x-justmem-space"] = quote(space, safe="")
    return client.post("/mcp", content=json.dumps(message).encode(), headers=headers)
