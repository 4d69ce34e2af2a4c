"""Trying again: what is worth it, how long to wait, and the sentence when it was not."""

from __future__ import annotations

import asyncio
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

# Nobody waits longer than this for one more attempt, whatever the server asks for.
LONGEST_WAIT = 60.0

_DEEPEST = 20  # how far into an error's body one looks for its words

_OUT_OF_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_TOO_LONG = re.compile(
    r"context.?length|context.?window|context size|maximum context|too long|too many tokens"
    r"|reduce the length|maximum.{0,20}tokens per|string_above_max_length",
    re.IGNORECASE,
)


class Setback(Exception):
    """A failed attempt that is worth repeating.

    `wait` is what the server asked for, in seconds. `sent` says that the server may have done
    the work, and may bill it, although no reply arrived.
    """

    def __init__(self, reason: str, *, wait: float | None = None, sent: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential backoff with jitter; what the server asks for in Retry-After comes first."""

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
            # A little more than asked, so that many clients do not come back in one moment.
            return min(max(asked, 0.0), LONGEST_WAIT) * (1 + 0.1 * self.chance())
        backoff: float = min(self.first * 2 ** (number - 1), LONGEST_WAIT)
        return backoff * (0.5 + 0.5 * self.chance())


@dataclass(frozen=True, slots=True)
class Server:
    """Whom we talk to: names it in sentences and keeps the key out of them."""

    model: str
    url: str
    key: str | None = field(default=None, repr=False)
    set_a_key: str = "Set a key for it."  # what to do if it wants a key and got none

    def __str__(self) -> str:
        return f"The model {self.model!r} at {self.url}"

    def clean(self, text: str) -> str:
        """Foreign text made fit for an error: one short line without the key."""
        if self.key:
            text = text.replace(self.key, "***")
        text = " ".join(text.split())
        return text if len(text) <= 300 else text[:299] + "…"

    def failure(
        self, status: int, headers: Mapping[str, str], body: object
    ) -> Setback | ModelRefused:
        """What an HTTP error means for us: a Setback if it is worth trying again."""
        told = f"HTTP {status}: {self.clean(error_text(body))}".rstrip(": ")
        if status == 429 and error_code(body) in _OUT_OF_CREDIT:
            return ModelRefused(
                f"{self} will not answer: the account is out of credit ({told}). "
                "Add credit or use another key; trying again will not help."
            )
        if status in (408, 409, 429) or status >= 500:
            # A gateway that lost patience (504) may have left the model working on it.
            return Setback(told, wait=retry_after(headers), sent=status in (408, 504))
        return ModelRefused(self._refusal(status, told, body))

    def _refusal(self, status: int, told: str, body: object) -> str:
        if status < 400:
            return (
                f"{self} sends requests on to another address ({told}). Redirects are not "
                "followed: name the address that answers."
            )
        if status == 401 and not self.key:
            return f"{self} wants an API key, and none was sent (HTTP 401). {self.set_a_key}"
        if status == 401:
            # Some servers repeat the key they were given: their words are left out.
            return f"{self} does not accept the API key (HTTP 401). Set the right key for it."
        if status == 403:
            return f"{self} does not allow this key to use it ({told}). Use a key that may."
        if status == 402:
            return f"{self} wants to be paid first ({told}). Add credit or use another key."
        if status == 413 or too_long(body):
            return (
                f"{self} cannot take a prompt this long ({told}). "
                "Set its true context size, or use a model with a larger one."
            )
        if status == 404:
            return (
                f"{self} was not found ({told}). Check the model's name, and that the URL is "
                "the server's base (most end in /v1)."
            )
        return f"{self} will not take the request ({told}). Check the model's name and settings."


def too_long(body: object) -> bool:
    return _TOO_LONG.search(f"{error_code(body)} {error_text(body)}") is not None


def error_text(body: object, *, whole: bool = False, depth: int = 0) -> str:
    """The human part of an error body, in whichever of the usual places it is; or the whole."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(body, Mapping) and not whole:
        for key in ("message", "detail", "error", "msg"):
            if body.get(key):
                return error_text(body[key], depth=depth + 1)
        return error_text(body, whole=True, depth=depth)
    if isinstance(body, Mapping):
        parts = (
            f"{key}: {error_text(inner, whole=True, depth=depth + 1)}"
            for key, inner in body.items()
        )
        return "; ".join(parts)
    if isinstance(body, list):
        return "; ".join(error_text(inner, whole=whole, depth=depth + 1) for inner in body)
    return "" if body is None else str(body)


def error_code(body: object) -> str:
    if isinstance(body, Mapping):
        inner = body.get("error")
        found = inner if isinstance(inner, Mapping) else body
        return str(found.get("code") or found.get("type") or "")
    return ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks us to wait. A date is measured against the server's own clock."""
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
    except (ValueError, TypeError):  # not dates, or only one of them with a time zone
        return None


def _number(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if 0 <= value < float("inf") else None


def _times(attempts: int) -> str:
    return "one attempt" if attempts == 1 else f"{attempts} attempts"
