"""One request to an OpenAI-compatible server, with its failures in our words."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from justmem.errors import InvalidSetting, ModelNonsense, ModelRefused
from justmem.models.connection import (
    NOT_SENT,
    OPENAI_URL,
    PerLoop,
    checked_url,
    is_local,
    shown_url,
    transport_errors,
)
from justmem.models.retry import Server, Setback, error_text

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, AsyncOpenAI

# Servers that want no key still get a header; the openai package insists on one.
NO_KEY = "none"

_PATHS = {"chat": "/chat/completions", "embeddings": "/embeddings"}
_BROKEN = "the connection broke before the reply was complete"
_SET_A_KEY = (
    "Put its key into an environment variable, and name that variable with api_key_env or "
    "JUSTMEM_API_KEY_ENV; in Python, pass api_key."
)
_MOST_BUSY = 32  # requests under way that one client has


class Declined(Exception):
    """The server answered with a 4xx or 501: perhaps it would take the request worded otherwise."""

    def __init__(self, status: int, body: object, failure: ModelRefused | Setback) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.failure = failure

    def names(self, *words: str) -> bool:
        """Whether the complaint is about one of these parts of the request."""
        said = error_text(self.body, whole=True).lower()
        return any(word in said for word in words)


class Wire:
    """A connection to one model on one server. The only user of the `openai` package."""

    def __init__(
        self, model: str, base_url: str | None, api_key: str | None, timeout: float
    ) -> None:
        url = checked_url(base_url or OPENAI_URL)
        for path in ("/chat/completions", "/embeddings"):
            url = url.removesuffix(path)
        if not api_key and url == OPENAI_URL:
            raise InvalidSetting(
                f"{model!r} at {url} needs an API key. Set one, or give the base URL of a server "
                "that needs none."
            )
        self.server = Server(model, shown_url(url), api_key, _SET_A_KEY)
        self._url = url
        self._timeout = timeout
        self._clients = PerLoop(lambda: _Clients(self._client))

    def _client(self) -> AsyncOpenAI:
        import openai  # loaded when first needed: `import justmem` stays light

        limits = openai.Timeout(self._timeout, connect=min(self._timeout, 10.0))
        client = openai.AsyncOpenAI(
            api_key=self.server.key or NO_KEY,
            base_url=self._url,
            timeout=limits,
            max_retries=0,  # retries are ours, so that each attempt is counted
            # Words and keys go to the server that was named, and to none that it names.
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=limits, trust_env=not is_local(self._url), follow_redirects=False
            ),
        )
        # The package fills these from environment variables; config.py alone reads those.
        client.organization = client.project = client.admin_api_key = None
        client._custom_headers = {}
        return client

    async def close(self) -> None:
        clients = self._clients.pop()
        if clients is not None:
            await clients.close()

    async def post(self, what: Literal["chat", "embeddings"], body: dict[str, Any]) -> Any:
        """The reply's JSON. Raises Setback, Declined or ModelNonsense."""
        import openai

        with self._in_our_words(), self._clients.get().one() as client:
            async with asyncio.timeout(self._timeout):
                # By path: the package's own methods walk through all of the body first.
                raw = openai.HttpxBinaryResponseContent
                reply = await client.post(_PATHS[what], cast_to=raw, body=body)
        return self._json(reply.content)

    async def stream(self, body: dict[str, Any]) -> AsyncGenerator[Any]:
        """The chunks of a chat reply. A server that does not stream sends the whole reply as the
        only one. Raises as `post` does."""
        ends = time.perf_counter() + self._timeout
        with self._in_our_words(), self._clients.get().one() as client:
            completions: Any = client.chat.completions
            async with asyncio.timeout(self._timeout):
                chunks = await completions.create(**body)
            async with chunks:
                if "json" in chunks.response.headers.get("content-type", ""):
                    yield self._json(await chunks.response.aread())
                    return
                while True:
                    # Not one timeout around it all: the reader may pause between two chunks.
                    left = ends - time.perf_counter()
                    if left <= 0:  # however much has arrived already
                        raise TimeoutError
                    async with asyncio.timeout(left):
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        return
                    yield chunk.to_dict()

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        import openai

        try:
            yield
        except TimeoutError:
            raise self._timed_out() from None
        except openai.APITimeoutError as error:
            raise self._timed_out(error) from None
        except openai.APIConnectionError as error:
            raise _broken(error) from None
        except openai.APIStatusError as error:
            raise self._declined(error) from None
        except openai.APIError as error:  # told of in the middle of a stream
            raise Setback(self.server.clean(error.message), sent=True) from None
        except transport_errors():  # from a body that the package does not read itself
            raise Setback(_BROKEN, sent=True) from None
        except ValueError:
            raise ModelNonsense(f"{self.server} sent a stream that cannot be read.") from None

    def _json(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):  # the latter: nesting made to do harm
            shown = self.server.clean(data[:120].decode(errors="replace"))
            raise ModelNonsense(
                f"{self.server} sent something that is not JSON "
                f"({shown!r}). Check that the URL is an "
                "OpenAI-compatible server's base (most end in /v1)."
            ) from None

    def _timed_out(self, error: APIConnectionError | None = None) -> Setback:
        sent = type(error.__cause__).__name__ not in NOT_SENT if error else True
        return Setback(f"no reply within {self._timeout:g} s", sent=sent)

    def _declined(self, error: APIStatusError) -> Declined | Setback:
        failure = self.server.failure(error.status_code, error.response.headers, error.body)
        if isinstance(failure, Setback) and error.status_code != 501:
            return failure
        return Declined(error.status_code, error.body, failure)


class _Clients:
    """A client looks at each of its connections for every request. With hundreds of them, several
    clients with a few each are cheaper; the next is made when those there are busy."""

    def __init__(self, make: Callable[[], AsyncOpenAI]) -> None:
        self._make = make
        self._clients: list[AsyncOpenAI] = []
        self._busy: list[int] = []

    @contextmanager
    def one(self) -> Iterator[AsyncOpenAI]:
        place = next((n for n, busy in enumerate(self._busy) if busy < _MOST_BUSY), None)
        if place is None:
            place = len(self._clients)
            self._clients.append(self._make())
            self._busy.append(0)
        self._busy[place] += 1
        try:
            yield self._clients[place]
        finally:
            self._busy[place] -= 1

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


def _broken(error: APIConnectionError) -> Setback:
    cause = error.__cause__
    if type(cause).__name__ in NOT_SENT:
        return Setback(f"no connection: {cause}".rstrip(": "))
    return Setback(_BROKEN, sent=True)
