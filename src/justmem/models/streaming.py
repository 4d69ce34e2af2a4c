"""A chat reply that arrives in chunks, put together again while its text is passed on."""

from __future__ import annotations

from typing import Any


class Gathered:
    """The chunks so far. `whole` is the reply as a server that does not stream would send it."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reason: Any = None
        self._usage: Any = None

    def add(self, chunk: Any) -> str:
        """The text that the chunk brings; mostly a little, often none."""
        if not isinstance(chunk, dict):
            return ""
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not isinstance(choice, dict):
            return ""
        self._reason = choice.get("finish_reason") or self._reason
        said = choice.get("delta") or choice.get("message")  # `message`: it did not stream
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
