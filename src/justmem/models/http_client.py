"""JSON requests to a model server: retries, time limits, and each failure as one of our errors."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from justmem.errors import InvalidSetting, ModelNonsense, ModelRefused, ModelUnavailable
from justmem.runtime.addresses import OPENAI_URL, checked_url, is_local, shown_url

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

log = logging.getLogger("justmem.models")

# Names of httpx errors that happen before the request is sent, so nothing can have been billed.
NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}
_LONGEST_WAIT = 60.0  # seconds before another attempt, even if the server asks for more
_TOO_LONG = re.compile(
    r"context.?length|context.?window|context size|maximum context|too long|too many tokens"
    r"|reduce the length|maximum.{0,20}tokens per|string_above_max_length",
    re.IGNORECASE,
)
_REFUSALS = {  # HTTP status -> what happened, and what to do
    300: ("redirects to another address", "Set the address that answers."),
    400: ("does not accept the request", "Check the model's name and settings."),
    401: (
        "needs an API key that it accepts",
        "Set it in the environment variable JUSTMEM_API_KEY; in Python, pass api_key.",
    ),
    402: ("needs payment: the account is out of credit", "Add credit to it."),
    403: ("does not allow this key to use it", "Use a key that may."),
    404: (
        "was not found",
        "Check the model's name, and that the URL is the server's base (most end in /v1).",
    ),
    413: (
        "does not accept a prompt this long",
        "Set its true context size, or use a model with a larger one.",
    ),
}


class HttpOptions(TypedDict, total=False):
    """Options of every model on a server. Without `base_url` it is OpenAI's."""

    base_url: str | None
    api_key: str | None
    timeout: float  # seconds for a whole reply
    attempts: int
    sleep: Sleep


class Setback(Exception):
    """A failed attempt that is worth repeating.

    `wait` is the time that the server asked for, in seconds. `sent`: the server may have done the
    work, and may bill it, although no reply arrived.
    """

    def __init__(self, reason: str, *, wait: float | None = None, sent: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.sent = sent


class Declined(ModelRefused):
    """The server may accept the request in another form."""


class HttpClient:
    """Posts JSON to one path of an OpenAI-compatible server. `base_url` may include the path. The
    key is sent to this URL only: redirects are not followed."""

    def __init__(
        self,
        model: str,
        path: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        attempts: int = 4,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        url = checked_url(base_url or OPENAI_URL).removesuffix(path)
        if not api_key and url == OPENAI_URL:
            raise InvalidSetting(
                f"{model!r} at {url} needs an API key. Set one, or give the base URL of a server "
                "that needs none."
            )
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            raise InvalidSetting(f"The API key for {model!r} has characters that HTTP cannot send.")
        self.model = model
        self._url = url + path
        self._key = api_key
        self._timeout = timeout
        self._attempts = attempts
        self._sleep = sleep
        # Connections belong to the event loop that opened them, but a model object may outlive a
        # loop (two calls of `asyncio.run`).
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}

    def __str__(self) -> str:
        return f"The model {self.model!r} at {shown_url(self._url)}"

    def _client(self) -> httpx.AsyncClient:
        import httpx  # imported when first used: `import justmem` stays fast

        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients = {
                other: c for other, c in self._clients.items() if not other.is_closed()
            }
            headers = {"content-type": "application/json", "user-agent": "justmem"}
            if self._key:
                headers["authorization"] = f"Bearer {self._key}"
            self._clients[loop] = httpx.AsyncClient(
                headers=headers,
                timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, 10.0)),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
                trust_env=not is_local(self._url),
            )
        return self._clients[loop]

    async def close(self) -> None:
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    # ------------------------------------------------------------ requests

    async def retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Waits as long as the server asks before the next attempt, else longer each time."""
        for number in range(1, self._attempts + 1):
            try:
                return await attempt()
            except Setback as setback:
                last = setback
            if number < self._attempts:
                # Random, so that many clients do not return at the same moment.
                growing = 2 ** (number - 2) * random.uniform(0.5, 1)
                asked = None if last.wait is None else last.wait * random.uniform(1, 1.1)
                pause = min(growing if asked is None else asked, _LONGEST_WAIT)
                log.info("%s: %s; trying again in %.1f s", self.model, last, pause)
                await self._sleep(pause)
        raise ModelUnavailable(
            f"{self} did not answer (attempts: {self._attempts}, the last one: {last}). "
            "Check that it is up and reachable, wait a little, and try again."
        )

    async def post(self, body: Any) -> Any:
        """The reply's JSON. Raises Setback, ModelRefused or ModelNonsense."""
        import httpx

        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(self._timeout):
                reply = await self._client().post(self._url, content=content)
        except (TimeoutError, httpx.HTTPError) as error:
            sent = type(error).__name__ not in NOT_SENT
            reason = "the connection broke before the reply was complete"
            if isinstance(error, TimeoutError | httpx.TimeoutException):
                reason = f"no reply within {self._timeout:g} s"
            elif not sent:
                reason = f"no connection: {error}".rstrip(": ")
            raise Setback(reason, sent=sent) from None
        if reply.status_code >= 300:
            raise self._failure(reply)
        try:
            return json.loads(reply.content)
        except (ValueError, RecursionError):  # RecursionError: nested to do harm
            raise ModelNonsense(
                f"{self} sent something that is not JSON ({self.cleaned(reply.text[:120])!r}). "
                "Check that the URL is an OpenAI-compatible server's base (most end in /v1)."
            ) from None

    def _failure(self, reply: httpx.Response) -> Setback | ModelRefused:
        """Setback for an error that may pass, ModelRefused for any other."""
        status, text = reply.status_code, reply.text
        told = f"HTTP {status}: {self.cleaned(_message(text))}".rstrip(": ")
        if status == 429 and "insufficient_quota" in text:
            status = 402
        if status in (408, 409, 429) or (status >= 500 and status != 501):
            # After a gateway timeout (504) the model may still be working on it.
            return Setback(told, wait=_wait(reply), sent=status in (408, 504))
        if status == 401:
            told = "HTTP 401"  # some servers repeat the key in their message
        kind = 300 if status < 400 else 413 if _TOO_LONG.search(text[:10_000]) else status
        what, advice = _REFUSALS.get(kind, _REFUSALS[400])
        refused = Declined if kind in (400, 404, 415, 422, 501) else ModelRefused
        return refused(f"{self} {what} ({told}). {advice}")

    def cleaned(self, text: str) -> str:
        """Text from the server as one short line without the key."""
        if self._key:
            text = text.replace(self._key, "***")
        text = " ".join(text.split())
        return text if len(text) <= 300 else text[:299] + "…"


def count(value: Any) -> int | None:
    """A number of tokens that a server reports; None if it cannot be one."""
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 10_000_000
    return value if usable else None


def _message(text: str) -> str:
    """The message in an error body of the usual shape, or else the whole body."""
    try:
        error = json.loads(text)["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, TypeError, KeyError, RecursionError):
        return text


def _wait(reply: httpx.Response) -> float | None:
    """The seconds in `Retry-After`. A date there is ignored."""
    try:
        seconds = float(reply.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None
