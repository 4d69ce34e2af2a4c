"""Addresses of model servers, and one HTTP client per event loop."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import sys
from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import urlsplit, urlunsplit

from justmem.errors import InvalidSetting

C = TypeVar("C")

OPENAI_URL = "https://api.openai.com/v1"

# httpx and httpx2 (which the openai package brings) name their errors alike. These happen
# before the request has left, so nothing can have been done or billed.
NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}


def transport_errors() -> tuple[type[Exception], ...]:
    """Of whichever of the two is in use."""
    return tuple(sys.modules[name].HTTPError for name in ("httpx", "httpx2") if name in sys.modules)


class PerLoop(Generic[C]):
    """A client's connections belong to the event loop that opened them, but a model object may
    outlive a loop (`asyncio.run` twice, `Memory` beside `AsyncMemory`)."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._clients: dict[asyncio.AbstractEventLoop, C] = {}

    def get(self) -> C:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            open_still = {known: c for known, c in self._clients.items() if not known.is_closed()}
            self._clients = open_still | {loop: self._make()}
        return self._clients[loop]

    def pop(self) -> C | None:
        """Gives up the running loop's client, if there is one."""
        return self._clients.pop(asyncio.get_running_loop(), None)


def checked_url(url: str) -> str:
    """The URL without a trailing slash; InvalidSetting if it cannot be one."""
    url = url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise InvalidSetting(
            f"{_hidden(url)!r} is not a server's address. It has to look like http://localhost:8000/v1."
        )
    return url


def _hidden(url: str) -> str:
    """As `shown_url`, of what may be no URL at all."""
    return re.sub(r"(?<=://)[^/@\s]*@|\?\S*", "", url)


def shown_url(url: str) -> str:
    """The URL as it may appear in messages: without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_loopback(host: str) -> bool:
    """Whether this host is this machine. A name that only looks like an address is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_openai(url: str | None) -> bool:
    """Whether this is OpenAI itself. None is: it is the default."""
    try:
        parts = urlsplit(url or OPENAI_URL)
    except ValueError:  # no address at all
        return False
    return parts.scheme == "https" and parts.hostname == "api.openai.com"


def is_local(url: str) -> bool:
    """Whether the server is on this machine: no proxy can reach it, so none is asked to."""
    return is_loopback(urlsplit(url).hostname or "")
