"""OpenAIEmbedder against a real HTTP server."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from justmem.errors import InvalidSetting, ModelNonsense, ModelRefused, ModelUnavailable
from justmem.models.openai import OpenAIEmbedder
from justmem.ports import Embedded
from justmem.runtime import tokens
from justmem_eval.loopback import Request, Respond, Served, serve_openai
from replies import embeddings_body, error_body


async def no_sleep(_: float) -> None:
    pass


async def embed(server: Served, texts: list[str], **options: Any) -> Embedded:
    options = {"dim": 2, "sleep": no_sleep} | options
    embedder = OpenAIEmbedder("embed-model", base_url=server.url, **options)
    try:
        return await embedder.embed(texts)
    finally:
        await embedder.close()


def by_length(request: Request) -> Any:
    """Each text's vector points along its length."""
    return embeddings_body([[len(text), 1.0] for text in request.body["input"]])


async def test_vectors_come_back_in_order_and_with_unit_length():
    body = embeddings_body([[3.0, 4.0], [0.0, 2.0]], usage=17)
    body["data"].reverse()  # servers may answer in any order: the index counts
    with serve_openai([body]) as server:
        embedded = await embed(server, ["a", "b"])
    assert embedded.vectors.dtype == np.float32
    np.testing.assert_allclose(embedded.vectors, [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)
    assert embedded.tokens == 17
    assert server.requests[0].path == "/v1/embeddings"
    assert "dimensions" not in server.requests[0].body


async def test_long_lists_go_in_batches():
    texts = ["x" * n for n in range(1, 301)]
    with serve_openai(by_length) as server:
        embedded = await embed(server, texts)
    assert [len(request.body["input"]) for request in server.requests] == [128, 128, 44]
    np.testing.assert_allclose(
        embedded.vectors[:, 0] / embedded.vectors[:, 1], range(1, 301), rtol=1e-3
    )
    assert embedded.tokens == 30


async def test_no_texts_need_no_request():
    with serve_openai([]) as server:
        embedded = await embed(server, [])
    assert embedded.vectors.shape == (0, 2)
    assert embedded.tokens == 0
    assert not server.requests


async def test_empty_texts_are_replaced_and_long_ones_are_cut():
    with serve_openai(by_length) as server:
        await embed(server, ["", " \n", "word " * 20_000])
    empty, blank, long = server.requests[0].body["input"]
    assert empty.strip()
    assert blank.strip()
    assert len(long) == 8000


async def test_a_model_is_asked_to_shorten_its_vectors():
    def script(request: Request) -> Any:
        return embeddings_body([[1.0] * request.body.get("dimensions", 8)])

    with serve_openai(script) as server:
        assert (await embed(server, ["a"], dim=4)).vectors.shape == (1, 4)
    assert [request.body.get("dimensions") for request in server.requests] == [None, 4]


async def test_vectors_of_another_length_name_the_right_setting():
    with (
        serve_openai(lambda _: embeddings_body([[1.0, 2.0, 3.0]])) as server,
        pytest.raises(ModelNonsense, match=r"vectors of 3 numbers.*Set its dimension to 3"),
    ):
        await embed(server, ["a"], dim=4)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": None},
        {"data": []},
        {"data": [{"index": 0}]},
        {"data": [{"index": 0, "embedding": "?"}]},
        {"data": [{"index": 0, "embedding": ["a", "b"]}]},
        {"data": [{"index": 0, "embedding": [0.0, 0.0]}]},
        embeddings_body([[1.0, 2.0], [1.0, 2.0]]),
        *(embeddings_body([vector]) for vector in (3.0, [10**400, 1], [[1.0], [2.0]], [])),
        embeddings_body([[1.0, None]]),
        [],
    ],
)
async def test_a_reply_without_usable_vectors_is_an_error(body: Any):
    with serve_openai([Respond(body)]) as server, pytest.raises(ModelNonsense):
        await embed(server, ["a"])


async def test_vectors_with_nan_are_an_error():
    page = Respond(json.dumps(embeddings_body([[1.0, float("nan")]])).encode())
    with serve_openai([page]) as server, pytest.raises(ModelNonsense, match="no usable vectors"):
        await embed(server, ["a"])


@pytest.mark.parametrize("usage", [None, {}, -1, 0, 10**12, {"prompt_tokens": "many"}])
async def test_missing_or_impossible_usage_is_counted_here(usage: Any):
    with serve_openai([embeddings_body([[1.0, 0.0]], usage=usage)]) as server:
        embedded = await embed(server, ["Caroline adopted a puppy"])
    assert embedded.tokens == tokens.count("Caroline adopted a puppy")


async def test_failures_are_tried_again_and_then_reported():
    busy = Respond(error_body("busy"), status=503)
    with serve_openai([busy, embeddings_body([[1.0, 0.0]])]) as server:
        await embed(server, ["a"])
    with (
        serve_openai([busy] * 2) as server,
        pytest.raises(ModelUnavailable, match="attempts: 2"),
    ):
        await embed(server, ["a"], attempts=2)
    with (
        serve_openai([Respond(error_body("no"), status=404)]) as server,
        pytest.raises(ModelRefused, match="model's name"),
    ):
        await embed(server, ["a"])


def test_settings_that_cannot_be_used_are_refused_at_once():
    with pytest.raises(InvalidSetting, match="dim"):
        OpenAIEmbedder("m", dim=0, base_url="http://localhost/v1")
    with pytest.raises(InvalidSetting, match="key"):
        OpenAIEmbedder("text-embedding-3-small", dim=1536)
