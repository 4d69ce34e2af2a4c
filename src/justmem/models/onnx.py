"""Embedding and reranking on this machine's CPU with ONNX models.

The files are dynamically quantised: the scale of each layer's numbers is taken over the whole
batch, so a text's vector would depend on its neighbours (cosine 0.97 to 0.99 to itself; one in
ten of its ten nearest changes). Texts are therefore run one by one, several at once on several
cores: the same text always has the same vector. bench/models.py measures what that costs.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.errors import WeightsUnavailable
from justmem.models.weights import Weights, known
from justmem.ports import Embedded, Reranked, Vectors

_LONGEST = 512  # tokens these models can read

Result = NDArray[np.float32]


def runtime() -> Any:
    """The onnxruntime package, loaded when first needed: `import justmem` stays light.

    Its official builds report to their maker's servers by default and write a device id into the
    user's cache as soon as they load. A memory does not do that: unless the user has decided
    otherwise, it is switched off before loading.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    if os.environ["ORT_DISABLE_TELEMETRY"] == "1":
        onnxruntime.disable_telemetry_events()  # for a host program that had loaded it before us
    return onnxruntime


class Network:
    """One ONNX file with its tokenizer, loaded on first use. Safe to use from threads."""

    def __init__(self, name: str, folder: Path, threads: int | None) -> None:
        self.name = name
        self._folder = folder
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._session: Any = None
        self._tokenizer: Any = None
        self._inputs: tuple[str, ...] = ()

    def run(self, texts: Sequence[Any], read: Callable[[Any], Result]) -> tuple[list[Result], int]:
        """`read` turns the network's output for one text (or pair) into a row. The second
        value is the number of tokens read."""
        self._load()
        encoded = self._tokenizer.encode_batch(list(texts))
        tokens = sum(len(encoding.ids) for encoding in encoded)

        def one(encoding: Any) -> Result:
            return read(self._session.run(None, self._feed(encoding))[0])

        if len(encoded) == 1 or self._threads == 1:
            return [one(encoding) for encoding in encoded], tokens
        with ThreadPoolExecutor(min(self._threads, len(encoded))) as pool:
            return list(pool.map(one, encoded)), tokens

    def _load(self) -> None:
        with self._lock:
            if self._session is None:
                self._tokenizer, model = self._read()
                self._session = self._open(model)
                self._inputs = tuple(given.name for given in self._session.get_inputs())

    def _feed(self, encoding: Any) -> dict[str, NDArray[Any]]:
        """The inputs of the network for one text."""
        values = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        return {name: np.array([values[name]], np.int64) for name in self._inputs}

    def _read(self) -> tuple[Any, str | bytes]:
        """The tokenizer, and the model as a path or as bytes."""
        from tokenizers import Tokenizer  # loaded when first needed: `import justmem` stays light

        try:
            text = (self._folder / "tokenizer.json").read_text("utf-8")
            json.loads(text)  # the tokenizers package raises a bare Exception for what is not JSON
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.enable_truncation(_LONGEST)
        return tokenizer, str(self._folder / "model.onnx")

    def _open(self, model: str | bytes) -> Any:
        onnxruntime = runtime()
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        options = onnxruntime.SessionOptions()
        # One core per text: splitting texts this short over cores costs more than it gains.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        # Every text has its own length, so memory kept for the next one mostly does not fit it.
        options.enable_cpu_mem_arena = False
        try:
            return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except (state.NoSuchFile, state.InvalidProtobuf, state.InvalidGraph, state.Fail) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> WeightsUnavailable:
        return WeightsUnavailable(
            f"The model {self.name} in {self._folder} cannot be loaded "
            f"({type(error).__name__}). Run `justmem models pull {self.name}`."
        )


class OnnxEmbedder:
    """A local embedder. `folder` is what `weights.ensure(name)` returned; `threads` is how many
    texts are worked on at once."""

    def __init__(self, name: str, folder: Path, threads: int | None = None) -> None:
        model = known(name, "embed")
        self.name = name
        self.dim = model.dim
        self._query_prefix = model.query_prefix
        self._passage_prefix = model.passage_prefix
        self._pool = _first if model.pooling == "cls" else _mean
        self._network = _network(model)(name, folder, threads)

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        if not texts:
            return Embedded(vectors=np.zeros((0, self.dim), np.float32), tokens=0)
        prefix = self._query_prefix if query else self._passage_prefix
        given = [prefix + text for text in texts]
        rows, tokens = await asyncio.to_thread(self._network.run, given, self._pool)
        vectors: Vectors = np.stack(rows)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Embedded(vectors=vectors, tokens=tokens)


def _network(model: Weights) -> type[Network]:
    if model.format == "e5":
        from justmem.models.e5 import E5Network

        return E5Network
    return Network


def _first(states: Result) -> Result:
    row: Result = states[0, 0]
    return row


def _mean(states: Result) -> Result:
    # A text runs alone, so there is no padding to leave out.
    row: Result = states[0].mean(axis=0, dtype=np.float32)
    return row


class OnnxReranker:
    """A local cross-encoder. Scores are logits: higher is better, about zero is undecided."""

    def __init__(self, name: str, folder: Path, threads: int | None = None) -> None:
        known(name, "rerank")
        self.name = name
        self._network = Network(name, folder, threads)

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked:
        if not texts:
            return Reranked(scores=np.zeros(0, np.float32), tokens=0)
        pairs = [(query, text) for text in texts]
        rows, tokens = await asyncio.to_thread(self._network.run, pairs, _logit)
        return Reranked(scores=np.concatenate(rows), tokens=tokens)


def _logit(states: Result) -> Result:
    row: Result = states[0]
    return row
