"""Counts the tokens of forwarded chats under the daily limit of their space."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from justmem.budget import Tally, plausible
from justmem.domain import Call
from justmem.errors import BudgetExceeded, JustMemError, NotInMemory
from justmem.runtime import tokens
from justmem.server.access import SpaceAccess

REPLY = 4096  # tokens reserved for the reply if the request has no limit
_MEDIUM = 2000  # tokens for one picture, recording or file
_ENVELOPE = 24
_MOST = 10_000_000

_COUNTED = (
    *("messages", "input", "system", "instructions", "tools", "functions"),
    *("response_format", "text", "prediction"),
)
_MEDIA = ("url", "data", "file_data", "file_id", "image_url")  # a picture, recording or file
_UNREAD = ("signature", "encrypted_content")  # encrypted reasoning, not counted
_LONGEST = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_EARLIER = ("previous_response_id", "conversation")  # the provider adds turns that we do not see


@dataclass(frozen=True, slots=True)
class Estimate:
    """An upper estimate of the cost of a request, in tokens."""

    words: int
    media: int
    reply: int  # the longest
    size: int  # characters of the request

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Estimate:
        found = [each for name in _COUNTED for each in _strings(body.get(name))]
        read = [(name, text) for name, text in found if name not in _UNREAD]
        words = [text for name, text in read if name not in _MEDIA]
        longest = next(filter(None, (_positive(body.get(name)) for name in _LONGEST)), REPLY)
        earlier = any(body.get(name) for name in _EARLIER)
        return cls(
            words=_ENVELOPE + 4 * len(words) + tokens.count("\n".join(words)),
            media=_MEDIUM * (len(read) - len(words)),
            reply=longest * (_positive(body.get("n")) or 1),
            size=_MOST if earlier else sum(len(text) for _, text in read),
        )

    @property
    def whole(self) -> int:
        return self.words + self.media + self.reply


def _strings(value: Any) -> Iterator[tuple[str, str]]:
    """All texts in a JSON value, each with the name of its field."""
    left = [("", value)]
    while left:
        name, each = left.pop()
        if isinstance(each, str):
            yield name, each
        elif isinstance(each, Mapping):
            left += each.items()
        elif isinstance(each, list):
            left += [(name, inner) for inner in each]


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def spent(estimate: Estimate, tokens_in: Any, tokens_out: Any, texts: list[str]) -> Call:
    """The counts of the provider if they are plausible, else our own."""
    own_out = tokens.count("".join(texts))
    reported_in = plausible(tokens_in, estimate.words, 20_000 + 8 * estimate.size)
    reported_out = plausible(tokens_out, own_out, _MOST)
    return Call(
        stage="chat",
        model="upstream",
        tokens_in=estimate.words + estimate.media if reported_in is None else reported_in,
        tokens_out=own_out if reported_out is None else reported_out,
        estimated=reported_in is None or reported_out is None,
    )


class Expense:
    """One forwarded chat in the ledger of its space. Tokens are reserved before and entered after.

    A separate task holds the reservation. So the chat continues if the space is erased, and the
    reservation of a broken chat is still entered."""

    def __init__(self, access: SpaceAccess, estimate: Estimate) -> None:
        self.estimate = estimate
        self._access = access
        self._tally = Tally(abandoned=True)
        self._allowed: asyncio.Future[None] = asyncio.Future()
        self._over: asyncio.Future[None] = asyncio.Future()
        self.erased = False

    async def allow(self) -> None:
        """Raises BudgetExceeded if the estimate exceeds the rest of the daily limit."""
        holding = self._access.server.start(self._hold())
        try:
            await asyncio.shield(self._allowed)
        except asyncio.CancelledError:
            holding.cancel()
            raise

    def end(self, call: Call | None = None, *, abandoned: bool = False) -> None:
        """Enters the cost of the chat. A broken chat costs the whole reservation, because it may
        be billed."""
        if not self._over.done():
            self._tally.abandoned = abandoned
            self._tally.calls = [call] if call else []
            self._over.set_result(None)

    async def _hold(self) -> None:
        wish, create = self.estimate.whole, self._access.key.may("write")
        try:
            async with (
                self._access.memory(create=create) as memory,
                memory.ledger.allow(wish, self._tally) as limit,
            ):
                if limit is not None and limit < wish:
                    self._tally.abandoned = False
                    raise BudgetExceeded(
                        f"The chat was not forwarded: it needs up to {wish} tokens and {limit} are "
                        "left of the daily limit. Ask for a shorter reply (max_tokens), send less, "
                        "or raise day_tokens in [budget]."
                    )
                self._allowed.set_result(None)
                await self._over
        except JustMemError as error:
            self.erased = isinstance(error, NotInMemory)
            if not self._allowed.done():
                self._allowed.set_exception(error)
        except BaseException:
            self._allowed.cancel()
            raise
