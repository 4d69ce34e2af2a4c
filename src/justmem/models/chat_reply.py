"""Chat replies, whole or in chunks. Servers do not always follow the protocol."""

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
    """A count is None if the server sent none, or an impossible one."""

    text: str
    reason: str
    refusal: str
    tokens_in: int | None
    tokens_out: int | None
    cached: int

    @classmethod
    def read(cls, reply: Any, body: Mapping[str, Any]) -> ChatReply:
        """From the reply's JSON; `body` is the request."""
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
        """Without the thoughts and code fences that some models put around their JSON."""
        text = self.text.strip()
        if text.startswith("<think>"):
            _, ended, rest = text.partition("</think>")
            text = rest.strip() if ended else text
        opening = _FENCE.match(text)
        if opening and "\n" in opening[1] and text.endswith("```", opening.end()):
            text = text[opening.end() : -3].strip()
        return text


class StreamedReply:
    """The chunks so far. `whole` is the same reply without streaming."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reason: Any = None
        self._usage: Any = None

    def add(self, chunk: Any) -> str:
        """The text in the chunk, which may be empty."""
        if not isinstance(chunk, dict):
            return ""
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not isinstance(choice, dict):
            return ""
        self._reason = choice.get("finish_reason") or self._reason
        said = choice.get("delta") or choice.get("message")  # `message`: not streamed
        if not isinstance(said, dict):
            return ""
        if isinstance(said.get("refusal"), str):
            self._refusal.append(said["refusal"])
        text = said.get("content")
        if not isinstance(text, str):
            return ""
        self._text.append(text)
        return text

    @property
    def whole(self) -> dict[str, Any]:
        message = {"content": "".join(self._text), "refusal": "".join(self._refusal)}
        choice = {"message": message, "finish_reason": self._reason}
        return {"choices": [choice], "usage": self._usage}


def estimate(body: Mapping[str, Any]) -> int:
    """Tokens of the messages, with what the chat format adds around them."""
    return 3 + sum(4 + tokens.count(message["content"]) for message in body["messages"])


def plausible(value: Any, *, most: int) -> int | None:
    """The value if it is a possible count."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= most else None


def _most(body: Mapping[str, Any]) -> int:
    """An upper limit for any tokenizer, with room for tokens that the server adds."""
    return 20_000 + 8 * sum(len(message["content"]) for message in body["messages"])


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
