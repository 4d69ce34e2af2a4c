"""Addresses of servers: checking them, hiding secrets in them, and whose they are."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from justmem.errors import InvalidSetting

OPENAI_URL = "https://api.openai.com/v1"


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
            f"{shown_url(url)!r} is not a server's address. Write it like http://localhost:8000/v1."
        )
    return url


def shown_url(text: str) -> str:
    """URLs as they may appear in messages: without user, password and query."""
    return re.sub(r"(?<=://)[^/@\s]*@|\?\S*", "", text)


def is_loopback(host: str) -> bool:
    """Whether this host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_local(url: str) -> bool:
    """Whether the server is on this machine. Then no proxy is used."""
    return is_loopback(urlsplit(url).hostname or "")


def is_openai(url: str | None) -> bool:
    """Whether this is OpenAI itself. None is: it is the default."""
    try:
        parts = urlsplit(url or OPENAI_URL)
    except ValueError:
        return False
    return parts.scheme == "https" and parts.hostname == "api.openai.com"
