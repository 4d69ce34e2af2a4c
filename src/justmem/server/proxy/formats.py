"""The three chat formats: how to read a request, add a note to it, and read the reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from justmem.server.proxy.upstreams import Provider

Body = dict[str, Any]
_INSTRUCTIONS = ("system", "developer")
# Claude Code adds its own remarks to the user's message, as parts that begin like this.
_NOT_SAID = ("<system-reminder>", "<local-command-", "<command-")
_READ = ("prompt_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "message_stop")
_TEXT_PARTS = ("text", "text_delta")
_LABELS = ("id", "call_id", "type", "role", "status", "signature")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a request adds to a conversation: the new messages of the user. `before` is the last
    reply that the client sends along. Memory is searched for `question`."""

    messages: tuple[str, ...]
    before: str = ""
    question: str = ""


@dataclass
class ChatReply:
    """The text and the cost of a reply in any of the formats, from its events or as a whole."""

    texts: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # all that the model wrote, tool calls too
    tokens_in: Any = None  # as the provider reports them
    tokens_out: Any = None
    id: str = ""
    complete: bool = False

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()

    def read_stream(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            if line.startswith(b"data:"):
                data = line.removeprefix(b"data:").strip()
                self.complete = self.complete or data == b"[DONE]"
                self.read(data)

    def read(self, content: bytes) -> None:
        """One event, or the whole reply."""
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):  # the latter: nesting made to do harm
            return
        if not isinstance(data, dict):
            return
        kind = data.get("type")
        self.complete = self.complete or kind in _ENDS
        (whole,) = _dicts([data.get("response"), data.get("message")])[:1] or [data]
        self.id = str(whole.get("id") or self.id)
        self._read_usage(whole.get("usage"))
        if output := _dicts(whole.get("output")):  # all of it: the pieces are in there again
            said = [item for item in output if item.get("type") == "message"]
            self.texts = [_text(item.get("content")) for item in said]
            self.written = _written(output)
        delta = data.get("delta")
        if isinstance(delta, str):  # a piece of a response
            self.written.append(delta)
            self.texts += [delta] if kind == "response.output_text.delta" else []
        for part in _dicts([delta, *_dicts(whole.get("content"))]):  # of an Anthropic message
            self.written += _written(part)
            self.texts += _string(part, "text") if part.get("type") in _TEXT_PARTS else []
        for choice in _dicts(data.get("choices")):  # of a chat completion
            for part in _dicts([choice.get("delta"), choice.get("message")]):
                self.written += _written(part)
                self.texts += _string(part, "content") if choice.get("index", 0) == 0 else []

    def _read_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            read = [usage.get(name) for name in _READ]
            if any(isinstance(each, int) for each in read[:2]):
                self.tokens_in = sum(each for each in read if isinstance(each, int))
            written = usage.get("completion_tokens", usage.get("output_tokens"))
            self.tokens_out = self.tokens_out if written is None else written


def strings_in(value: Any) -> Iterator[tuple[str, str]]:
    """All texts in a JSON value, each with the name of its field."""
    left = [("", value)]
    while left:
        name, each = left.pop()
        if isinstance(each, str):
            yield name, each
        elif isinstance(each, Mapping):
            left += reversed([*each.items()])
        elif isinstance(each, list):
            left += [(name, inner) for inner in reversed(each)]


def _written(value: Any) -> list[str]:
    """What the model wrote in a part of a reply, also the arguments of tool calls."""
    return [text for name, text in strings_in(value) if name not in _LABELS]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _string(value: Mapping[str, Any], name: str) -> list[str]:
    """The text under this name, or none."""
    return [value[name]] if isinstance(value.get(name), str) else []


def _text(content: Any) -> str:
    """The texts of a message, not its pictures, files and tool calls."""
    if isinstance(content, str):
        return content.strip()
    texts = [text for part in _dicts(content) for text in _string(part, "text")]
    return "\n".join(text for text in texts if not text.startswith(_NOT_SAID)).strip()


# ---------------------------------------------------------------- the request


def exchange_of(body: Body) -> Exchange:
    """`messages` are new since the last message of the assistant. `question` goes back to its last
    reply, past tool calls, so every step of a tool loop recalls the same."""
    given = body.get("messages") or body.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    new: list[str] = []
    question: list[str] = []
    before: str | None = None
    for message in reversed(_dicts(given)):
        role, text, tool = _message(message)
        if role == "assistant":
            before = text if before is None else before
            if not tool:
                break
        elif role == "user" and text:
            question.insert(0, text)
            if before is None:
                new.insert(0, text)
    return Exchange(tuple(new), before=before or "", question="\n".join(question))


def _message(message: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Role, text, and whether it calls or answers a tool. In `input`, tool calls, their results and
    reasoning are items without a role."""
    kind = message.get("type", "message")
    if kind != "message":
        return "tool" if str(kind).endswith("_output") else "assistant", "", True
    content = message.get("content")
    called = any(part.get("type") == "tool_use" for part in _dicts(content))
    return str(message.get("role")), _text(content), called or bool(message.get("tool_calls"))


# ---------------------------------------------------------------- the note of memory


@dataclass(frozen=True, slots=True)
class Format:
    """`add_note` changes the body of a request."""

    upstream: Provider
    path: str
    add_note: Callable[[Body, str], None]


def _append(body: Body, name: str, note: str) -> None:
    """Last in the field: all that a client marked for the cache stays in front of it."""
    if isinstance(body.get(name), list):
        body[name].append({"type": "text", "text": note})
    else:
        body[name] = note if body.get(name) is None else f"{body[name]}\n\n{note}"


def _insert(body: Body, note: str) -> None:
    """After the instructions that the chat begins with."""
    messages = body["messages"]
    places = (n for n, each in enumerate(messages) if each.get("role") not in _INSTRUCTIONS)
    messages.insert(next(places, len(messages)), {"role": "system", "content": note})


COMPLETIONS = Format("openai", "chat/completions", _insert)
RESPONSES = Format("openai", "responses", lambda body, note: _append(body, "instructions", note))
MESSAGES = Format("anthropic", "messages", lambda body, note: _append(body, "system", note))
