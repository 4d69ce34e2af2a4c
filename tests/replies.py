"""Replies of servers with the OpenAI protocol, for `justmem_eval.loopback`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def chat_stream(
    content: Any, *, usage: tuple[int, int] | None = (100, 20), size: int = 8
) -> tuple[bytes, ...]:
    """The same as a stream: a chunk for each `size` characters, the usage in one of its own."""
    text = content if isinstance(content, str) else json.dumps(content)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[i : i + size]} for i in range(0, len(text), size)]
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    chunks: list[dict[str, Any]] = [
        {"id": "x", "object": "chat.completion.chunk", "choices": each} for each in choices
    ]
    if usage:
        counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        chunks.append(chunks[0] | {"choices": [], "usage": counts})
    return (*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n")


def embeddings_body(vectors: Sequence[Any], *, usage: Any = 10) -> dict[str, Any]:
    """An embeddings reply. `usage` is the number of tokens, or whatever a server may send."""
    rows = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    spent = {"prompt_tokens": usage, "total_tokens": usage} if isinstance(usage, int) else usage
    return {"object": "list", "data": rows, "usage": spent}


def error_body(message: str, *, code: str | None = None, param: str | None = None) -> Any:
    return {"error": {"message": message, "type": "error", "code": code, "param": param}}
