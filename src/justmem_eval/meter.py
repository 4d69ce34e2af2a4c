"""A loopback proxy in front of the model server: the same meter for every system.

Each system talks to a lane of its own, `http://127.0.0.1:PORT/LANE/v1`. Usage comes from the
server's reply; where it gives none, the texts are counted with o200k_base and the call is marked
as estimated.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from justmem_eval.models import Cap, CapReached
from justmem_eval.records import Usage
from justmem_eval.text import count

_HOP = {"host", "content-length", "connection", "accept-encoding", "transfer-encoding"}
_PATIENCE = 600.0  # seconds for one request
_LONGEST_REPLY = 4096  # tokens, where a request sets no limit


@dataclass
class Meter:
    """`url(lane)` is a base URL for one system. `used(lane)` is what it took so far."""

    upstream: str
    cap: Cap = field(default_factory=lambda: Cap(None))
    port: int = 0
    capped: set[str] = field(default_factory=set)
    _used: dict[str, Usage] = field(default_factory=dict)
    _running: Counter[str] = field(default_factory=Counter)
    _last: dict[str, float] = field(default_factory=dict)  # when a request last began or ended
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, lane: str, *, capped: bool = False) -> str:
        """`capped`: calls of this lane are checked against the cap here, because its caller does
        not do it."""
        if capped:
            self.capped.add(lane)
        return f"http://127.0.0.1:{self.port}/{lane}/v1"

    def lanes(self) -> dict[str, Usage]:
        with self._lock:
            return dict(self._used)

    def used(self, lane: str) -> Usage:
        return self.lanes().get(lane, Usage())

    def last(self, lane: str) -> float:
        """When the lane was last seen at work, by the monotonic clock."""
        with self._lock:
            return time.monotonic() if self._running[lane] else self._last.get(lane, 0.0)

    @contextmanager
    def at_work(self, lane: str) -> Iterator[None]:
        with self._lock:
            self._running[lane] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[lane] -= 1
                self._last[lane] = time.monotonic()

    def add(self, lane: str, use: Usage) -> None:
        with self._lock:
            self._used[lane] = self._used.get(lane, Usage()).plus(use)


@contextmanager
def metering(upstream: str, cap: Cap | None = None) -> Iterator[Meter]:
    """Runs the proxy in front of `upstream`, a base URL that ends in /v1."""
    meter = Meter(upstream.rstrip("/"), cap or Cap(None))
    here = httpx.URL(upstream).host in ("127.0.0.1", "localhost", "::1")
    client = httpx.Client(timeout=_PATIENCE, trust_env=not here)

    class Connection(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            lane, _, rest = self.path.lstrip("/").partition("/")
            most = _most(raw) if lane in meter.capped else 0
            try:
                meter.cap.reserve(most)
            except CapReached as error:
                self._refuse(429, str(error))
                return
            spent = self._forward(lane, rest.removeprefix("v1"), raw)
            meter.cap.settle(most, spent if lane in meter.capped else 0)

        do_GET = do_POST

        def _forward(self, lane: str, path: str, raw: bytes) -> int:
            """Passes it on, and says what it took."""
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
            try:
                with meter.at_work(lane):
                    url = meter.upstream + path
                    reply = client.request(self.command, url, content=raw, headers=headers)
            except httpx.HTTPError as error:
                meter.add(lane, counted(path, raw, 502, b""))
                self._refuse(502, f"The model server: {error}")
                return 0
            use = Usage()
            if self.command == "POST":
                use = counted(path, raw, reply.status_code, reply.content)
                meter.add(lane, use)
            kept = {"content-type": reply.headers.get("content-type", "application/json")}
            if "retry-after" in reply.headers:
                kept["retry-after"] = reply.headers["retry-after"]
            self._send(reply.status_code, reply.content, kept)
            return use.tokens

        def _refuse(self, status: int, reason: str) -> None:
            said = json.dumps({"error": {"message": reason}}).encode()
            self._send(status, said, {"content-type": "application/json"})

        def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that went away is its own affair

    with client, Server(("127.0.0.1", 0), Connection) as server:
        meter.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield meter
        finally:
            server.shutdown()
            thread.join()


def counted(path: str, raw: bytes, status: int, body: bytes) -> Usage:
    """What one exchange took."""
    vectors = "embeddings" in path
    requests = {"embeddings" if vectors else "requests": 1}
    if status >= 400:
        return Usage(**requests, failed=1)
    usage = _usage(body)
    if vectors:
        return Usage(**requests, embedding=usage[0] if usage else _texts(raw, "input"))
    if usage is None:
        usage = _texts(raw, "messages"), count(_said(body))
        return Usage(**requests, tokens_in=usage[0], tokens_out=usage[1], estimated=1)
    return Usage(**requests, tokens_in=usage[0], tokens_out=usage[1])


def _events(body: bytes) -> list[str]:
    """The events of a stream, or the one reply."""
    text = body.decode("utf-8", "replace")
    return [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]


def _said(body: bytes) -> str:
    """The words of a reply, without the protocol around them; a reply of another shape as it is."""
    said: list[str] = []
    known = False
    for event in _events(body):
        try:
            choices = json.loads(event)["choices"]
        except (ValueError, KeyError, TypeError):
            continue
        known = True
        for choice in choices:
            message = choice.get("delta") or choice.get("message") or {}
            calls = [call.get("function") or {} for call in message.get("tool_calls") or ()]
            said += [str(message.get(name) or "") for name in ("reasoning_content", "content")]
            said += [str(call.get(name) or "") for call in calls for name in ("name", "arguments")]
    return "".join(said) if known else body.decode("utf-8", "replace")


def _usage(body: bytes) -> tuple[int, int] | None:
    """From a reply, or from the last event of a stream that carries it."""
    for part in reversed(_events(body)):
        try:
            usage = json.loads(part)["usage"]
            return int(usage["prompt_tokens"]), int(usage.get("completion_tokens") or 0)
        except (ValueError, KeyError, TypeError):
            continue
    return None


def _most(raw: bytes) -> int:
    try:
        body = json.loads(raw)
    except ValueError:
        return 0
    longest = body.get("max_completion_tokens") or body.get("max_tokens") or _LONGEST_REPLY
    return _texts(raw, "messages") + (int(longest) if "messages" in body else 0)


def _texts(raw: bytes, name: str) -> int:
    try:
        return count(json.dumps(json.loads(raw).get(name, ""), ensure_ascii=False))
    except ValueError:
        return 0
