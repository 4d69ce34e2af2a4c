"""The doubles that justmem.testing ships."""

from __future__ import annotations

import json

import numpy as np
import pytest

from justmem.errors import ModelNonsense, ModelUnavailable
from justmem.ports import Prompt
from justmem.runtime import tokens
from justmem.testing import HashEmbedder, ScriptedModel

PROMPT = Prompt(stage="answer", system="Say who.", user="Who?", schema={}, max_tokens=9)


async def test_a_scripted_model_replies_as_told_and_records_its_prompts():
    model = ScriptedModel(["plain", {"as": "json"}])
    assert (await model.complete(PROMPT)).text == "plain"
    completion = await model.complete(PROMPT)
    assert json.loads(completion.text) == {"as": "json"}
    assert model.prompts == [PROMPT, PROMPT]
    assert completion.call.tokens_in == tokens.count("Say who.") + tokens.count("Who?")
    assert completion.call.tokens_out == tokens.count(completion.text)
    with pytest.raises(ModelUnavailable, match="no reply left") as caught:
        await model.complete(PROMPT)
    assert caught.value.calls[0].stage == "answer"


async def test_a_scripted_model_can_answer_by_the_prompt_and_can_fail():
    model = ScriptedModel(lambda prompt: prompt.user.upper())
    assert (await model.complete(PROMPT)).text == "WHO?"
    with pytest.raises(ModelNonsense, match="gibberish"):
        await ScriptedModel([ModelNonsense("gibberish")]).complete(PROMPT)


async def test_hashed_vectors_are_close_when_words_are_shared():
    texts = ["Caroline has a dog", "the dog of Caroline", "interest rates rose sharply", ""]
    embedded = await HashEmbedder(dim=512).embed(texts)
    vectors = embedded.vectors
    assert vectors.shape == (4, 512)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    assert vectors[0] @ vectors[1] > 0.4 > 0.1 > vectors[0] @ vectors[2]
    np.testing.assert_array_equal(vectors, (await HashEmbedder(dim=512).embed(texts)).vectors)
