"""The three chat formats: how to read a request, add a note to it, and read the reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
_INSTRUCTIONS = ("system", "developer")
# Claude Code adds its own remarks to the user's message, as parts that begin like this.
_NOT_SAID = ("<system-reminder>", "<local-command-", "<command-")
_LABELS = ("id", "call_id", "type", "role", "status", "signature")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a request adds to a conversation: the new messages of the user. `before` is the last
    reply that the client sends along. Memory is searched for `question`."""

    messages: tuple[str, ...]
    before: str = ""
    question: str = ""


@dataclass
class Reply:
    """The text and the cost of a reply, from its events or from the whole reply."""

    texts: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # all that the model wrote, tool calls too
    tokens_in: Any = None  # as the provider reports them
    tokens_out: Any = None
    id: str = ""
    complete: bool = False

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()


@dataclass(frozen=True, slots=True)
class Format:
    """`add_note` changes the body. `read` takes an event of a stream or a whole reply."""

    path: str
    add_note: Callable[[Body, str], None]
    read: Callable[[Reply, Mapping[str, Any]], None]
    anthropic: bool = False

    def reply(self, content: bytes) -> Reply:
        """A reply that did not stream."""
        reply = Reply(complete=True)
        self.read(reply, _parsed(content))
        return reply

    def read_lines(self, reply: Reply, lines: bytes) -> None:
        """Lines of an event stream."""
        for line in lines.split(b"\n"):
            if line.startswith(b"data:"):
                data = line.removeprefix(b"data:").strip()
                reply.complete = reply.complete or data == b"[DONE]"
                self.read(reply, _parsed(data))


def _parsed(data: bytes) -> Mapping[str, Any]:
    """A JSON object. Empty if it is not one."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # the latter: nesting made to do harm
        return {}
    return value if isinstance(value, Mapping) else {}


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


def _append(body: Body, name: str, note: str) -> None:
    body[name] = note if body.get(name) is None else f"{body[name]}\n\n{note}"


def _read_usage(reply: Reply, usage: Any) -> None:
    if isinstance(usage, Mapping):
        read = [usage.get(name) for name in _READ]
        if any(isinstance(each, int) for each in read[:2]):
            reply.tokens_in = sum(each for each in read if isinstance(each, int))
        written = usage.get("completion_tokens", usage.get("output_tokens"))
        reply.tokens_out = reply.tokens_out if written is None else written


_READ = ("prompt_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

# ---------------------------------------------------------------- OpenAI chat completions


def _completions_note(body: Body, note: str) -> None:
    """After the instructions that the chat begins with."""
    messages = body["messages"]
    places = (n for n, each in enumerate(messages) if each.get("role") not in _INSTRUCTIONS)
    messages.insert(next(places, len(messages)), {"role": "system", "content": note})


def _completions_read(reply: Reply, data: Mapping[str, Any]) -> None:
    _read_usage(reply, data.get("usage"))
    for choice in _dicts(data.get("choices")):
        message = choice.get("delta") or choice.get("message")  # `message`: it did not stream
        if not isinstance(message, Mapping):
            continue
        if choice.get("index", 0) == 0:
            reply.texts += _string(message, "content")
        reply.written += _written(message)


COMPLETIONS = Format("chat/completions", _completions_note, _completions_read)

# ---------------------------------------------------------------- OpenAI responses


def _responses_read(reply: Reply, data: Mapping[str, Any]) -> None:
    kind = str(data.get("type", ""))
    if kind.endswith(".delta"):
        reply.written += _string(data, "delta")
        if kind == "response.output_text.delta":
            reply.texts += _string(data, "delta")
        return
    whole = data.get("response") if kind.startswith("response.") else data
    if not isinstance(whole, Mapping):
        return
    reply.id = str(whole.get("id") or reply.id)
    _read_usage(reply, whole.get("usage"))
    reply.complete = reply.complete or kind in _ENDS
    if output := _dicts(whole.get("output")):  # all of it: the pieces are in there again
        reply.texts = [_text(one.get("content")) for one in output if one.get("type") == "message"]
        reply.written = _written(output)


_ENDS = ("response.completed", "response.incomplete", "response.failed")
RESPONSES = Format(
    "responses", lambda body, note: _append(body, "instructions", note), _responses_read
)

# ---------------------------------------------------------------- Anthropic messages


def _messages_note(body: Body, note: str) -> None:
    """Last in system: all that a client marked for the cache stays in front of it."""
    if isinstance(body.get("system"), list):
        body["system"].append({"type": "text", "text": note})
    else:
        _append(body, "system", note)


def _messages_read(reply: Reply, data: Mapping[str, Any]) -> None:
    reply.complete = reply.complete or data.get("type") == "message_stop"
    if isinstance(begun := data.get("message"), Mapping):
        data = begun
    for part in _dicts([data.get("delta"), *_dicts(data.get("content"))]):
        reply.written += _written(part)
        if part.get("type") in ("text", "text_delta"):
            reply.texts += _string(part, "text")
    _read_usage(reply, data.get("usage"))


MESSAGES = Format("messages", _messages_note, _messages_read, anthropic=True)
