"""The three chat formats: how to read a request, add a note to it, and read the reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
# Claude Code adds its own remarks to the user's message, as parts that begin like this.
_NOT_SAID = ("<system-reminder>", "<local-command-", "<command-")


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
    exchange: Callable[[Body], Exchange]
    add_note: Callable[[Body, str], None]
    read: Callable[[Reply, Mapping[str, Any]], None]
    anthropic: bool = False


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _strings(value: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [value[name] for name in names if isinstance(value.get(name), str)]


def _text(content: Any) -> str:
    """The texts of a message, not its pictures, files and tool calls."""
    if isinstance(content, str):
        return content.strip()
    return "\n".join(text for part in _dicts(content) for text in _strings(part, ["text"])).strip()


def _exchange(messages: Iterable[tuple[str, str, bool]]) -> Exchange:
    """From (role, text, whether it calls or answers a tool), in order. `messages` are new since
    the last message of the assistant. `question` goes back to its last reply, past tool calls, so
    every step of a tool loop recalls the same."""
    new: list[str] = []
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
                new.insert(0, text)
    return Exchange(tuple(new), before=before or "", question="\n".join(question))


def _append(body: Body, name: str, note: str) -> None:
    body[name] = note if body.get(name) is None else f"{body[name]}\n\n{note}"


# ---------------------------------------------------------------- OpenAI chat completions


def _completions_exchange(body: Body) -> Exchange:
    return _exchange(
        (str(each.get("role")), _text(each.get("content")), bool(each.get("tool_calls")))
        for each in _dicts(body.get("messages"))
    )


def _completions_note(body: Body, note: str) -> None:
    """After the instructions that the chat begins with."""
    messages = body["messages"]
    places = (n for n, each in enumerate(messages) if each.get("role") not in _INSTRUCTS)
    messages.insert(next(places, len(messages)), {"role": "system", "content": note})


def _completions_read(reply: Reply, data: Mapping[str, Any]) -> None:
    reply.id = str(data.get("id") or reply.id)
    if isinstance(usage := data.get("usage"), Mapping):
        reply.tokens_in = usage.get("prompt_tokens")
        reply.tokens_out = usage.get("completion_tokens")
    for choice in _dicts(data.get("choices")):
        message = choice.get("delta") or choice.get("message")  # `message`: it did not stream
        if not isinstance(message, Mapping):
            continue
        if choice.get("index", 0) == 0:
            reply.texts += _strings(message, ["content"])
        reply.written += _strings(message, [name for name in message if name != "role"])
        for call in _dicts(message.get("tool_calls")):
            if isinstance(function := call.get("function"), Mapping):
                reply.written += _strings(function, function)


_INSTRUCTS = ("system", "developer")
COMPLETIONS = Format(
    "chat/completions", _completions_exchange, _completions_note, _completions_read
)

# ---------------------------------------------------------------- OpenAI responses


def _responses_exchange(body: Body) -> Exchange:
    given = body.get("input")
    if isinstance(given, str):
        return _exchange([("user", given.strip(), False)])
    return _exchange(_item(each) for each in _dicts(given))


def _item(item: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Items without a role are tool calls, their results, and reasoning."""
    kind = str(item.get("type", "message"))
    if kind == "message":
        return str(item.get("role")), _text(item.get("content")), False
    return "tool" if kind.endswith("_output") else "assistant", "", True


def _responses_read(reply: Reply, data: Mapping[str, Any]) -> None:
    kind = str(data.get("type", ""))
    if kind.endswith(".delta"):
        reply.written += _strings(data, ["delta"])
        if kind == "response.output_text.delta":
            reply.texts += _strings(data, ["delta"])
        return
    whole = data.get("response") if kind.startswith("response.") else data
    if not isinstance(whole, Mapping):
        return
    reply.id = str(whole.get("id") or reply.id)
    if isinstance(usage := whole.get("usage"), Mapping):
        reply.tokens_in, reply.tokens_out = usage.get("input_tokens"), usage.get("output_tokens")
    reply.complete = reply.complete or kind in _ENDS
    if output := _dicts(whole.get("output")):  # all of it: the pieces are in there again
        reply.texts = [_text(one.get("content")) for one in output if one.get("type") == "message"]
        reply.written = [*reply.texts, *(str(each.get("arguments", "")) for each in output)]


_ENDS = ("response.completed", "response.incomplete", "response.failed")
RESPONSES = Format(
    "responses",
    _responses_exchange,
    lambda body, note: _append(body, "instructions", note),
    _responses_read,
)

# ---------------------------------------------------------------- Anthropic messages


def _messages_exchange(body: Body) -> Exchange:
    return _exchange(_message(each) for each in _dicts(body.get("messages")))


def _message(message: Mapping[str, Any]) -> tuple[str, str, bool]:
    content = message.get("content")
    parts = _dicts(content)
    if isinstance(content, list):
        content = [one for one in parts if not str(one.get("text", "")).startswith(_NOT_SAID)]
    calls = any(each.get("type") == "tool_use" for each in parts)
    return str(message.get("role")), _text(content), calls


def _messages_note(body: Body, note: str) -> None:
    """Last in system: all that a client marked for the cache stays in front of it."""
    if isinstance(body.get("system"), list):
        body["system"].append({"type": "text", "text": note})
    else:
        _append(body, "system", note)


def _messages_read(reply: Reply, data: Mapping[str, Any]) -> None:
    kind = data.get("type")
    if kind == "message_start" and isinstance(data.get("message"), Mapping):
        data = data["message"]
    if isinstance(delta := data.get("delta"), Mapping):
        texts = _strings(delta, _WRITTEN)
        reply.written += texts
        reply.texts += texts if delta.get("type") == "text_delta" else []
    reply.id = str(data.get("id") or reply.id)
    reply.complete = reply.complete or kind == "message_stop"
    for block in _dicts(data.get("content")):
        reply.written += _strings(block, _WRITTEN)
        if "input" in block:
            reply.written.append(str(block["input"]))
        if block.get("type") == "text":
            reply.texts.append(str(block.get("text", "")))
    if isinstance(usage := data.get("usage"), Mapping):
        read = [usage.get(name) for name in _READ]
        if isinstance(read[0], int):
            reply.tokens_in = sum(each for each in read if isinstance(each, int))
        reply.tokens_out = usage.get("output_tokens", reply.tokens_out)


_WRITTEN = ("text", "thinking", "partial_json")
_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
MESSAGES = Format("messages", _messages_exchange, _messages_note, _messages_read, anthropic=True)
