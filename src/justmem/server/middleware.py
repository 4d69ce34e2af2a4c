"""Checks every request before the application, and limits, completes and logs each response.

The log contains no words of users, no names of spaces and no keys.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

from h11 import LocalProtocolError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from justmem.errors import (
    JustMemError,
    KeyNeeded,
    Refused,
    TooLarge,
    TooMany,
    TooSlow,
    Unfinished,
)
from justmem.runtime.addresses import is_loopback
from justmem.runtime.tracing import incoming
from justmem.server.access_keys import Key
from justmem.server.problems import respond
from justmem.server.state import Server

KEY = "justmem.key"
_GUARDED = ("/v1/", "/mcp", "/metrics")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_PAGES = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "content-security-policy": _PAGES,
    "cache-control": "no-store",
}
log = logging.getLogger("justmem.access")


class Middleware:
    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server
        self._serving = server.serving
        self._open: Counter[str] = Counter()  # requests that are not answered, by key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The undecoded path: %2F in a name must not split it, and %2e%2e must not go up.
        scope["path"] = scope.get("raw_path", b"").decode("ascii", "replace") or scope["path"]
        response = _Response(self._server, scope, send)
        try:
            async with asyncio.timeout(self._serving.request_seconds) as response.deadline:
                receive = await self._checked(scope, receive)
                with incoming(Headers(scope=scope)):
                    await self._app(scope, receive, response.send)
        except (JustMemError, HTTPException, TimeoutError) as error:
            response.deadline = None
            if response.status:  # it has begun: uvicorn closes the connection
                log.warning("a response was cut short: %s", type(error).__name__)
            else:
                await self._refuse(error, scope, receive, response.send)
        finally:
            if KEY in scope:
                self._open[scope[KEY].id] -= 1
            response.log()

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        headers = Headers(scope=scope)
        guarded = scope["path"].startswith(_GUARDED)
        _check_length(headers)
        self._check_origin(headers, guarded)
        if guarded:
            key = scope[KEY] = self._identify(headers, signed_in=_is_mcp(scope))
            self._open[key.id] += 1
            most = max(1, self._server.connections // 2)
            if self._open[key.id] > most:
                raise TooMany(f"This key has {most} open requests: wait for an answer.", after=1.0)
        return await self._read(headers, scope, receive)

    async def _refuse(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        if isinstance(error, TimeoutError):
            seconds = self._serving.request_seconds
            error = TooSlow(f"This took longer than {seconds:g} seconds: try again, or ask less.")
        answer = respond(error, scope["path"])
        if isinstance(error, KeyNeeded) and _is_mcp(scope) and self._server.sign_in is not None:
            answer.headers["www-authenticate"] = self._server.sign_in.challenge
        await answer(scope, receive, send)

    # ------------------------------------------------------------ checks

    def _check_origin(self, headers: Headers, guarded: bool) -> None:
        """Refuses requests of other web pages. Without keys nothing else stops them, and a request
        without an Origin header counts too. The check of the host prevents DNS rebinding."""
        host = headers.get("host", "").lower()
        if self._server.keys is None and not is_loopback(_hostname(host)):
            raise Refused("Without keys, only requests to this machine's own address are allowed.")
        origin = headers.get("origin")
        if origin is not None:
            known = origin in self._serving.origins
            elsewhere = not known and origin.lower().partition("://")[2] != host
        else:
            elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
            elsewhere = elsewhere and guarded and self._server.keys is None
        if elsewhere:
            raise Refused("Pages of other origins are not allowed: see `origins` in [server].")

    def _identify(self, headers: Headers, *, signed_in: bool) -> Key:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # Anthropic's clients send the key as x-api-key.
        token = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        key = self._server.identify(token, signed_in=signed_in)
        if key is None:
            raise KeyNeeded(
                "This needs a key: send `Authorization: Bearer jm_...`. The server's owner makes "
                "one with `justmem keys add`."
            )
        self._server.rates.admit(key.id)
        return key

    async def _read(self, headers: Headers, scope: Scope, receive: Receive) -> Receive:
        """Reads the whole body first, within `body_bytes` and `client_seconds`."""
        limit = self._serving.body_bytes
        too_large = TooLarge(f"The request is larger than {limit:,} bytes: send less at a time.")
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > limit:
            raise too_large
        if declared == "0" and "transfer-encoding" not in headers:
            return receive
        body = bytearray()
        try:
            async with asyncio.timeout(self._serving.client_seconds):
                async for piece in Request(scope, receive).stream():
                    body += piece
                    if len(body) > limit:
                        raise too_large
        except (TimeoutError, ClientDisconnect):
            raise Unfinished("The request's body did not arrive in time: send it again.") from None
        left: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return left.pop() if left else await receive()

        return replay


def _check_length(headers: Headers) -> None:
    """A proxy in front may count the body the other way, and take its end for another request."""
    if "content-length" in headers and "transfer-encoding" in headers:
        detail = "The request has both Content-Length and Transfer-Encoding: send one of them."
        raise HTTPException(400, detail, {"connection": "close"})


def _is_mcp(scope: Scope) -> bool:
    return bool(scope["path"] == "/mcp")


class _Response:
    """Adds headers to a response, limits its time, and logs it. It has `request_seconds` to begin
    and `stream_seconds` to end."""

    def __init__(self, server: Server, scope: Scope, send: Send) -> None:
        self._server = server
        self._scope = scope
        self._send = send
        self._started = time.perf_counter()
        self.deadline: asyncio.Timeout | None = None
        self.status = 0
        self._bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.deadline is not None and not self.deadline.expired():
                now = asyncio.get_running_loop().time()
                self.deadline.reschedule(now + self._server.serving.stream_seconds)
        self._bytes += len(message.get("body", b""))
        # A client that stops reading must not block the response forever.
        async with asyncio.timeout(self._server.serving.client_seconds):
            with suppress(LocalProtocolError):  # the client did not send HTTP
                await self._send(message)

    def log(self) -> None:
        """Unknown paths and methods have one name: an unlimited number would fill the metrics."""
        seconds = time.perf_counter() - self._started
        other = "/mcp" if _is_mcp(self._scope) else "other"
        route = getattr(self._scope.get("route"), "path", None) or other
        method = self._scope["method"] if self._scope["method"] in _METHODS else "other"
        status, key = str(self.status or 499), self._scope.get(KEY)
        self._server.metrics.count("http_requests", method, route, status)
        self._server.metrics.observe("http_request_seconds", route, seconds)
        line = "%s %s %s %d bytes %.0f ms key=%s"
        name = key.id if key else "-"
        log.info(line, method, route, status, self._bytes, seconds * 1000, name)


def _hostname(host: str) -> str:
    """Without the port. Empty if it is not the name of a host."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
