"""Reading what chat servers send, which is not always what the protocol says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from justmem import tokens
from justmem.text import clean

_FENCE = re.compile(r"```(?:json)?(\s*+)")


@dataclass(frozen=True, slots=True)
class ChatReply:
    """Counts are None where the server gave none, or none that can be true."""

    text: str
    reason: str
    refusal: str
    tokens_in: int | None
    tokens_out: int | None
    cached: int

    @classmethod
    def read(cls, reply: Any, body: Mapping[str, Any]) -> ChatReply:
        """From the reply's JSON; `body` is what was asked."""
        choices = _dict(reply).get("choices")
        choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
        message = _dict(choice.get("message"))
        text = message.get("content")
        text = clean(text) if isinstance(text, str) else ""
        usage = _dict(_dict(reply).get("usage"))
        tokens_in = plausible(usage.get("prompt_tokens"), most=_most(body)) or None
        tokens_out = plausible(usage.get("completion_tokens"), most=10_000_000)
        details = _dict(usage.get("prompt_tokens_details"))
        return cls(
            text=text,
            reason=str(choice.get("finish_reason") or ""),
            refusal=str(message.get("refusal") or ""),
            tokens_in=tokens_in,
            tokens_out=None if text and not tokens_out else tokens_out,
            cached=plausible(details.get("cached_tokens"), most=tokens_in or 0) or 0,
        )

    @property
    def bare(self) -> str:
        """Without the thoughts and the code fence that some models put around their JSON."""
        text = self.text.strip()
        if text.startswith("<think>"):
            _, ended, rest = text.partition("</think>")
            text = rest.strip() if ended else text
        opening = _FENCE.match(text)
        if opening and "\n" in opening[1] and text.endswith("```", opening.end()):
            text = text[opening.end() : -3].strip()
        return text


def estimate(body: Mapping[str, Any]) -> int:
    """Tokens of the messages, with what the chat format adds around them."""
    return 3 + sum(4 + tokens.count(message["content"]) for message in body["messages"])


def plausible(value: Any, *, most: int) -> int | None:
    """The value if it can be a count."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= most else None


def _most(body: Mapping[str, Any]) -> int:
    """More than this no tokenizer makes of it, with room for what a server adds on its own."""
    return 20_000 + 8 * sum(len(message["content"]) for message in body["messages"])


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
