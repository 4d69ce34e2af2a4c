"""The format of Anthropic's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from justmem.server.chats import Exchange
from justmem.server.proxy import splice
from justmem.server.proxy.wire import Heard, Wire, dicts, exchanged, text_of

# Claude Code puts its own remarks to the model into the user's message, as parts that begin so.
_NOT_SAID = ("<system-reminder>", "<local-command-", "<command-")


def _exchange(body: Mapping[str, Any]) -> Exchange:
    return exchanged(_read(each) for each in dicts(body.get("messages")))


def _read(message: Mapping[str, Any]) -> tuple[str, str, bool]:
    content = message.get("content")
    if not isinstance(content, list):
        return str(message.get("role")), text_of(content), False
    parts = dicts(content)
    said = [each for each in parts if not str(each.get("text", "")).startswith(_NOT_SAID)]
    calls = any(each.get("type") == "tool_use" for each in parts)
    return str(message.get("role")), text_of(said), calls


def _add_note(text: str, note: str) -> str:
    """Last in system: all that a client marked for the cache stays in front of it."""
    system = splice.members(text).get("system")
    if system is not None and text[system.start] == "[":
        return splice.append_item(text, system, {"type": "text", "text": note})
    return splice.append_text(text, "system", note)


def _hear(heard: Heard, data: Mapping[str, Any]) -> None:
    kind = data.get("type")
    if kind == "message_start" and isinstance(data.get("message"), Mapping):
        data = data["message"]
    if isinstance(delta := data.get("delta"), Mapping):
        texts = [delta[each] for each in _WRITTEN if isinstance(delta.get(each), str)]
        heard.written += texts
        if delta.get("type") == "text_delta":
            heard.words += texts
    heard.id = str(data.get("id") or heard.id)
    heard.complete = heard.complete or kind == "message_stop"
    for block in dicts(data.get("content")):
        heard.written += [block[each] for each in _WRITTEN if isinstance(block.get(each), str)]
        if "input" in block:
            heard.written.append(str(block["input"]))
        if block.get("type") == "text":
            heard.words.append(str(block.get("text", "")))
    if isinstance(usage := data.get("usage"), Mapping):
        read = [usage.get(name) for name in _READ]
        if isinstance(read[0], int):
            heard.tokens_in = sum(each for each in read if isinstance(each, int))
        heard.tokens_out = usage.get("output_tokens", heard.tokens_out)


_WRITTEN = ("text", "thinking", "partial_json")
_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
MESSAGES = Wire("messages", _exchange, _add_note, _hear, anthropic=True)
