"""OpenAIModel against a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from justmem.errors import InvalidSetting, ModelNonsense, ModelRefused, ModelUnavailable
from justmem.models.openai import OpenAIModel
from justmem.ports import Prompt
from justmem.runtime import tokens
from justmem_eval.loopback import Request, Respond, Served, chat_body, serve_openai
from replies import error_body

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
PROMPT = Prompt(
    stage="answer", system="Say who.", user="Who adopted a puppy?", schema=SCHEMA, max_tokens=50
)
REPLY = chat_body({"name": "Caroline"})
KEY = "sk-very-secret-0123456789"


class Naps:
    """Stands in for asyncio.sleep: notes how long it was asked to wait."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


async def ask(server: Served, **options: Any) -> Any:
    options = {"api_key": KEY, "sleep": Naps()} | options
    model = OpenAIModel("test-model", base_url=server.url, **options)
    try:
        return await model.complete(PROMPT)
    finally:
        await model.close()


# ---------------------------------------------------------------- the plain case


async def test_a_reply_comes_with_its_text_and_its_price():
    usage = {
        "prompt_tokens": 120,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 100},
    }
    with serve_openai([chat_body({"name": "Caroline"}, usage=usage)]) as server:
        completion = await ask(server)
    assert json.loads(completion.text) == {"name": "Caroline"}
    assert not completion.truncated
    call = completion.call
    assert (call.stage, call.model, call.attempts) == ("answer", "test-model", 1)
    assert (call.tokens_in, call.tokens_out, call.cached, call.estimated) == (120, 7, 100, False)
    assert call.seconds > 0


async def test_the_request_asks_for_the_schema_strictly():
    with serve_openai([REPLY]) as server:
        await ask(server)
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["messages"] == [
        {"role": "system", "content": "Say who."},
        {"role": "user", "content": "Who adopted a puppy?"},
    ]
    assert request.body["temperature"] == 0.0
    assert request.body["max_tokens"] == 50
    wanted = request.body["response_format"]
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["strict"] is True
    assert wanted["json_schema"]["schema"] == SCHEMA


async def test_a_reply_cut_by_the_token_limit_is_flagged():
    with serve_openai([chat_body('{"name": "Caro', finish_reason="length")]) as server:
        completion = await ask(server)
    assert completion.truncated
    assert completion.text == '{"name": "Caro'


async def test_thoughts_are_removed_from_a_reply():
    text = '<think>\nWho? {"maybe": 1}\n</think>\n{"name": "Caroline"}\n'
    with serve_openai([chat_body(text)]) as server:
        completion = await ask(server)
    assert completion.text == '{"name": "Caroline"}'


# ---------------------------------------------------------------- usage


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        "nonsense",
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": -5, "completion_tokens": -1},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 10**12, "completion_tokens": 10**12},
        {"prompt_tokens": "120", "completion_tokens": 1.5},
        {"prompt_tokens": True, "completion_tokens": True},
    ],
)
async def test_missing_or_impossible_usage_is_counted_here_and_marked(usage: Any):
    with serve_openai([chat_body({"name": "Caroline"}, usage=usage)]) as server:
        completion = await ask(server)
    call = completion.call
    assert call.estimated
    assert call.tokens_out == tokens.count('{"name": "Caroline"}')
    text = tokens.count(PROMPT.system) + tokens.count(PROMPT.user)
    assert text < call.tokens_in < text + 20
    assert call.cached == 0


async def test_more_cached_tokens_than_tokens_are_ignored():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 11},
    }
    with serve_openai([chat_body("{}", usage=usage)]) as server:
        assert (await ask(server)).call.cached == 0


# ---------------------------------------------------------------- trying again


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_passing_failures_are_tried_again_after_growing_pauses(status: int):
    naps = Naps()
    with serve_openai([Respond(error_body("busy"), status=status)] * 3 + [REPLY]) as server:
        completion = await ask(server, sleep=naps)
    assert completion.call.attempts == 4
    first, second, third = naps.taken
    assert 0.25 <= first <= 0.5 <= second <= 1.0 <= third <= 2.0


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry-after": "7"}, 7, 7.7),
        ({"retry-after": "86400"}, 60, 66),  # nobody waits a day
        ({"retry-after": "soon"}, 0.25, 0.5),
        ({"retry-after": "-3"}, 0.25, 0.5),
        ({"retry-after": "nan"}, 0.25, 0.5),
    ],
)
async def test_the_server_says_how_long_to_wait(headers: dict[str, str], least: float, most: float):
    naps = Naps()
    with serve_openai([Respond(status=429, headers=headers), REPLY]) as server:
        await ask(server, sleep=naps)
    assert least <= naps.taken[0] <= most


async def test_a_server_that_does_not_answer_is_an_error_with_its_cost():
    with (
        serve_openai([Respond(error_body("overloaded"), status=503)] * 3) as server,
        pytest.raises(ModelUnavailable, match=r"attempts: 3.*HTTP 503: overloaded") as caught,
    ):
        await ask(server, attempts=3)
    (call,) = caught.value.calls
    assert (call.stage, call.model, call.attempts) == ("answer", "test-model", 3)
    assert (call.tokens_in, call.tokens_out) == (0, 0)
    assert "overloaded" in call.error


async def test_a_timeout_counts_the_input_that_may_have_been_billed():
    with (
        serve_openai([Respond(REPLY, delay=5)] * 2) as server,
        pytest.raises(ModelUnavailable, match=r"no reply within 0\.05 s") as caught,
    ):
        await ask(server, attempts=2, timeout=0.05)
    (call,) = caught.value.calls
    assert call.attempts == 2
    assert call.tokens_in > 2 * tokens.count(PROMPT.user)
    assert call.estimated


async def test_a_lost_attempt_is_counted_with_the_one_that_succeeds():
    replies = [Respond(cut="before"), chat_body("{}", usage=(100, 5))]
    with serve_openai(replies) as server:
        call = (await ask(server)).call
    assert call.attempts == 2
    assert call.tokens_in > 100
    assert call.estimated


@pytest.mark.parametrize("cut", ["before", "inside"])
async def test_a_broken_connection_is_tried_again(cut: Any):
    with serve_openai([Respond(REPLY, cut=cut), REPLY]) as server:
        assert (await ask(server)).call.attempts == 2


async def test_a_call_without_a_server_costs_nothing():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ModelUnavailable, match="no connection") as caught:
            await ask(Served(url, []), attempts=2)
    (call,) = caught.value.calls
    assert (call.attempts, call.tokens_in) == (2, 0)


# ---------------------------------------------------------------- not worth trying again


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (401, error_body(f"Incorrect API key: {KEY}"), "JUSTMEM_API_KEY"),
        (403, error_body("not your model"), "key that may"),
        (413, error_body("request too large"), "context size"),
        (400, error_body("prompt is too long", code="context_length_exceeded"), "context size"),
        (400, error_body("This model's maximum context length is 4096 tokens"), "context size"),
        (402, error_body("no funds"), "Add credit"),
        (429, error_body("You exceeded your quota", code="insufficient_quota"), "out of credit"),
    ],
)
async def test_a_refusal_gives_advice_and_is_not_tried_again(status: int, body: Any, advice: str):
    with (
        serve_openai([Respond(body, status=status), REPLY]) as server,
        pytest.raises(ModelRefused, match=advice) as caught,
    ):
        await ask(server)
    assert len(server.requests) == 1
    (call,) = caught.value.calls
    assert (call.attempts, call.tokens_in) == (1, 0)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        chat_body(None),
        chat_body("  \n"),
        [],
        "text",
        None,
    ],
)
async def test_a_reply_without_text_is_an_error_and_is_counted(body: Any):
    with (
        serve_openai([Respond(body)]) as server,
        pytest.raises(ModelNonsense, match="empty reply") as caught,
    ):
        await ask(server)
    (call,) = caught.value.calls
    assert call.tokens_in > 0
    assert call.error


async def test_a_reply_spent_on_thinking_says_so():
    with (
        serve_openai([chat_body("", usage=(10, 50), finish_reason="length")]) as server,
        pytest.raises(ModelNonsense, match="thinking") as caught,
    ):
        await ask(server)
    assert caught.value.calls[0].tokens_out == 50


async def test_a_model_that_declines_the_content_is_a_refusal():
    body = chat_body(None)
    body["choices"][0]["message"]["refusal"] = "I cannot help with that."
    with serve_openai([body]) as server, pytest.raises(ModelRefused, match="cannot help"):
        await ask(server)


@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
async def test_a_reply_that_is_not_json_suggests_to_check_the_url(content_type: str):
    page = Respond(b"<html>Welcome</html>", headers={"content-type": content_type})
    with serve_openai([page]) as server, pytest.raises(ModelNonsense, match=r"not JSON.*/v1"):
        await ask(server)


# ---------------------------------------------------------------- what a server cannot do


def without_schemas(request: Request) -> Any:
    if request.body.get("response_format", {}).get("type") == "json_schema":
        return Respond(error_body("json_schema is not supported"), status=400)
    return REPLY


def without_formats(request: Request) -> Any:
    if "response_format" in request.body:
        return Respond(error_body("response_format is not supported"), status=400)
    return REPLY


@pytest.mark.parametrize(
    ("server_of", "attempts", "format"),
    [(without_schemas, 3, {"type": "json_object"}), (without_formats, 4, None)],
)
async def test_a_server_without_schemas_gets_the_schema_in_the_prompt_and_that_is_remembered(
    server_of: Any, attempts: int, format: Any
):
    with serve_openai(server_of) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        first = await model.complete(PROMPT)
        second = await model.complete(PROMPT)
        await model.close()
    assert (first.call.attempts, second.call.attempts) == (attempts, 1)
    body = server.requests[-1].body
    assert (body["max_tokens"], body["temperature"]) == (50, 0.0)
    assert body.get("response_format") == format
    assert json.dumps(SCHEMA, separators=(",", ":")) in body["messages"][0]["content"]


async def test_models_that_think_get_the_parameters_they_want():
    def script(request: Request) -> Any:
        for name in ("max_tokens", "temperature"):
            if name in request.body:
                message = f"Unsupported parameter: '{name}'."
                return Respond(error_body(message, param=name), status=400)
        return REPLY

    with serve_openai(script) as server:
        completion = await ask(server)
    assert completion.call.attempts == 2
    body = server.requests[-1].body
    assert body["max_completion_tokens"] == 50
    assert body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("status", [400, 404, 415, 422, 501])
async def test_a_server_that_refuses_every_form_is_asked_in_each_once(status: int):
    refused = Respond(error_body("messages: wrong"), status=status)
    with serve_openai(lambda _: refused) as server:
        model = OpenAIModel("test-model", base_url=server.url, sleep=Naps())
        for _ in range(2):
            with pytest.raises(ModelRefused, match="Check the model's name") as caught:
                await model.complete(PROMPT)
            assert caught.value.calls[0].attempts == 4
        await model.close()


async def test_parallel_calls_share_what_the_server_accepts():
    with serve_openai(without_schemas) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        await asyncio.gather(*(model.complete(PROMPT) for _ in range(5)))
        assert (await model.complete(PROMPT)).call.attempts == 1
        await model.close()


# ---------------------------------------------------------------- keys, addresses, loops


async def test_the_key_appears_nowhere(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    echoes: Sequence[int] = (400, 401, 403, 404, 500)
    for status in echoes:
        body = error_body(f"Bad key {KEY} in header Bearer {KEY}")
        with serve_openai(lambda _, s=status, b=body: Respond(b, status=s)) as server:
            with pytest.raises((ModelRefused, ModelUnavailable)) as caught:
                await ask(server, attempts=2)
            error = caught.value
            said += [str(error), repr(error), str(error.calls), repr(error.__cause__)]
    said.append(
        str(OpenAIModel("m", api_key=KEY, base_url="http://u:hunter2@localhost/v1")._client)
    )
    assert KEY not in caplog.text
    assert not any(KEY in text or "hunter2" in text for text in said)


async def test_the_client_does_not_read_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(InvalidSetting, match="needs an API key"):
        OpenAIModel("gpt-4.1-mini")
    with serve_openai([REPLY]) as server:
        await ask(server, api_key=None)
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://h:x/v1"])
def test_an_invalid_address_is_refused_at_once(url: str):
    with pytest.raises(InvalidSetting, match="http://localhost:8000/v1"):
        OpenAIModel("m", base_url=url)


async def test_the_full_path_of_the_service_is_accepted_as_its_address():
    with serve_openai([REPLY]) as server:
        await ask(Served(server.url + "/chat/completions/", server.requests))
    assert server.requests[0].path == "/v1/chat/completions"


def test_a_model_works_in_several_event_loops():
    with serve_openai(lambda _: REPLY) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        texts = {asyncio.run(model.complete(PROMPT)).text for _ in range(3)}
    assert len(texts) == 1
    assert len(model._client._clients) == 1


async def test_cancelling_a_call_is_not_a_model_error():
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()

    def script(_: Request) -> Respond:
        loop.call_soon_threadsafe(arrived.set)
        return Respond(REPLY, delay=5)

    with serve_openai(script) as server:
        task = asyncio.create_task(ask(server))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
