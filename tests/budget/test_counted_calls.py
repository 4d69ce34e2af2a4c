"""Replies made to do harm: each is nonsense with a reason, or read past. What torture found."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pytest

from justmem.domain import SessionState
from justmem.errors import ModelNonsense, ModelRefused
from justmem.models.openai import OpenAIEmbedder, OpenAIModel
from justmem.plan import planning_prompt
from justmem.ports import Embedded, Reranked
from justmem.prompts.parse import parse
from justmem.testing import HashEmbedder
from justmem_eval.loopback import Respond, serve_openai
from stories import HISTORY, RUN, Make, extract_history, plan, scripted

DEEP = b"[" * 60_000
NESTED = b'{"error":' * 900 + b"1" + b"}" * 900


async def at_once(_: float) -> None:
    pass


@pytest.mark.parametrize("text", ["[" * 60_000, '{"cards":' * 60_000, '{"n": ' + "9" * 6000 + "}"])
def test_depth_and_endless_numbers_are_no_reply(text: str) -> None:
    assert parse(text)[1] is False


@pytest.mark.parametrize("row", ["User | keeps \\ud800 a \\u0000 knee | x | y | z | 1, 1e9, ²"])
async def test_a_card_with_characters_that_are_none_is_stored_without_them(
    make: Make, row: str
) -> None:
    memory = await make(scripted(extract=f'{{"cards": ["{row}"]}}'))
    done = await memory.remember(RUN)
    assert done.state == SessionState.STORED, done.reason
    assert "\0" not in done.cards[0].fact
    assert (await memory.check()).sound


@pytest.mark.parametrize("answer", ['{"a": 1}', "NaN", "9" * 5000, '"\\ud800!"'])
async def test_an_answer_of_another_type_is_still_text(make: Make, answer: str) -> None:
    text = f'{{"answer": {answer}, "used": [[], {{}}, null, 1e999], "sufficient": true}}'
    memory = await make(scripted(extract=extract_history, plan=plan(), answer=text))
    await memory.remember_many(HISTORY)
    (await memory.ask("What hurts?")).text.encode()


@pytest.mark.parametrize("body", [DEEP, NESTED])
@pytest.mark.parametrize("status", [200, 400])
async def test_nesting_made_to_do_harm_is_a_model_error(body: bytes, status: int) -> None:
    with serve_openai(lambda _: Respond(body, status=status)) as server:
        embedder = OpenAIEmbedder("e", dim=2, base_url=server.url, sleep=at_once)
        model = OpenAIModel("m", base_url=server.url, sleep=at_once)
        for work in (
            embedder.embed(["x"]),
            model.complete(planning_prompt("Who?", datetime(2024, 5, 1))),
        ):
            with pytest.raises((ModelNonsense, ModelRefused)):
                await work
        for part in (embedder, model):
            await part.close()


class Wrong(HashEmbedder):
    """An embedder of somebody's own that does not keep to what it says."""

    def __init__(self, vectors: Any) -> None:
        super().__init__(8)
        self._vectors = np.array(vectors, np.float32)

    async def embed(self, texts: Any, *, query: bool = False) -> Embedded:
        return Embedded(self._vectors, 0)


@pytest.mark.parametrize("vectors", [[[1.0] * 8], [[1.0] * 7] * 4, [[float("nan")] * 8] * 4, []])
async def test_vectors_that_do_not_fit_fail_the_session_and_lose_nothing(
    make: Make, vectors: Any
) -> None:
    memory = await make(scripted(extract=extract_history), embedder=Wrong(vectors))
    done = await memory.remember(RUN)
    assert done.state == SessionState.FAILED
    assert "embedder" in done.reason
    assert [each.id for each in await memory.waiting()] == ["run"]


async def test_scores_that_do_not_fit_are_nonsense(make: Make) -> None:
    class Short:
        name = "short"

        async def rerank(self, query: str, texts: Any) -> Reranked:
            return Reranked(np.zeros(1, np.float32), 0)

    memory = await make(scripted(extract=extract_history, plan=plan()), reranker=Short())
    await memory.remember_many(HISTORY)
    with pytest.raises(ModelNonsense, match="reranker 'short'"):
        await memory.recall("What hurts?")
