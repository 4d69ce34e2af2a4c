"""What the chat proxy spends is limited, and what it passes on names no secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from justmem.runtime import tokens
from justmem.server.proxy.costs import REPLY, Estimate, spent
from justmem.server.proxy.formats import ChatReply
from justmem.server.proxy.upstreams import SecretMask, upstream_secrets
from justmem_eval.loopback import Request, Respond, Served, chat_body, serve_openai
from replies import chat_stream
from servers import Running, serve, until

KEY = "sk-up-0123456789/abcdef"
DAY = 20_000
REPLIED = "That is a long story about a gravel bike."


def upstream(request: Request) -> Respond:
    if request.path == "/v1/models":
        return Respond({"key": KEY}, headers={"x-debug": f"used {KEY}"})
    last = request.body["messages"][-1]["content"]
    if last == "echo":
        said = f"Incorrect API key provided: {KEY}."
        headers = {"x-debug": f"Bearer {KEY}"}
        return Respond({"error": {"message": said}}, status=401, headers=headers)
    if last == "echo in pieces":
        event = json.dumps({"choices": [{"delta": {"content": f"It is {KEY} then."}}]})
        data = f"data: {event}\n\ndata: [DONE]\n\n".encode()
        return Respond(tuple(data[i : i + 5] for i in range(0, len(data), 5)))
    if last == "cut":
        return Respond(chat_stream(REPLIED), cut="middle")
    if last == "fail":
        return Respond({"error": {"message": "overloaded"}}, status=503)
    usage: Any = {"true": (300, 200), "absurd": (-1, 10**12)}.get(last)
    if request.body.get("stream"):
        return Respond(chat_stream(REPLIED, usage=usage if last == "true" else None))
    return Respond(chat_body(REPLIED, usage=usage))


@pytest.fixture(scope="module")
def behind() -> Iterator[Served]:
    with serve_openai(upstream) as served:
        yield served


@pytest.fixture(scope="module")
def running(behind: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(
        tmp_path_factory.mktemp("costs"),
        f"[budget]\nday_tokens = {DAY}",
        server=f'upstream = "{behind.url}"\npause_seconds = 0.1',
        JUSTMEM_UPSTREAM_KEY=KEY,
    ) as server:
        yield server


def chat(running: Running, key: str, text: str, **more: Any) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    with running.client(key) as client:
        return client.post("/v1/chat/completions", json=body)


def spending(running: Running, space: str) -> int:
    with running.owner() as owner:
        return int(owner.get(f"/v1/spaces/{space}").json()["spent_tokens"])


# ---------------------------------------------------------------- the limit


def test_a_chat_that_does_not_fit_the_day_is_not_forwarded(
    running: Running, behind: Served
) -> None:
    key, before = running.key("poor"), len(behind.requests)
    refused = chat(running, key, "true", max_tokens=DAY)
    assert refused.status_code == 402
    assert "max_tokens" in refused.json()["error"]["message"]
    assert len(behind.requests) == before
    assert chat(running, key, "true", max_tokens=100).status_code == 200
    assert len(behind.requests) == before + 1


def test_a_read_key_spends_no_more_than_the_day_allows(running: Running, behind: Served) -> None:
    assert chat(running, running.key("reader"), "true").status_code == 200  # makes the space
    key, before = running.key("reader", right="read"), len(behind.requests)
    answers = [chat(running, key, "true", max_tokens=9_000).status_code for _ in range(30)]
    assert set(answers) == {200, 402}
    assert answers == sorted(answers)
    assert len(behind.requests) - before == answers.count(200)
    assert spending(running, "reader") <= DAY


def test_a_read_key_cannot_spend_in_a_space_that_is_not_there(
    running: Running, behind: Served
) -> None:
    before = len(behind.requests)
    key = running.key("nowhere*", right="read")
    with running.client(key, params=None) as client:
        answer = client.post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "true"}]},
            headers={"x-justmem-space": "nowhere-1"},
        )
    assert answer.status_code == 404
    assert len(behind.requests) == before


@pytest.mark.parametrize("stream", [False, True])
def test_the_usage_of_the_provider_is_entered(running: Running, stream: bool) -> None:
    space = f"told-{stream}".lower()
    assert chat(running, running.key(space), "true", stream=stream).status_code == 200
    assert until(lambda: spending(running, space) == 500)


@pytest.mark.parametrize(("text", "stream"), [("absurd", False), ("none", False), ("none", True)])
def test_missing_or_impossible_usage_is_replaced_by_our_own_count(
    running: Running, text: str, stream: bool
) -> None:
    space = f"own-{text}-{stream}".lower()
    assert chat(running, running.key(space), text, stream=stream).status_code == 200
    least = tokens.count(text) + tokens.count(REPLIED)
    assert until(lambda: least < spending(running, space) < least + 60)


def test_a_broken_stream_costs_the_whole_reservation(running: Running) -> None:
    chat(running, running.key("cut"), "cut", stream=True, max_tokens=700)
    assert until(lambda: spending(running, "cut") > 700)


def test_a_refused_chat_costs_nothing(running: Running) -> None:
    assert chat(running, running.key("refused"), "fail").status_code == 503
    assert chat(running, running.key("refused"), "true", max_tokens=10).status_code == 200
    assert until(lambda: spending(running, "refused") == 500)


def test_the_cost_is_entered_without_a_limit_too(tmp_path: Path, behind: Served) -> None:
    with serve(tmp_path / "s", server=f'upstream = "{behind.url}"') as free:
        assert chat(free, free.key("free"), "true", max_tokens=10**6).status_code == 200
        assert until(lambda: spending(free, "free") == 500)


def test_an_estimate_counts_words_media_and_every_reply() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10**6}}
    words = {"type": "text", "text": "Look at this picture of a gravel bike."}
    plain = Estimate.of({"messages": [{"role": "user", "content": [words]}]})
    seen = Estimate.of({"messages": [{"role": "user", "content": [words, picture]}]})
    assert plain.reply == REPLY
    assert plain.words < seen.whole - plain.whole < 10_000
    assert Estimate.of({"max_tokens": 50, "n": 3}).reply == 150
    assert Estimate.of({"max_completion_tokens": 70, "max_tokens": "x"}).reply == 70
    tool = {"tools": [{"function": {"name": "f", "description": "words " * 500}}]}
    assert Estimate.of(tool).words > 500


def test_a_call_of_a_tool_is_counted_where_no_usage_is_given() -> None:
    estimate = Estimate.of({"messages": [{"role": "user", "content": "hello"}]})
    arguments = "the quick brown fox " * 20
    assert spent(estimate, ChatReply(written=[arguments])).tokens_out == tokens.count(arguments)


# ---------------------------------------------------------------- secrets


def test_an_upstream_that_echoes_its_key_does_not_reveal_it(running: Running) -> None:
    key = running.key("curious")
    refused = chat(running, key, "echo")
    assert refused.status_code == 401
    assert "Incorrect API key provided: ***" in refused.json()["error"]["message"]
    streamed = chat(running, key, "echo in pieces", stream=True)
    assert "It is *** then." in streamed.text
    with running.client(key) as client:
        models = client.get("/v1/models")
    for answer in (refused, streamed, models):
        assert KEY not in answer.text + str(answer.headers)
        assert "0123456789" not in answer.text + str(answer.headers)


def test_a_secret_is_masked_in_every_encoding() -> None:
    mask = SecretMask(upstream_secrets("http://me:pass%2Fword1@host/v1", 'a"b/c-é-long'))
    told = json.dumps({"key": 'a"b/c-é-long', "password": "pass/word1"})
    shown = mask.text(told + r" pass\/word1 pass%2Fword1 bWU6cGFzcy93b3JkMQ==")
    assert shown == '{"key": "***", "password": "***"} *** *** ***'


def test_a_short_placeholder_key_is_not_masked() -> None:
    assert SecretMask(["none"]).text("There is none.") == "There is none."
