"""A loopback proxy in front of the model server: the same meter for all systems of others.

Each history of a system has a lane of its own, `http://127.0.0.1:PORT/LANE/v1`. Usage comes from
the server's reply. Where it gives none, the texts are counted with o200k_base and the call is
marked as estimated.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from justmem_eval.loopback import Request, Respond, serve
from justmem_eval.models import Cap, CapReached
from justmem_eval.records import Usage
from justmem_eval.text import count

_HOP = {"host", "content-length", "connection", "accept-encoding", "transfer-encoding"}
_KEPT = ("content-type", "retry-after")  # headers of a reply
_PATIENCE = 600.0  # seconds for one request
_LONGEST_REPLY = 4096  # tokens, where a request sets no limit


class Meter:
    """`url(lane)` is a base URL for one history. `used(lane)` is what it took so far."""

    def __init__(self) -> None:
        self.root = ""  # the URL of the proxy
        self._used: dict[str, Usage] = {}
        self._running: Counter[str] = Counter()
        self._last: dict[str, float] = {}  # when a request last began or ended
        self._lock = threading.Lock()

    def url(self, lane: str) -> str:
        return f"{self.root}/{lane}/v1"

    def used(self, lane: str) -> Usage:
        with self._lock:
            return self._used.get(lane, Usage())

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
def metering(upstream: str, cap: Cap) -> Iterator[Meter]:
    """Runs the proxy in front of `upstream`, a base URL that ends in /v1."""
    meter = Meter()
    here = httpx.URL(upstream).host in ("127.0.0.1", "localhost", "::1")

    def reply(request: Request) -> Respond:
        lane, _, path = request.path.lstrip("/").partition("/")
        most, use = _most(request.body), Usage()
        try:
            cap.reserve(most)
        except CapReached as error:
            return _refusal(429, str(error))
        try:
            with meter.at_work(lane):
                respond = forward(path.removeprefix("v1"), request)
            use = counted(path, request.body, respond.status, respond.body)
        finally:
            cap.settle(most, use.tokens)
        if request.method == "POST":
            meter.add(lane, use)
        return respond

    def forward(path: str, request: Request) -> Respond:
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        url = upstream.rstrip("/") + path
        try:
            found = client.request(request.method, url, content=request.raw, headers=headers)
        except httpx.HTTPError as error:
            return _refusal(502, f"The model server: {error}")
        kept = {name: found.headers[name] for name in _KEPT if name in found.headers}
        return Respond(found.content, found.status_code, kept)

    with httpx.Client(timeout=_PATIENCE, trust_env=not here) as client, serve(reply) as meter.root:
        yield meter


def _refusal(status: int, reason: str) -> Respond:
    return Respond({"error": {"message": reason}}, status)


def counted(path: str, asked: Any, status: int, body: bytes) -> Usage:
    """What one exchange took. `asked`: the request as JSON."""
    vectors = "embeddings" in path
    requests = {"embeddings" if vectors else "requests": 1}
    if status >= 400:
        return Usage(**requests, failed=1)
    usage = _usage(body)
    if vectors:
        return Usage(**requests, embedding=usage[0] if usage else _texts(asked, "input"))
    tokens_in, tokens_out = usage or (_texts(asked, "messages"), count(_said(body)))
    return Usage(
        **requests, tokens_in=tokens_in, tokens_out=tokens_out, estimated=int(usage is None)
    )


def _events(body: bytes) -> list[dict[str, Any]]:
    """The events of a stream, or the one reply, as far as they are JSON objects."""
    text = body.decode("utf-8", "replace")
    found = []
    for part in [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]:
        try:
            event = json.loads(part)
        except ValueError:
            continue
        if isinstance(event, dict):
            found.append(event)
    return found


def _said(body: bytes) -> str:
    """The words of a reply, without the protocol around them."""
    said: list[str] = []
    for event in _events(body):
        for choice in event.get("choices") or ():
            message = choice.get("delta") or choice.get("message") or {}
            calls = [call.get("function") or {} for call in message.get("tool_calls") or ()]
            said += [str(message.get(name) or "") for name in ("reasoning_content", "content")]
            said += [str(call.get(name) or "") for call in calls for name in ("name", "arguments")]
    return "".join(said)


def _usage(body: bytes) -> tuple[int, int] | None:
    """From a reply, or from the last event of a stream that carries it."""
    for event in reversed(_events(body)):
        if usage := event.get("usage"):
            return int(usage["prompt_tokens"]), int(usage.get("completion_tokens") or 0)
    return None


def _most(asked: Any) -> int:
    if not isinstance(asked, dict) or "messages" not in asked:
        return 0
    longest = asked.get("max_completion_tokens") or asked.get("max_tokens") or _LONGEST_REPLY
    return _texts(asked, "messages") + int(longest)


def _texts(asked: Any, name: str) -> int:
    texts = asked.get(name, "") if isinstance(asked, dict) else ""
    return count(json.dumps(texts, ensure_ascii=False))
