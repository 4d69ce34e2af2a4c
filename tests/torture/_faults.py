"""Everything that a model's server may do instead of what it should."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from justmem.testing import Respond, chat_body, embeddings_body, error_body, rerank_body

Fault = Callable[[random.Random], Respond]
SLOW = 0.4  # seconds: longer than the clients here wait

_ROW = "User | keeps a cat called Pesto in Porto | 2024-01-02 | ongoing | state | 1"
_DEEP = 60_000

# ---------------------------------------------------------------- of any server


def _status(status: int, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Respond(error_body("not now"), status=status, headers=named)


def _raw(data: bytes, **fields: Any) -> Fault:
    return lambda _: Respond(data, **fields)


TRANSPORT: dict[str, Fault] = {
    "throttled": _status(429),
    "throttled, come back at once": _status(429, retry_after="0"),
    "throttled, come back sometime": _status(429, retry_after="soon"),
    "throttled, come back in the past": _status(429, retry_after="-5"),
    "throttled for ever": _status(429, retry_after="1e999"),
    "out of credit": lambda _: Respond(error_body("pay", code="insufficient_quota"), status=429),
    "failing": _status(500),
    "gateway": lambda _: Respond(b"<html>502</html>", status=502),
    "overloaded": _status(529),
    "gateway timeout": _status(504),
    "wrong key": _status(401),
    "no such model": _status(404),
    "will not": _status(400),
    "a teapot": lambda _: Respond({"detail": [{"msg": {"a": ["b"]}}, None, 3]}, status=418),
    "an error of errors": lambda _: Respond(b'{"error":' * 5000 + b"1" + b"}" * 5000, status=400),
    "cut before": lambda _: Respond({}, cut="before"),
    "cut inside": lambda _: Respond(chat_body({"cards": [_ROW]}), cut="inside"),
    "too slow": lambda _: Respond({}, delay=SLOW),
    "nothing": _raw(b""),
    "no content": _raw(b"", status=204),
    "a page": _raw(b"<html>Welcome!</html>", headers={"content-type": "text/html"}),
    "not UTF-8": _raw(b'{"choices": "\xff\xfe\xfa"}'),
    "not gzip": _raw(b"{}", headers={"content-encoding": "gzip"}),
    "null": _raw(b"null"),
    "a number": _raw(b"7"),
    "a list": _raw(b"[1, [2]]"),
    "NaN": _raw(b"NaN"),
    "too deep": _raw(b"[" * _DEEP),
    "too deep, closed": _raw(b"[" * _DEEP + b"]" * _DEEP),
    "a long number": _raw(b'{"a": ' + b"9" * 6000 + b"}"),
    "much of nothing": _raw(b" " * 3_000_000),
    "round in circles": lambda _: Respond({}, status=302, headers={"location": "/v1/again"}),
    "an empty object": _raw(b"{}"),
    "twice the same": _raw(b'{"choices": [], "choices": 3, "data": [], "data": {}}'),
}

# ---------------------------------------------------------------- of a language model

_USAGES: list[Any] = [
    None,
    {},
    7,
    "free",
    [],
    {"prompt_tokens": -100, "completion_tokens": -20},
    {"prompt_tokens": 10**15, "completion_tokens": 10**15},
    {"prompt_tokens": "many", "completion_tokens": None},
    {"prompt_tokens": 1.5, "completion_tokens": float("inf")},
    {"prompt_tokens": True, "completion_tokens": 0},
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": "none"},
    {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": -5}},
]

_BODIES: list[Any] = [
    {"choices": []},
    {"choices": {}},
    {"choices": [None]},
    {"choices": ["text"]},
    {"choices": [{}]},
    {"choices": [{"message": None}]},
    {"choices": [{"message": "hello"}]},
    {"choices": [{"message": {"content": {"cards": []}}}]},
    {"choices": [{"message": {"content": 3}}]},
    {"choices": [{"message": {"content": [{"type": "text", "text": 3}, None]}}]},
    {"choices": [{"message": {"refusal": ["no"]}, "finish_reason": 7}]},
    {"choices": [{"message": {"content": None}, "finish_reason": "length"}]},
    {"choices": [{"message": {"content": "no"}, "finish_reason": "content_filter"}]},
    {"error": {"message": "sorry"}},
]

_CONTENTS: list[str] = [
    "",
    " \n ",
    "I would rather not.",
    "null",
    "[]",
    "{}",
    "NaN",
    '{"cards": NaN}',
    '{"cards": [NaN, Infinity, null, 1, true, [], {}]}',
    '{"cards": 7}',
    '{"cards": {"a": {"b": {"c": 1}}}}',
    '{"cards": [], "cards": 3}',
    '{"cards": ["' + _ROW + '"], "cards": ["' + _ROW + '"]}',
    json.dumps({"cards": [_ROW, _ROW[:40]]})[:-30],
    "[" * _DEEP,
    '{"cards":' * _DEEP,
    '{"cards": [' + "9" * 6000 + "]}",
    '{"cards": ["User | keeps a cat | 9999-99-99 | maybe | thing | 99999999999999999999"]}',
    '{"cards": ["User | keeps a cat | 99999-01-01/0000 | ongoing | state | -1, 0, 1e9, ²"]}',
    '{"cards": ["User | keeps \\ud800 \\u0000 \\u001b[31m a cat | x | y | z | 1"]}',
    '{"cards": [{"subject": ["User"], "fact": {"a": 1}, "turns": {"1": 2}}]}',
    '{"cards": [{"subject": "\\ud800", "fact": "keeps a cat", "turns": [1, "1", null, 1.5]}]}',
    '{"cards": [{"subject": "User", "fact": "keeps a cat", "event_date": {"$ne": 1}, "kind": []}]}',
    json.dumps({"cards": ["User | " + "keeps a cat " * 40_000 + "| unknown | a | b | 1"]}),
    json.dumps({"cards": [f"{_ROW[:-3]} {n} | ongoing | state | {n}" for n in range(10_000)]}),
    json.dumps({"cards": [_ROW.replace("Pesto", f"Pesto{n}") for n in range(10_000)]}),
    '{"operation": {}, "mode": [], "entities": "all", "period": "9999-99", "routes": [[]], '
    '"spans_sessions": true, "needs_source": true, "rewrites": ["\\ud800", 1, "\\u0000"]}',
    '{"spans_sessions": true, "needs_source": false, "rewrites": ["' + "cat " * 9000 + '"]}',
    '{"answer": {"a": 1}, "used": "1", "sufficient": "no"}',
    '{"answer": "\\ud800\\u0000\\u001b]0;x\\u0007", "used": [[], {}, null, 9e99], "sufficient": 0}',
    '{"answer": NaN, "used": ["1", "1", "s1.1"], "sufficient": true}',
]


def _lying(chance: random.Random, content: Any) -> Respond:
    return Respond(chat_body(content, usage=chance.choice(_USAGES)))


CHAT: dict[str, Fault] = {
    **TRANSPORT,
    "wrong shape": lambda chance: Respond(chance.choice(_BODIES)),
    "hostile": lambda chance: Respond(chat_body(chance.choice(_CONTENTS))),
    "hostile, cut off": lambda chance: Respond(
        chat_body(chance.choice(_CONTENTS), finish_reason="length")
    ),
    "hostile, and lying": lambda chance: _lying(chance, chance.choice(_CONTENTS)),
}

# ---------------------------------------------------------------- of an embedder, of a reranker


def _vectors(*rows: Any) -> Fault:
    return lambda _: Respond(embeddings_body(rows))


EMBEDDINGS: dict[str, Fault] = {
    **TRANSPORT,
    "no vectors": _vectors(),
    "one too few": _vectors([1.0] * 16),
    "another dimension": _vectors(*[[1.0] * 7] * 6),
    "none at all": _vectors(*[[]] * 6),
    "numbers": _vectors(*[3.0] * 6),
    "zeros": _vectors(*[[0.0] * 16] * 6),
    "not numbers": _vectors(*[[float("nan")] * 16] * 6),
    "infinite": _vectors(*[[float("inf")] * 16] * 6),
    "immense": _vectors(*[[10**400] * 16] * 6),
    "words": _vectors(*[["a"] * 16] * 6),
    "nested": _vectors(*[[[1.0]] * 16] * 6),
    "ragged": _vectors(*[[1.0] * n for n in range(1, 7)]),
    "not base64": _vectors(*["%%%"] * 6),
    "half a number": _vectors(*["AAA="] * 6),
    "nothing in it": lambda _: Respond({"data": [None] * 6}),
    "out of order": lambda _: Respond({"data": [{"index": "a"}, {"index": 1}]}),
    "lying": lambda chance: Respond({"data": [], "usage": chance.choice(_USAGES)}),
}

RERANK: dict[str, Fault] = {
    **TRANSPORT,
    "no scores": lambda _: Respond({"results": []}),
    "one score": lambda _: Respond(rerank_body([0.5])),
    "not numbers": lambda _: Respond(rerank_body([float("nan")] * 3)),
    "words": lambda _: Respond({"results": [{"index": 0, "relevance_score": "high"}]}),
    "immense": lambda _: Respond({"results": [{"index": 0, "relevance_score": 10**400}]}),
    "places": lambda _: Respond(
        {"results": [{"index": [], "score": 1}, {"index": -1, "score": 1}]}
    ),
    "lying": lambda chance: Respond(
        {"results": [{"index": 0, "score": 1}], "usage": chance.choice(_USAGES), "meta": [1]}
    ),
}
