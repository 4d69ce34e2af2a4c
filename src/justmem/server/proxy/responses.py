"""The format of OpenAI's responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from justmem.server.chats import Exchange
from justmem.server.proxy import splice
from justmem.server.proxy.wire import Heard, Wire, dicts, exchanged, text_of


def _exchange(body: Mapping[str, Any]) -> Exchange:
    given = body.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return exchanged(_read(each) for each in dicts(given))


def _read(item: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Items without a role are tool calls, their results, and reasoning."""
    kind = str(item.get("type", "message"))
    if kind != "message":
        role = "tool" if kind.endswith("_output") else "assistant"
        return role, "", True
    return str(item.get("role")), text_of(item.get("content")), False


def _add_note(text: str, note: str) -> str:
    """After the instructions. A response inherits none from the one before it, so the note of
    an earlier request is not repeated."""
    return splice.append_text(text, "instructions", note)


def _hear(heard: Heard, data: Mapping[str, Any]) -> None:
    kind = str(data.get("type", ""))
    if kind.endswith(".delta") and isinstance(data.get("delta"), str):
        heard.written.append(data["delta"])
        if kind == "response.output_text.delta":
            heard.words.append(data["delta"])
        return
    whole = data.get("response") if kind.startswith("response.") else data
    if not isinstance(whole, Mapping):
        return
    heard.id = str(whole.get("id") or heard.id)
    if isinstance(usage := whole.get("usage"), Mapping):
        heard.tokens_in, heard.tokens_out = usage.get("input_tokens"), usage.get("output_tokens")
    heard.complete = heard.complete or kind in _ENDS
    if output := dicts(whole.get("output")):  # all of it: the pieces are in there again
        said = [each for each in output if each.get("type") == "message"]
        heard.words = [text_of(each.get("content")) for each in said]
        heard.written = [*heard.words, *(str(each.get("arguments", "")) for each in output)]


_ENDS = ("response.completed", "response.incomplete", "response.failed")
RESPONSES = Wire("responses", _exchange, _add_note, _hear, continues=True)
