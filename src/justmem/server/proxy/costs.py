"""The tokens of a forwarded chat: at most before it is sent, and as counted afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from justmem.budget import plausible
from justmem.domain import Call
from justmem.runtime import tokens
from justmem.server.proxy.formats import ChatReply, strings_in

REPLY = 4096  # tokens reserved for the reply if the request has no limit
_MEDIUM = 2000  # tokens for one picture, recording or file
_ENVELOPE = 24
_MOST = 10_000_000

_MEDIA = ("url", "data", "file_data", "file_id", "image_url")  # a picture, recording or file
_UNREAD = ("signature", "encrypted_content")  # encrypted reasoning, not counted
_LONGEST = ("max_completion_tokens", "max_output_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class Estimate:
    """An upper estimate of the cost of a request, in tokens."""

    words: int
    media: int
    reply: int  # the longest

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Estimate:
        found = [(name, text) for name, text in strings_in(body) if name not in _UNREAD]
        words = [text for name, text in found if name not in _MEDIA]
        longest = next(filter(None, (_positive(body.get(name)) for name in _LONGEST)), REPLY)
        return cls(
            words=_ENVELOPE + 4 * len(words) + tokens.count("\n".join(words)),
            media=_MEDIUM * (len(found) - len(words)),
            reply=longest * (_positive(body.get("n")) or 1),
        )

    @property
    def whole(self) -> int:
        return self.words + self.media + self.reply


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def spent(estimate: Estimate, reply: ChatReply) -> Call:
    """The counts of the provider if they are plausible, else our own."""
    own_out = tokens.count("".join(reply.written))
    reported_in = plausible(reply.tokens_in, estimate.words, _MOST)
    reported_out = plausible(reply.tokens_out, own_out, _MOST)
    return Call(
        stage="chat",
        model="upstream",
        tokens_in=estimate.words + estimate.media if reported_in is None else reported_in,
        tokens_out=own_out if reported_out is None else reported_out,
        estimated=reported_in is None or reported_out is None,
    )
