"""What the meter counts of one exchange."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from justmem.runtime import tokens
from justmem_eval.loopback import Respond, chat_body, serve_openai
from justmem_eval.meter import Meter, counted, metering
from justmem_eval.models import Cap

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
WORDS = "Tomas adopted a greyhound called Biscuit."


def streamed(*deltas: dict[str, Any], usage: dict[str, int] | None = None) -> bytes:
    """A reply in the shape that servers stream."""
    events: list[dict[str, Any]] = [
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [{"delta": delta}]}
        for delta in deltas
    ]
    if usage:
        events.append({"id": "chatcmpl-1", "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def test_a_stream_without_usage_is_counted_by_its_words() -> None:
    body = streamed(*({"content": word} for word in WORDS.split(" ")))
    found = counted("/chat/completions", ASKED, 200, body)
    assert found.tokens_out == tokens.count(WORDS.replace(" ", ""))
    assert found.estimated == 1


def test_a_stream_with_usage_is_counted_by_the_usage() -> None:
    body = streamed({"content": WORDS}, usage={"prompt_tokens": 40, "completion_tokens": 9})
    found = counted("/chat/completions", ASKED, 200, body)
    assert (found.tokens_in, found.tokens_out) == (40, 9)


@pytest.mark.parametrize(
    "message",
    [
        {"content": WORDS},
        {"content": None, "tool_calls": [{"function": {"name": "", "arguments": WORDS}}]},
    ],
)
def test_a_whole_reply_without_usage_is_counted_by_its_words(message: dict[str, Any]) -> None:
    body = json.dumps({"id": "chatcmpl-1", "choices": [{"index": 0, "message": message}]})
    found = counted("/chat/completions", ASKED, 200, body.encode())
    assert found.tokens_out == tokens.count(WORDS)


def post(meter: Meter, lane: str, path: str) -> None:
    httpx.post(f"{meter.url(lane)}/{path}", json=ASKED, trust_env=False)


def test_requests_for_vectors_are_no_calls_of_the_model() -> None:
    replies = [
        Respond(chat_body("yes", usage=(5, 1))),
        Respond({"data": [], "usage": {"prompt_tokens": 7}}),
        Respond({"error": {"message": "no"}}, status=500),
    ]
    with serve_openai(replies) as served, metering(served.url, Cap(None)) as meter:
        post(meter, "peer", "chat/completions")
        post(meter, "peer", "embeddings")
        post(meter, "peer", "chat/completions")
        found = meter.used("peer")
    assert (found.requests, found.embeddings, found.failed) == (2, 1, 1)
    assert (found.tokens, found.embedding) == (6, 7)
