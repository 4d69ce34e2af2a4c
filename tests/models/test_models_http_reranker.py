"""HttpReranker against a real HTTP server, in each of the three shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from justmem.errors import InvalidSetting, ModelNonsense, ModelRefused, ModelUnavailable
from justmem.models.http_reranker import HttpReranker
from justmem.ports import Reranked
from justmem.runtime import tokens
from justmem.testing import Request, Respond, error_body, rerank_body, serve_openai

TEXTS = ["Caroline adopted a puppy", "The market fell", "She bought dog food"]
SCORES = [0.9, 0.1, 0.5]


async def no_sleep(_: float) -> None:
    pass


async def rerank(url: str, texts: list[str] = TEXTS, **options: Any) -> Reranked:
    options = {"sleep": no_sleep} | options
    reranker = HttpReranker("rerank-model", url=url, **options)
    try:
        return await reranker.rerank("Who has a dog?", texts)
    finally:
        await reranker.close()


@pytest.mark.parametrize("path", ["", "/", "/rerank", "/rerank/", "/reranks"])
async def test_the_cohere_shape_with_or_without_its_path(path: str):
    with serve_openai([rerank_body(SCORES)]) as server:
        reranked = await rerank(server.url + path, api_key="key")
    np.testing.assert_allclose(reranked.scores, SCORES, rtol=1e-6)
    request = server.requests[0]
    assert request.path == ("/v1/reranks" if path == "/reranks" else "/v1/rerank")
    assert request.headers["authorization"] == "Bearer key"
    assert request.body == {
        "model": "rerank-model",
        "query": "Who has a dog?",
        "documents": TEXTS,
        "top_n": 3,
    }


async def test_a_tei_server_is_recognised_by_what_it_misses_and_remembered():
    def script(request: Request) -> Any:
        if "texts" not in request.body:
            message = "Failed to deserialize the JSON body: missing field `texts`"
            return Respond({"error": message, "error_type": "validation"}, status=422)
        found = [{"index": i, "score": s} for i, s in enumerate(SCORES)]
        return Respond(sorted(found, key=lambda row: -row["score"]))

    with serve_openai(script) as server:
        reranker = HttpReranker("m", url=server.url)
        first = await reranker.rerank("Who has a dog?", TEXTS)
        await reranker.rerank("Who has a dog?", TEXTS)
        await reranker.close()
    np.testing.assert_allclose(first.scores, SCORES, rtol=1e-6)
    assert len(server.requests) == 3
    counted = 3 * tokens.count("Who has a dog?") + sum(map(tokens.count, TEXTS))
    assert first.tokens == counted


async def test_a_tei_server_gets_no_more_than_it_takes_at_once():
    def script(request: Request) -> Any:
        if "texts" not in request.body:
            return Respond(error_body("missing field `texts`"), status=422)
        return Respond([{"index": i, "score": 1.0} for i in range(len(request.body["texts"]))])

    with serve_openai(script) as server:
        await rerank(server.url, ["text"] * 70)
    assert [len(request.body["texts"]) for request in server.requests[1:]] == [32, 32, 6]


async def test_long_lists_go_in_batches():
    def script(request: Request) -> Any:
        return rerank_body([float(len(text)) for text in request.body["documents"]])

    texts = ["x" * n for n in range(1, 8)]
    with serve_openai(script) as server:
        reranked = await rerank(server.url, texts, batch=3)
    assert len(server.requests) == 3
    np.testing.assert_array_equal(reranked.scores, range(1, 8))


async def test_nothing_to_rank_asks_nobody():
    with serve_openai([]) as server:
        reranked = await rerank(server.url, [])
    assert reranked.scores.shape == (0,)
    assert not server.requests


@pytest.mark.parametrize(
    "body",
    [
        rerank_body(SCORES[:2]),
        rerank_body([*SCORES, 0.3]),
        {"results": [{"index": i, "relevance_score": 0.1} for i in (0, 1, 1)]},
        {"results": [{"index": i, "relevance_score": 0.1} for i in (0, 1, 7)]},
        {"results": [{"index": i, "relevance_score": 0.1} for i in (0, 1, -1)]},
        {"results": [{"index": i} for i in range(3)]},
        {"results": [{"index": i, "relevance_score": "high"} for i in range(3)]},
        {"results": [{"index": i, "relevance_score": None} for i in range(3)]},
        {"results": None},
        {},
        [],
        "text",
    ],
)
async def test_missing_or_impossible_places_are_nonsense(body: Any):
    with serve_openai([Respond(body)]) as server, pytest.raises(ModelNonsense):
        await rerank(server.url)


async def test_what_is_not_json_is_nonsense():
    with serve_openai([Respond(b"<html>")]) as server, pytest.raises(ModelNonsense):
        await rerank(server.url)


@pytest.mark.parametrize(
    "failure",
    [
        Respond(error_body("busy"), status=429, headers={"retry-after": "1"}),
        Respond(status=500),
        Respond(cut="before"),
        Respond(rerank_body(SCORES), cut="inside"),
        Respond(rerank_body(SCORES), delay=5),
    ],
)
async def test_passing_failures_are_tried_again(failure: Respond):
    timeout = 0.2 if failure.delay else 60.0
    with serve_openai([failure, rerank_body(SCORES)]) as server:
        await rerank(server.url, timeout=timeout)
    assert len(server.requests) == 2


async def test_a_server_that_stays_away_and_one_that_refuses():
    with (
        serve_openai([Respond(status=503)] * 2) as server,
        pytest.raises(ModelUnavailable, match="2 attempts"),
    ):
        await rerank(server.url, attempts=2)
    with (
        serve_openai([Respond(error_body("sk-secret is wrong"), status=401)]) as server,
        pytest.raises(ModelRefused, match="right key") as caught,
    ):
        await rerank(server.url, api_key="sk-secret")
    assert "sk-secret" not in str(caught.value)
    assert len(server.requests) == 1


def test_settings_that_cannot_be_used_are_refused_at_once():
    with pytest.raises(InvalidSetting, match="address"):
        HttpReranker("m", url="")
    assert "sk-1" not in repr(HttpReranker("m", url="http://u:sk-1@localhost", api_key="sk-1"))
