"""Retries: which failures are worth one, how long to wait, and the error sentences."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from justmem.errors import ModelRefused, ModelUnavailable

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

log = logging.getLogger("justmem.models")

# The longest wait before another attempt, even if the server asks for more.
LONGEST_WAIT = 60.0

_OUT_OF_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_TOO_LONG = re.compile(
    r"context.?length|context.?window|context size|maximum context|too long|too many tokens"
    r"|reduce the length|maximum.{0,20}tokens per|string_above_max_length",
    re.IGNORECASE,
)


class Setback(Exception):
    """A failed attempt that is worth repeating.

    `wait` is the time that the server asked for, in seconds. `sent`: the server may have done the
    work, and may bill it, although no reply arrived.
    """

    def __init__(self, reason: str, *, wait: float | None = None, sent: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential backoff with jitter. Retry-After takes precedence."""

    attempts: int = 4
    first: float = 0.5
    sleep: Sleep = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def run(self, attempt: Callable[[], Awaitable[T]], server: Server) -> T:
        for number in range(1, self.attempts + 1):
            try:
                return await attempt()
            except Setback as setback:
                last = setback
            if number < self.attempts:
                pause = self.pause(number, last.wait)
                log.info("%s: %s; trying again in %.1f s", server.model, last, pause)
                await self.sleep(pause)
        raise ModelUnavailable(
            f"{server} did not answer in {_times(self.attempts)} (the last time: {last}). "
            "Check that it is up and reachable, wait a little, and try again."
        )

    def pause(self, number: int, asked: float | None) -> float:
        if asked is not None:
            # A little more than asked, so that many clients do not return at the same moment.
            return min(max(asked, 0.0), LONGEST_WAIT) * (1 + 0.1 * self.chance())
        backoff: float = min(self.first * 2 ** (number - 1), LONGEST_WAIT)
        return backoff * (0.5 + 0.5 * self.chance())


@dataclass(frozen=True, slots=True)
class Server:
    """A model on a server: its name in error sentences, without the key."""

    model: str
    url: str
    key: str | None = field(default=None, repr=False)
    set_a_key: str = "Set a key for it."  # for errors: it needs a key and got none

    def __str__(self) -> str:
        return f"The model {self.model!r} at {self.url}"

    def clean(self, text: str) -> str:
        """Text from the server as one short line without the key."""
        if self.key:
            text = text.replace(self.key, "***")
        text = " ".join(text.split())
        return text if len(text) <= 300 else text[:299] + "…"

    def failure(self, status: int, headers: Mapping[str, str], text: str) -> Setback | ModelRefused:
        """An HTTP error as our own: a Setback if it is worth trying again."""
        message, code = _error(text)
        told = f"HTTP {status}: {self.clean(message)}".rstrip(": ")
        if status == 429 and code in _OUT_OF_CREDIT:
            return ModelRefused(
                f"{self} will not answer: the account is out of credit ({told}). "
                "Add credit or use another key; trying again will not help."
            )
        if status in (408, 409, 429) or status >= 500:
            # After a gateway timeout (504) the model may still be working on it.
            return Setback(told, wait=retry_after(headers), sent=status in (408, 504))
        return ModelRefused(self._refusal(status, told, text))

    def _refusal(self, status: int, told: str, text: str) -> str:
        if status < 400:
            return (
                f"{self} redirects to another address ({told}). Redirects are not followed: set "
                "the address that answers."
            )
        if status == 401 and not self.key:
            return f"{self} needs an API key, and none was sent (HTTP 401). {self.set_a_key}"
        if status == 401:
            # Some servers repeat the key in their message, so the message is left out.
            return f"{self} does not accept the API key (HTTP 401). Set the right key for it."
        if status == 403:
            return f"{self} does not allow this key to use it ({told}). Use a key that may."
        if status == 402:
            return f"{self} needs payment ({told}). Add credit or use another key."
        if status == 413 or too_long(text):
            return (
                f"{self} does not accept a prompt this long ({told}). "
                "Set its true context size, or use a model with a larger one."
            )
        if status == 404:
            return (
                f"{self} was not found ({told}). Check the model's name, and that the URL is "
                "the server's base (most end in /v1)."
            )
        return f"{self} does not accept the request ({told}). Check the model's name and settings."


def too_long(text: str) -> bool:
    return _TOO_LONG.search(text[:10_000]) is not None


def _error(text: str) -> tuple[str, str]:
    """The message and the code in an error body, in whichever of the usual places they are."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return text, ""
    found = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(found, Mapping):
        return str(found)[:1000] if isinstance(found, str) else text, ""
    message = next((found[key] for key in ("message", "detail", "msg") if found.get(key)), None)
    code = str(found.get("code") or found.get("type") or "")
    return message if isinstance(message, str) else text, code


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait. A date is compared with the server's own clock."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if text is None or seconds is not None:
        return seconds
    try:
        until = parsedate_to_datetime(text)
        now = parsedate_to_datetime(headers.get("date", ""))
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError):  # not dates, or only one with a time zone
        return None


def _number(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if 0 <= value < float("inf") else None


def _times(attempts: int) -> str:
    return "one attempt" if attempts == 1 else f"{attempts} attempts"
