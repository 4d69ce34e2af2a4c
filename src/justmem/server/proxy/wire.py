"""What differs between the chat formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from justmem.server.chats import Exchange


@dataclass
class Heard:
    """What a reply says and costs, put together from its events or read whole."""

    words: list[str] = field(default_factory=list)  # of the reply's text
    written: list[str] = field(default_factory=list)  # all that the model wrote, tool calls too
    tokens_in: Any = None  # as the provider reports them
    tokens_out: Any = None
    id: str = ""
    complete: bool = False

    @property
    def text(self) -> str:
        return "".join(self.words).strip()


@dataclass(frozen=True, slots=True)
class Wire:
    """`hear` takes an event of a stream or a whole reply. `add_note` takes and returns JSON."""

    path: str
    exchange: Callable[[Mapping[str, Any]], Exchange]
    add_note: Callable[[str, str], str]
    hear: Callable[[Heard, Mapping[str, Any]], None]
    anthropic: bool = False
    continues: bool = False  # a request may name the response that it continues


def text_of(content: Any) -> str:
    """The texts of a message, not its pictures, files and tool calls."""
    if isinstance(content, str):
        return content.strip()
    parts = [each.get("text") for each in dicts(content)]
    return "\n".join(part for part in parts if isinstance(part, str)).strip()


def dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def exchanged(messages: Iterable[tuple[str, str, bool]]) -> Exchange:
    """From (role, text, whether it calls or answers a tool), in order. `said` is new since the
    last message of the assistant. `question` goes back to its last reply, past tool calls: so the
    steps of a tool loop recall what the user asked for."""
    said: list[str] = []
    question: list[str] = []
    before: str | None = None
    for role, text, tool in reversed(list(messages)):
        if role == "assistant":
            before = text if before is None else before
            if not tool:
                break
        elif role == "user" and text:
            question.insert(0, text)
            if before is None:
                said.insert(0, text)
    return Exchange(tuple(said), before=before or "", question="\n".join(question))
