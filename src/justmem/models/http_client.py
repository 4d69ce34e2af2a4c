"""One JSON request to a model server, with each failure translated into our errors.

The key is sent to the configured server only: redirects are not followed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from justmem.errors import InvalidSetting, ModelNonsense, ModelRefused
from justmem.models.addresses import is_local
from justmem.models.retry import Server, Setback

if TYPE_CHECKING:
    import httpx

C = TypeVar("C")

# Names of httpx errors that happen before the request is sent, so nothing can have been billed.
NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}
_BROKEN = "the connection broke before the reply was complete"
_DONE = "[DONE]"  # ends a stream


class Declined(Exception):
    """The server answered with a 4xx or 501. It may accept the request in another form."""

    def __init__(self, status: int, text: str, failure: ModelRefused | Setback) -> None:
        super().__init__(status)
        self.status = status
        self.text = text
        self.failure = failure

    def names(self, *words: str) -> bool:
        """Whether the error is about one of these parts of the request."""
        said = self.text.lower()
        return any(word in said for word in words)


class HttpClient:
    """Posts JSON to one URL. `timeout` limits a whole reply, streamed or not."""

    def __init__(self, server: Server, url: str, timeout: float) -> None:
        if not (server.key or "").isascii() or not (server.key or "").isprintable():
            raise InvalidSetting(
                f"The API key for {server.model!r} has characters that HTTP cannot send."
            )
        self.server = server
        self._url = url
        self._timeout = timeout
        self._clients = PerLoop(self._client)

    def _client(self) -> httpx.AsyncClient:
        import httpx  # imported when first used: `import justmem` stays fast

        headers = {"content-type": "application/json", "user-agent": "justmem"}
        if self.server.key:
            headers["authorization"] = f"Bearer {self.server.key}"
        return httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, 10.0)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
            trust_env=not is_local(self._url),
            follow_redirects=False,
        )

    async def close(self) -> None:
        client = self._clients.pop()
        if client is not None:
            await client.aclose()

    async def post(self, body: Any) -> Any:
        """The reply's JSON. Raises Setback, Declined or ModelNonsense."""
        with self._translated():
            async with asyncio.timeout(self._timeout):
                reply = await self._clients.get().post(self._url, content=_encoded(body))
            self._check(reply.status_code, reply.headers, reply.text)
        return self._json(reply.content)

    async def stream(self, body: Any) -> AsyncGenerator[Any]:
        """The events of a streamed reply. A server that does not stream sends the whole reply as
        the only one. Raises as `post` does."""
        ends = time.perf_counter() + self._timeout
        with self._translated():
            sending = self._clients.get().stream("POST", self._url, content=_encoded(body))
            async with asyncio.timeout(self._timeout):
                reply = await sending.__aenter__()
            try:
                if reply.status_code >= 300 or "json" in reply.headers.get("content-type", ""):
                    async with asyncio.timeout(ends - time.perf_counter()):
                        data = await reply.aread()
                    self._check(reply.status_code, reply.headers, reply.text)
                    yield self._json(data)
                    return
                lines = reply.aiter_lines()
                # A deadline for each line: the consumer may pause between two of them.
                while (line := await _within(ends, lines)) is not None:
                    if (event := self._event(line)) is not None:
                        yield event
            finally:
                await sending.__aexit__(None, None, None)

    def _event(self, line: str) -> Any:
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if not data or data == _DONE:
            return None
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise ModelNonsense(f"{self.server} sent a stream that cannot be read.") from None
        if isinstance(event, dict) and event.get("error"):
            raise Setback(self.server.clean(data), sent=True)
        return event

    def _check(self, status: int, headers: Any, text: str) -> None:
        if status < 300:
            return
        failure = self.server.failure(status, headers, text)
        if isinstance(failure, Setback) and status != 501:
            raise failure
        raise Declined(status, text, failure)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except (TimeoutError, httpx.TimeoutException) as error:
            sent = type(error).__name__ not in NOT_SENT
            raise Setback(f"no reply within {self._timeout:g} s", sent=sent) from None
        except httpx.HTTPError as error:
            if type(error).__name__ in NOT_SENT:
                raise Setback(f"no connection: {error}".rstrip(": ")) from None
            raise Setback(_BROKEN, sent=True) from None

    def _json(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):  # RecursionError: nested to do harm
            shown = self.server.clean(data[:120].decode(errors="replace"))
            raise ModelNonsense(
                f"{self.server} sent something that is not JSON ({shown!r}). Check that the URL "
                "is an OpenAI-compatible server's base (most end in /v1)."
            ) from None


def _encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


async def _within(ends: float, lines: Any) -> str | None:
    """The next line, or None at the end."""
    left = ends - time.perf_counter()
    if left <= 0:  # even if the line has arrived
        raise TimeoutError
    async with asyncio.timeout(left):
        line: str | None = await anext(lines, None)
        return line


class PerLoop(Generic[C]):
    """A client for each event loop. Its connections belong to the loop that opened them, but a
    model object may outlive a loop (two calls of `asyncio.run`)."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._clients: dict[asyncio.AbstractEventLoop, C] = {}

    def get(self) -> C:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            still_open = {known: c for known, c in self._clients.items() if not known.is_closed()}
            self._clients = still_open | {loop: self._make()}
        return self._clients[loop]

    def pop(self) -> C | None:
        """Removes the running loop's client."""
        return self._clients.pop(asyncio.get_running_loop(), None)
