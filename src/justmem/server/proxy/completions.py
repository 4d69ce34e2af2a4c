"""The format of OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from justmem.server.chats import Exchange
from justmem.server.proxy import splice
from justmem.server.proxy.wire import Heard, Wire, dicts, exchanged, text_of


def _exchange(body: Mapping[str, Any]) -> Exchange:
    return exchanged(
        (str(each.get("role")), text_of(each.get("content")), bool(each.get("tool_calls")))
        for each in dicts(body.get("messages"))
    )


def _add_note(text: str, note: str) -> str:
    """After the instructions that the chat begins with, before what was said."""
    messages = splice.items(text, splice.members(text)["messages"].start)
    added = json.dumps({"role": "system", "content": note})
    for message in messages:
        if json.loads(text[message]).get("role") not in ("system", "developer"):
            return splice.insert(text, message.start, added + ",")
    return splice.insert(text, messages[-1].stop, "," + added)


def _hear(heard: Heard, data: Mapping[str, Any]) -> None:
    heard.id = str(data.get("id") or heard.id)
    if isinstance(usage := data.get("usage"), Mapping):
        heard.tokens_in, heard.tokens_out = (
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
        )
    for choice in dicts(data.get("choices")):
        said = choice.get("delta") or choice.get("message")  # `message`: it did not stream
        if not isinstance(said, Mapping):
            continue
        if choice.get("index", 0) == 0 and isinstance(said.get("content"), str):
            heard.words.append(said["content"])
        heard.written += _texts(said)


def _texts(said: Mapping[str, Any]) -> list[str]:
    """Words, thoughts, refusals and calls of tools."""
    found = [each for name, each in said.items() if name != "role" and isinstance(each, str)]
    for call in dicts(said.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, Mapping):
            found += [each for each in function.values() if isinstance(each, str)]
    return found


COMPLETIONS = Wire("chat/completions", _exchange, _add_note, _hear)
