"""Removes the secrets of this server from the replies of a chat server."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

_MASK = "***"
_SHORTEST = 8  # shorter ones are placeholders such as "none", and may be words of a reply


class SecretMask:
    """Replaces each secret, as it is and as JSON, URLs and Basic authentication write it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
        self._forms = sorted((form.encode() for form in forms), key=len, reverse=True)

    def text(self, text: str) -> str:
        return self.whole(text.encode()).decode()

    def whole(self, data: bytes) -> bytes:
        for form in self._forms:
            data = data.replace(form, _MASK.encode())
        return data

    def stream(self) -> MaskedStream:
        return MaskedStream(self)

    def begun(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret."""
        longest = max(map(len, self._forms), default=1) - 1
        for size in range(min(longest, len(data)), 0, -1):
            if any(form.startswith(data[-size:]) for form in self._forms):
                return size
        return 0


class MaskedStream:
    """The same for a text in pieces. A secret may be split between two pieces."""

    def __init__(self, blanks: SecretMask) -> None:
        self._blanks = blanks
        self._held = b""

    def add(self, piece: bytes) -> bytes:
        """The bytes that can be sent now."""
        data = self._blanks.whole(self._held + piece)
        ready = len(data) - self._blanks.begun(data)
        self._held = data[ready:]
        return data[:ready]

    def end(self) -> bytes:
        rest, self._held = self._held, b""
        return rest


def upstream_secrets(url: str | None, key: str | None) -> list[str]:
    """The key, and the user and password that the address may contain."""
    parts = urlsplit(url or "")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = b64encode(f"{user}:{password}".encode()).decode() if password else ""
    return [secret for secret in (key, password, basic) if secret]


def _forms(secret: str) -> set[str]:
    written = json.dumps(secret)[1:-1]
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    return {
        secret,
        written,
        plain,
        written.replace("/", r"\/"),
        plain.replace("/", r"\/"),
        quote(secret),
        quote(secret, safe=""),
    }
