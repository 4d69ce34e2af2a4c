"""The real local models: what they find alike, and that they find it every time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import platformdirs
import pytest

from justmem.errors import InvalidSetting, WeightsUnavailable
from justmem.models import weights
from justmem.models.onnx import OnnxEmbedder, OnnxReranker

FOLDER = Path(platformdirs.user_cache_dir("justmem")) / "models"
EMBEDDERS = ("bge-small-en-v1.5", "all-MiniLM-L6-v2", "multilingual-e5-small")
RERANKER = "ms-marco-MiniLM-L-12-v2"

TEXTS = [
    "Caroline adopted a puppy from the shelter.",
    "Melanie ran a half marathon in May and finished in under two hours, which surprised her.",
    "The stock market fell by three percent.",
    "ok",
    "My brother Tom moved to Lisbon last autumn because his company opened an office there, and "
    "he has been learning Portuguese every evening since then with a tutor he met at the gym.",
]


@pytest.fixture(scope="module", params=EMBEDDERS)
def embedder(request: pytest.FixtureRequest) -> OnnxEmbedder:
    return OnnxEmbedder(request.param, weights.ensure(request.param, folder=FOLDER))


@pytest.fixture(scope="module")
def reranker() -> OnnxReranker:
    return OnnxReranker(RERANKER, weights.ensure(RERANKER, folder=FOLDER))


async def test_texts_that_mean_the_same_are_close(embedder: OnnxEmbedder):
    texts = ["Caroline adopted a puppy.", "Caroline got a young dog.", "Interest rates rose."]
    vectors = (await embedder.embed(texts)).vectors
    dog, rates = 1 - vectors[1:] @ vectors[0]
    assert dog < rates / 2


async def test_a_question_finds_its_answer(embedder: OnnxEmbedder):
    question = (await embedder.embed(["Who has a dog?"], query=True)).vectors[0]
    vectors = (await embedder.embed(TEXTS)).vectors
    assert int(np.argmax(vectors @ question)) == 0


async def test_vectors_have_unit_length_and_the_stated_dimension(embedder: OnnxEmbedder):
    embedded = await embedder.embed(TEXTS)
    assert embedded.vectors.shape == (5, embedder.dim) == (5, 384)
    assert embedded.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embedded.vectors, axis=1), 1, rtol=1e-5)
    assert 50 < embedded.tokens < 120


async def test_the_vector_of_a_text_does_not_depend_on_other_texts(embedder: OnnxEmbedder):
    together = (await embedder.embed(TEXTS)).vectors
    for text, vector in zip(TEXTS, together, strict=True):
        alone = (await embedder.embed([text])).vectors[0]
        np.testing.assert_array_equal(alone, vector)


async def test_parallel_calls_share_one_loaded_model(embedder: OnnxEmbedder):
    fresh = OnnxEmbedder(embedder.name, FOLDER / embedder.name, threads=1)
    results = await asyncio.gather(*(fresh.embed([text]) for text in TEXTS))
    together = (await embedder.embed(TEXTS)).vectors
    np.testing.assert_array_equal(np.concatenate([r.vectors for r in results]), together)


async def test_no_texts_give_an_empty_array(embedder: OnnxEmbedder):
    embedded = await embedder.embed([])
    assert embedded.vectors.shape == (0, 384)
    assert embedded.vectors.dtype == np.float32
    assert embedded.tokens == 0


async def test_texts_that_are_too_long_are_cut(embedder: OnnxEmbedder):
    embedded = await embedder.embed(["puppy " * 5000])
    assert embedded.tokens == 512


@pytest.mark.parametrize("text", ["", "   ", "😀🐶", "漢字", "a\0b", "\n"])
async def test_odd_texts_have_vectors_too(embedder: OnnxEmbedder, text: str):
    vectors = (await embedder.embed([text])).vectors
    assert np.isfinite(vectors).all()


async def test_bge_gets_questions_with_its_prefix():
    name = "bge-small-en-v1.5"
    bge = OnnxEmbedder(name, weights.ensure(name, folder=FOLDER))
    asked = await bge.embed(["Who has a dog?"], query=True)
    stated = await bge.embed(["Who has a dog?"])
    prefix = "Represent this sentence for searching relevant passages: "
    spelled = await bge.embed([prefix + "Who has a dog?"])
    assert asked.tokens > stated.tokens
    np.testing.assert_array_equal(asked.vectors, spelled.vectors)
    assert not np.allclose(asked.vectors, stated.vectors)


# ---------------------------------------------------------------- the reranker


async def test_the_answer_is_ranked_first(reranker: OnnxReranker):
    reranked = await reranker.rerank("Who moved to another country?", TEXTS)
    assert reranked.scores.shape == (5,)
    assert reranked.scores.dtype == np.float32
    assert int(np.argmax(reranked.scores)) == 4
    assert reranked.tokens > 5 * 6


async def test_the_score_of_a_pair_does_not_depend_on_other_pairs(reranker: OnnxReranker):
    together = (await reranker.rerank("Who has a dog?", TEXTS)).scores
    for text, score in zip(TEXTS, together, strict=True):
        assert (await reranker.rerank("Who has a dog?", [text])).scores[0] == score


async def test_no_texts_and_long_texts_can_be_ranked(reranker: OnnxReranker):
    assert (await reranker.rerank("Who?", [])).scores.shape == (0,)
    long = await reranker.rerank("Who has a dog? " * 500, ["puppy " * 5000])
    assert long.tokens == 512


# ---------------------------------------------------------------- what can be wrong


def test_unknown_names_are_refused_with_the_known_ones(tmp_path: Path):
    with pytest.raises(InvalidSetting, match=r"bge-small-en-v1\.5"):
        OnnxEmbedder("bge-giant", tmp_path)
    with pytest.raises(InvalidSetting, match="Choose one of: ms-marco"):
        OnnxReranker("bge-small-en-v1.5", tmp_path)


@pytest.mark.parametrize("damage", ["missing", "tokenizer", "model"])
async def test_files_that_cannot_be_loaded_name_the_command(tmp_path: Path, damage: str):
    good = FOLDER / "all-MiniLM-L6-v2"
    weights.ensure("all-MiniLM-L6-v2", folder=FOLDER)
    if damage != "missing":
        (tmp_path / "tokenizer.json").write_bytes((good / "tokenizer.json").read_bytes())
        (tmp_path / "model.onnx").write_bytes(b"not a model")
    if damage == "tokenizer":
        (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(WeightsUnavailable, match="justmem models pull all-MiniLM-L6-v2"):
        await OnnxEmbedder("all-MiniLM-L6-v2", tmp_path).embed(["text"])


def test_a_model_sends_no_telemetry(tmp_path: Path):
    """onnxruntime's official builds leave a device id and a queue of events in the cache."""
    name = "all-MiniLM-L6-v2"
    program = (
        "import asyncio, pathlib, sys; from justmem.models.onnx import OnnxEmbedder;"
        "embedder = OnnxEmbedder(sys.argv[1], pathlib.Path(sys.argv[2]), threads=1);"
        "asyncio.run(embedder.embed(['text']))"
    )
    folder = weights.ensure(name, folder=FOLDER)
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"} | home
    subprocess.run([sys.executable, "-c", program, name, str(folder)], env=env, check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
