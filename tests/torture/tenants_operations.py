"""Everything a tenant can do. Each operation returns all that it received."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import quote

import httpx

from justmem.errors import JustMemError
from servers import until
from torture.tenants_world import Tenant

Operation = Callable[[Tenant, Tenant, Random], str]


def received(done: Any) -> str:
    if hasattr(done, "model_dump_json"):
        return str(done.model_dump_json())
    if isinstance(done, list):
        return "\n".join(map(received, done))
    return str(done)


def _question(me: Tenant, other: Tenant, r: Random) -> str:
    usual = ("What did I buy?", "Whom did I meet?", "What exactly did you note?", "How many lamps?")
    if r.random() < 0.5:
        return r.choice(usual)
    known = [*other.guessable[-20:], *me.guessable[-20:]] or ["nothing"]
    return f"Where is {me.sending(r.choice(known))}?"


def _id(me: Tenant, other: Tenant, r: Random) -> str:
    known = other.ids() if r.random() < 0.5 else me.ids()
    return me.sending(r.choice([*known, "s1", "s1#1", "none"]))


# ---------------------------------------------------------------- the library

Arguments = Callable[[Tenant, Tenant, Random], dict[str, Any]]
_NOTHING: Arguments = lambda me, other, r: {}  # noqa: E731


def _forgetting(me: Tenant, other: Tenant, r: Random) -> dict[str, Any]:
    kind = r.choice(("card", "session", "subject", "subject", "everything"))
    if kind == "everything":
        return {"everything": False, "session": _id(me, other, r)}
    return {kind: "User" if kind == "subject" and r.random() < 0.3 else _id(me, other, r)}


def _filters(me: Tenant, other: Tenant, r: Random) -> dict[str, Any]:
    return r.choice(
        (
            {},
            {"text": me.sending(r.choice([*other.guessable[-5:], "bike"]))},
            {"session": _id(me, other, r)},
            {"subject": "User"},
        )
    )


LIBRARY: dict[str, Arguments] = {
    "remember": lambda me, other, r: {"session": me.session(r)},
    "keep": lambda me, other, r: {"session": me.session(r)},
    "remember_many": lambda me, other, r: {"sessions": [me.session(r)]},
    "retry": _NOTHING,
    "recall": lambda me, other, r: {"question": _question(me, other, r)},
    "ask": lambda me, other, r: {"question": _question(me, other, r)},
    "follow": lambda me, other, r: {"question": _question(me, other, r)},
    "forget": _forgetting,
    "cards": _filters,
    "card": lambda me, other, r: {"card_id": _id(me, other, r)},
    "source": lambda me, other, r: {"card_id": _id(me, other, r)},
    "session": lambda me, other, r: {"session_id": _id(me, other, r)},
    "sessions": _NOTHING,
    "waiting": _NOTHING,
    "quarantined": lambda me, other, r: {"session_id": _id(me, other, r)},
    "stats": _NOTHING,
    "reembed": _NOTHING,
}


def by_library(name: str) -> Operation:
    def operation(me: Tenant, other: Tenant, r: Random) -> str:
        given = LIBRARY[name](me, other, r)
        try:
            done = getattr(me.memory, name)(**given)
            done = list(done) if name == "follow" else done
        except JustMemError as error:
            done = error
        if name == "keep":
            me.memory.retry()
        return received(done)

    return operation


# ---------------------------------------------------------------- HTTP

Body = Callable[[Tenant, Tenant, Random], Any]


def _asked(me: Tenant, other: Tenant, r: Random) -> Any:
    return {"question": _question(me, other, r), "candidates": True, "at": "2024-12-01"}


def _chat(me: Tenant, other: Tenant, r: Random) -> Any:
    asked = me.sentence(r) if r.random() < 0.5 else _question(me, other, r)
    return {"messages": [{"role": "user", "content": asked}], "stream": r.random() < 0.3}


def _what(me: Tenant, other: Tenant, r: Random) -> Any:
    return {r.choice(("card", "session", "subject")): _id(me, other, r), "preview": True}


HTTP: dict[tuple[str, str], Body | None] = {
    ("GET", "/v1/spaces"): None,
    ("GET", "/v1/spaces/{space}"): None,
    ("DELETE", "/v1/spaces/{space}"): None,
    ("GET", "/v1/spaces/{space}/cards"): None,
    ("GET", "/v1/spaces/{space}/cards/{id}"): None,
    ("POST", "/v1/spaces/{space}/forget"): _what,
    ("GET", "/v1/spaces/{space}/export"): None,
    ("GET", "/v1/spaces/{space}/timeline"): None,
    ("POST", "/v1/spaces/{space}/sessions"): lambda me, other, r: me.session(r),
    ("GET", "/v1/spaces/{space}/sessions"): None,
    ("GET", "/v1/spaces/{space}/sessions/{id}"): None,
    ("GET", "/v1/spaces/{space}/sessions/{id}/status"): None,
    ("GET", "/v1/spaces/{space}/sessions/{id}/quarantined"): None,
    ("POST", "/v1/spaces/{space}/sessions/{id}/retry"): None,
    ("POST", "/v1/spaces/{space}/retry"): None,
    ("POST", "/v1/spaces/{space}/recall"): _asked,
    ("POST", "/v1/spaces/{space}/ask"): _asked,
    ("POST", "/v1/chat/completions"): _chat,
    ("GET", "/v1/models"): None,
    ("GET", "/metrics"): None,
    ("GET", "/health/live"): None,
    ("GET", "/health/ready"): None,
}
PAGES = ("/", "/app.js", "/openapi.json", "/nothing", "/keys.json", "/../home/keys.json")


def by_http(method: str, path: str) -> Operation:
    def operation(me: Tenant, other: Tenant, r: Random) -> str:
        body = HTTP[method, path]
        # Most often at home; else at the other's door, or at one that is nobody's.
        space = me.space if r.random() < 0.7 else me.sending(r.choice((other.space, "nobody")))
        id = _id(me, other, r)
        address = path.replace("{space}", quote(space, safe="")).replace("{id}", quote(id, safe=""))
        if method == "DELETE" and space == me.space:
            return ""  # see `erase`
        waiting = {"wait": "true"} if path.endswith("/sessions") and method == "POST" else {}
        headers = {"x-justmem-space": quote(space, safe="")} if r.random() < 0.5 else {}
        if path.endswith("/ask") and r.random() < 0.3:
            headers["accept"] = "text/event-stream"
        sent = body(me, other, r) if body else None
        chats = me.chats()
        answer = me.client.request(method, address, params=waiting, json=sent, headers=headers)
        if path.startswith("/v1/chat") and answer.is_success:  # streamed: remembered after its end
            until(lambda: me.chats() > chats)
        if space == other.space and "{space}" in path:
            assert answer.status_code == 404, f"{method} {address}: {answer.status_code}"
        if path == "/v1/spaces":
            assert set(answer.json()["spaces"]) <= {me.space}, answer.text
        if path == "/metrics":
            assert answer.status_code == 403
        return whole(answer)

    return operation


def whole(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.headers!r} {answer.text}"


def page(me: Tenant, other: Tenant, r: Random) -> str:
    return whole(me.client.get(r.choice(PAGES)))


def erase(me: Tenant, other: Tenant, r: Random) -> str:
    """All of it, by either way; the library is opened anew by whoever uses it next."""
    return whole(me.client.delete(f"/v1/spaces/{quote(me.space, safe='')}"))


# ---------------------------------------------------------------- MCP

TOOLS: dict[str, Arguments] = {
    "remember": lambda me, other, r: {"text": me.sentence(r), "at": "2024-05-20"},
    "recall": lambda me, other, r: {"question": _question(me, other, r)},
    "ask": lambda me, other, r: {"question": _question(me, other, r)},
    "replay": lambda me, other, r: {"card": _id(me, other, r)},
    "forget": lambda me, other, r: {r.choice(("card", "session")): _id(me, other, r)},
    "list_sessions": _NOTHING,
    "search": lambda me, other, r: {"query": _question(me, other, r)},
    "fetch": lambda me, other, r: {"id": _id(me, other, r)},
}


def by_tool(name: str) -> Operation:
    def operation(me: Tenant, other: Tenant, r: Random) -> str:
        space = me.sending(other.space) if r.random() < 0.2 else me.space
        call = {"name": name, "arguments": TOOLS[name](me, other, r)}
        return told(me.client, "tools/call", call, space)

    return operation


def told(client: httpx.Client, method: str, params: Any, space: str | None = None) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    if space is not None:
        headers["x-justmem-space"] = quote(space, safe="")
    return whole(client.post("/mcp", content=json.dumps(message).encode(), headers=headers))


OPERATIONS: dict[str, Operation] = {
    **{f"library {name}": by_library(name) for name in LIBRARY},
    **{f"{method} {path}": by_http(method, path) for method, path in HTTP},
    **{f"tool {name}": by_tool(name) for name in TOOLS},
    "GET pages": page,
}
