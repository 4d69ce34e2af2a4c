"""Wrong behaviour of a model's server: by transport, by content, by kind of server."""

from __future__ import annotations

import json
import random
from typing import Any

from justmem_eval.loopback import Respond, chat_body
from replies import embeddings_body, error_body

SLOW = 0.4  # seconds: longer than the clients here wait
_ROW = "User | keeps a cat called Pesto in Porto | 2024-01-02 | ongoing | state | 1"
_DEEP = 60_000
_LONG_NUMBER = "9" * 6000

# Of any server: a status with headers, or a body
_STATUSES: list[Respond] = [
    *(Respond(error_body("not now"), status=each) for each in (400, 401, 404, 429, 500, 504, 529)),
    *(
        Respond(error_body("not now"), status=429, headers={"retry-after": each})
        for each in ("0", "soon", "-5", "1e999")
    ),
    Respond(error_body("pay", code="insufficient_quota"), status=429),
    Respond(b"<html>502</html>", status=502),
    Respond({"detail": [{"msg": {"a": ["b"]}}, None, 3]}, status=418),
    Respond(b'{"error":' * 5000 + b"1" + b"}" * 5000, status=400),
    Respond(b"", status=204),
    Respond({}, status=302, headers={"location": "/v1/again"}),
]
_TRANSPORT: list[Respond] = [
    *_STATUSES,
    Respond({}, cut="before"),
    Respond(chat_body({"cards": [_ROW]}), cut="inside"),
    Respond({}, delay=SLOW),
    Respond(b"<html>Welcome!</html>", headers={"content-type": "text/html"}),
    Respond(b"{}", headers={"content-encoding": "gzip"}),
    *(Respond(each) for each in (b"", b"null", b"7", b"[1, [2]]", b"NaN", b"{}", b"[" * _DEEP)),
    Respond(b'{"choices": "\xff\xfe\xfa"}'),
    Respond(b"[" * _DEEP + b"]" * _DEEP),
    Respond(b'{"a": ' + _LONG_NUMBER.encode() + b"}"),
    Respond(b" " * 3_000_000),
    Respond(b'{"choices": [], "choices": 3, "data": [], "data": {}}'),
]
USAGES: list[Any] = [
    *(None, {}, 7, "free", []),
    {"prompt_tokens": -100, "completion_tokens": -20},
    {"prompt_tokens": 10**15, "completion_tokens": 10**15},
    {"prompt_tokens": "many", "completion_tokens": None},
    {"prompt_tokens": 1.5, "completion_tokens": float("inf")},
    {"prompt_tokens": True, "completion_tokens": 0},
    {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": "none"},
    {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": -5}},
]

# Of a language model
_CHOICES: list[Any] = [
    *([], {}, [None], ["text"], [{}], [{"message": None}], [{"message": "hello"}]),
    [{"message": {"content": {"cards": []}}}],
    [{"message": {"content": 3}}],
    [{"message": {"content": [{"type": "text", "text": 3}, None]}}],
    [{"message": {"refusal": ["no"]}, "finish_reason": 7}],
    [{"message": {"content": None}, "finish_reason": "length"}],
    [{"message": {"content": "no"}, "finish_reason": "content_filter"}],
]
_CONTENTS: list[str] = [
    *("", " \n ", "I would rather not.", "null", "[]", "{}", "NaN", '{"cards": NaN}'),
    *('{"cards": 7}', '{"cards": {"a": {"b": {"c": 1}}}}', '{"cards": [], "cards": 3}'),
    '{"cards": [NaN, Infinity, null, 1, true, [], {}]}',
    json.dumps({"cards": [_ROW, _ROW[:40]]})[:-30],
    "[" * _DEEP,
    '{"cards":' * _DEEP,
    f'{{"cards": [{_LONG_NUMBER}]}}',
    '{"cards": ["User | keeps a cat | 9999-99-99 | maybe | thing | 99999999999999999999"]}',
    '{"cards": ["User | keeps a cat | 99999-01-01/0000 | ongoing | state | -1, 0, 1e9, ²"]}',
    '{"cards": ["User | keeps \\ud800 \\u0000 \\u001b[31m a cat | x | y | z | 1"]}',
    '{"cards": [{"subject": ["User"], "fact": {"a": 1}, "turns": {"1": 2}}]}',
    '{"cards": [{"subject": "\\ud800", "fact": "keeps a cat", "turns": [1, "1", null, 1.5]}]}',
    '{"cards": [{"subject": "User", "fact": "keeps a cat", "event_date": {"$ne": 1}, "kind": []}]}',
    json.dumps({"cards": ["User | " + "keeps a cat " * 40_000 + "| unknown | a | b | 1"]}),
    json.dumps({"cards": [_ROW.replace("Pesto", f"Pesto{n}") for n in range(10_000)]}),
    '{"operation": {}, "entities": "all", "period": "9999-99", "spans": true, "source": true, '
    '"rewrites": ["\\ud800", 1, "\\u0000"]}',
    '{"spans": true, "source": false, "rewrites": ["' + "cat " * 9000 + '"]}',
    '{"answer": {"a": 1}, "used": "1", "sufficient": "no"}',
    '{"answer": "\\ud800\\u0000\\u001b]0;x\\u0007", "used": [[], {}, null, 9e99], "sufficient": 0}',
    '{"answer": NaN, "used": ["1", "1", "s1.1"], "sufficient": true}',
]

_VECTORS: list[Any] = [
    *([1.0] * 7, [], 3.0, [0.0] * 16, [float("nan")] * 16, [float("inf")] * 16, [10**400] * 16),
    *(["a"] * 16, [[1.0]] * 16, "%%%", "AAA="),
]
_EMBEDDINGS: list[Respond] = [
    *(Respond(embeddings_body([vector] * 6)) for vector in _VECTORS),
    Respond(embeddings_body([])),
    Respond(embeddings_body([[1.0] * 16])),
    Respond(embeddings_body([[1.0] * n for n in range(1, 7)])),
    Respond({"data": [None] * 6}),
    Respond({"data": [{"index": "a"}, {"index": 1}]}),
    *(Respond({"data": [], "usage": usage}) for usage in USAGES),
]


def fault(kind: str, chance: random.Random) -> Respond:
    """`kind` is chat or embeddings."""
    if chance.random() < 0.5:
        return chance.choice(_TRANSPORT)
    if kind != "chat":
        return chance.choice(_EMBEDDINGS)
    if chance.random() < 0.3:
        return Respond({"choices": chance.choice(_CHOICES)})
    options = chance.choice([{}, {"finish_reason": "length"}, {"usage": chance.choice(USAGES)}])
    return Respond(chat_body(chance.choice(_CONTENTS), **options))
