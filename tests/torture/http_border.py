"""The server's border: every route, MCP and the chat proxy, with odd paths, headers and bodies."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from justmem.testing import Request, Respond, chat_body, chat_stream, serve_openai
from servers import serve, until
from stories import HISTORY
from torture import odd

SETTINGS = "rate = 1e9\nburst = 1000000\nsearch_and_fetch = true\nbody_bytes = 300000\n"
_MOST = 40
# What the server itself may say when its own upstream, here a hostile one, fails.
_OF_UPSTREAM = (502, 503)


def upstream(request: Request) -> Respond:
    """A chat server that answers as it is asked to: `model` says how."""
    wish = (request.body or {}).get("model") if isinstance(request.body, dict) else None
    match wish:
        case "stream":
            return Respond(chat_stream("Yes."))
        case "cut":
            return Respond(chat_body("Yes."), cut="inside")
        case "before":
            return Respond({}, cut="before")
        case "zipped":
            return Respond(b"no gzip at all", headers={"content-encoding": "gzip"})
        case "deep":
            return Respond(b"[" * 100_000)
        case "odd":
            return Respond(b'{"choices": [[]], "usage": "x"}')
        case "text":
            return Respond(b"\xff\xfe\0", headers={"content-type": "text/plain"})
        case _:
            return Respond(chat_body("Yes."))


class Requests:
    def __init__(self, folder: Path) -> None:
        self._folder = folder / "server"

    @contextmanager
    def serving(self) -> Iterator[Requests]:
        with serve_openai(upstream) as chat:
            settings = f'{SETTINGS}upstream = "{chat.url}"\n'
            with (
                serve(self._folder, server=settings) as self._server,
                self._server.owner() as self._client,
            ):
                self._read = 0
                self._routes = self._described()
                self._begin()
                yield self
                self._check_log("at the end")

    def _described(self) -> list[tuple[str, str, Any]]:
        """Every route that the server says it has."""
        paths = self._client.get("/openapi.json").json()["paths"]
        return [
            (method.upper(), path, operation)
            for path, operations in paths.items()
            for method, operation in operations.items()
        ]

    def _begin(self) -> None:
        for session in HISTORY:
            self._client.post("/v1/spaces/ana/sessions?wait=true", json=session)

    # ------------------------------------------------------------ one case

    def attempt(self, r: Random) -> str:
        what = r.random()
        if what < 0.06:
            return self._raw(r)
        if what < 0.2:
            return self._tool(r)
        if what < 0.3:
            return self._chat(r)
        method, path, operation = r.choice(self._routes)
        if path in ("/v1/chat/completions", "/v1/models"):
            return self._chat(r)
        if method == "DELETE" and r.random() < 0.8:
            return self.attempt(r)  # erasing all the time leaves nothing to ask
        return self._sent(r, method, self._path(r, path), self._body(r, operation))

    def _sent(self, r: Random, method: str, path: str, body: bytes | None) -> str:
        before = self._held()
        headers = {"content-type": "application/json"} | self._headers(r)
        if r.random() < 0.03:
            method = r.choice(("PUT", "TRACE", "X", "HEAD", "OPTIONS", "GET", "POST"))
        request = self._client.build_request(method, path, content=body, headers=headers)
        answer = self._client.send(request)
        self._check(answer, f"{method} {path[:200]} {(body or b'')[:300]!r} {headers}")
        if answer.status_code >= 400:
            assert self._held() == before, f"{method} {path[:200]} was refused: the store changed"
        self._tidy()
        return f"{method}: {'ok' if answer.status_code < 400 else answer.status_code}"

    def _check(self, answer: httpx.Response, shown: str) -> None:
        status = answer.status_code
        said = f"{shown}: {status} {answer.text[:300]!r}"
        self._check_log(said)
        if status >= 400 and answer.request.method != "HEAD":
            assert status < 500 or status in _OF_UPSTREAM, said
            passed = answer.request.url.path.startswith(("/mcp", "/v1/chat", "/v1/models"))
            if not passed:
                problem = answer.json()
                assert problem["status"] == status, said
                assert len(problem["detail"]) > 5, said

    def _check_log(self, shown: str) -> None:
        with open(self._server.log_file, encoding="utf-8", errors="replace") as log:
            log.seek(self._read)
            fresh = log.read()
            self._read = log.tell()
        assert "Traceback" not in fresh, f"{shown}: {fresh[-3000:]}"
        assert "unforeseen" not in fresh, f"{shown}: {fresh[-3000:]}"

    def _held(self) -> str:
        """What was said, once the cards of all that was accepted are made."""

        def settled() -> list[Any]:
            answer = self._client.get("/v1/spaces/ana/sessions", params={"limit": 1000})
            found = answer.json().get("sessions", [])
            return [found] if all(each["state"] != "pending" for each in found) else []

        (found,) = until(settled)
        return json.dumps([[each["id"], each["digest"], each["at"]] for each in found])

    def _tidy(self) -> None:
        found = json.loads(self._held())
        if len(found) > _MOST:
            self._client.delete("/v1/spaces/ana")
        if not found or len(found) > _MOST:
            self._begin()

    # ------------------------------------------------------------ its parts

    def _path(self, r: Random, path: str) -> str:
        space = "ana" if r.random() < 0.8 else _percent(r, odd.name(r))
        id = r.choice(("run", "bike", "run%231", "kyoto")) if r.random() < 0.5 else None
        path = path.replace("{space}", space or "ana")
        path = path.replace("{id}", id or _percent(r, odd.text(r, longest=3000)) or "x")
        if r.random() < 0.05:
            path += r.choice(("/", "//", "/..", "/%2e%2e/", "%00", "%ff", ";x", "%", "/a/b/c"))
        query = [
            f"{r.choice(('limit', 'offset', 'text', 'subject', 'kind', 'state', 'wait', 'x'))}="
            f"{_percent(r, str(r.choice((5, -1, 2**70, 'true', odd.text(r, longest=2000)))))}"
            for _ in range(r.choice((0, 0, 0, 1, 2)))
        ]
        return path + (f"?{'&'.join(query)}" if query else "")

    def _headers(self, r: Random) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name in (
            "accept",
            "origin",
            "host",
            "content-type",
            "x-justmem-space",
            "authorization",
        ):
            if r.random() < 0.03:
                given[name] = _header(r)
        if r.random() < 0.1:
            given["accept"] = "text/event-stream"
        return given

    def _body(self, r: Random, operation: Any) -> bytes | None:
        if "requestBody" not in operation:
            return None if r.random() < 0.9 else odd.file(r)
        if r.random() < 0.1:
            return odd.file(r)
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        kind = schema.get("oneOf", [schema])[0].get("$ref", "")
        match kind.rpartition("/")[2]:
            case "SessionIn":
                body = odd.session(r)
                body = body if isinstance(body, dict) else {"at": "2024-05-20", "turns": body}
            case "Question":
                asked = r.choice(odd.ASKED) if r.random() < 0.5 else odd.mostly(r, odd.text)
                body = {"question": asked, "at": odd.moment(r), "speaker": odd.mostly(r, odd.name)}
                body = {key: body[key] for key in r.sample([*body], r.randrange(1, 4))}
                body |= {"question": asked} if r.random() < 0.9 else {}
            case "Forget":
                keys = r.sample(("card", "session", "subject", "preview", "x"), r.randrange(1, 3))
                body = {key: odd.mostly(r, odd.name) for key in keys}
            case _:  # a shape that is not known here yet: its own fields, filled at random
                fields = self._fields(kind) if kind else [*schema.get("properties", {})]
                body = {name: odd.mostly(r, odd.text) for name in fields if r.random() < 0.6}
        if r.random() < 0.05:
            body[odd.text(r)] = odd.wrong(r)
        return odd.broken(r, _written(body)) if r.random() < 0.2 else _written(body)

    def _fields(self, kind: str) -> list[str]:
        schema = self._client.get("/openapi.json").json()["components"]["schemas"]
        return [*schema[kind.rpartition("/")[2]].get("properties", {})]

    # ------------------------------------------------------------ MCP, the proxy, the wire

    def _tool(self, r: Random) -> str:
        tools = (
            "remember",
            "recall",
            "ask",
            "replay",
            "forget",
            "list_sessions",
            "search",
            "fetch",
        )
        names = ("text", "turns", "question", "card", "session", "subject", "at", "id", "limit")
        call: Any = {"name": r.choice(tools), "arguments": {}}
        for name in r.sample(names, r.randrange(4)):
            call["arguments"][name] = odd.mostly(r, odd.text)
        message: Any = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        if r.random() < 0.2:
            message[r.choice([*message, "x"])] = odd.mostly(r, odd.text)
        if r.random() < 0.05:
            message = [message, odd.wrong(r)]
        body = odd.broken(r, _written(message)) if r.random() < 0.1 else _written(message)
        headers = {"accept": "application/json, text/event-stream"} | self._headers(r)
        headers |= {"content-type": "application/json", "x-justmem-space": "ana"}
        answer = self._client.post("/mcp", content=body, headers=headers)
        self._check(answer, f"POST /mcp {body[:300]!r}")
        self._tidy()
        return f"mcp: {'ok' if answer.status_code < 400 else answer.status_code}"

    def _chat(self, r: Random) -> str:
        models = ("good", "stream", "cut", "before", "zipped", "deep", "odd", "text")
        messages: Any = [odd.turn(r) for _ in range(r.choice((1, 1, 2, 0)))]
        body: Any = {"model": r.choice(models), "messages": messages, "temperature": odd.number(r)}
        if r.random() < 0.1:
            body[odd.text(r)] = odd.wrong(r)
        # A space of its own: what was streamed is remembered a moment after the answer.
        headers = self._headers(r) | {"content-type": "application/json", "x-justmem-space": "bob"}
        if r.random() < 0.2:
            headers["x-justmem-session"] = _header(r)
        sent = _written(body)
        answer = self._client.post("/v1/chat/completions", content=sent, headers=headers)
        self._check(answer, f"POST /v1/chat/completions {sent[:300]!r}")
        return f"chat: {'ok' if answer.status_code < 400 else answer.status_code}"

    def _raw(self, r: Random) -> str:
        """Bytes that are hardly HTTP. The server answers, or ends the connection."""
        lines = (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /v1/spaces HTTP/1.1\r\nHost: [\r\nOrigin: http://[\r\n\r\n",
            b"POST /v1/spaces/ana/ask HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
            b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
            b"GET /%zz HTTP/9.9\r\n\r\n",
            b"GET http://elsewhere/ HTTP/1.1\r\nHost: x\r\n\r\n",
            r.randbytes(100),
        )
        parts = urlsplit(self._server.url)
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as wire:
            wire.sendall(odd.broken(r, r.choice(lines)))
            wire.shutdown(socket.SHUT_WR)
            heard = b""
            try:
                while piece := wire.recv(65536):
                    heard += piece
            except ConnectionError:
                pass
        status = heard.split(b" ", 2)[1:2]
        assert not status or not status[0].startswith(b"5"), heard[:300]
        self._check_log("raw bytes")
        return "raw: refused"


def _written(value: Any) -> bytes:
    """As JSON; half a surrogate pair stays what it is, written as \\ud800."""
    return odd.as_json(value).encode("ascii", "replace")


def _percent(r: Random, text: str) -> str:
    return quote(text.encode("utf-8", r.choice(("replace", "surrogatepass"))), safe="")[:6000]


def _header(r: Random) -> bytes:
    text = odd.text(r, longest=2000).encode("utf-8", "surrogatepass")[:4000]
    return bytes(byte for byte in text if byte >= 32 and byte != 127).strip() or b"x"
