"""Embedding and reranking on this machine's CPU with ONNX models.

The models use dynamic quantisation. The scale of each layer depends on the whole batch, so the
vector of a text would depend on the other texts of its batch (cosine 0.97 to 0.99; one in ten of
its ten nearest neighbours changes). Therefore each text runs alone, several on several cores, and
the same text always has the same vector. bench/models.py measures the cost.
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
from justmem.models.weights import LocalModel, known
from justmem.ports import Embedded, Reranked, Vectors

_LONGEST = 512  # the most tokens these models read

Result = NDArray[np.float32]


def runtime() -> Any:
    """The onnxruntime package, imported on first use, with its telemetry off.

    Its official builds send telemetry by default and write a device id into the user's cache when
    they load. An ORT_DISABLE_TELEMETRY that the user has set is respected.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    if os.environ["ORT_DISABLE_TELEMETRY"] == "1":
        onnxruntime.disable_telemetry_events()  # the host program may have loaded it earlier
    return onnxruntime


class Network:
    """One ONNX file with its tokenizer, loaded on first use. Safe to use from threads."""

    def __init__(self, name: str, folder: Path | Callable[[], Path], threads: int | None) -> None:
        self.name = name
        self._find = folder
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._tokenizer: Any = None
        self._states: Callable[[Any], Result]

    def run(self, texts: Sequence[Any], read: Callable[[Any], Result]) -> tuple[list[Result], int]:
        """`read` converts the output for one text (or pair) into a row. Returns the rows and the
        number of tokens."""
        self._load()
        encoded = self._tokenizer.encode_batch(list(texts))
        tokens = sum(len(encoding.ids) for encoding in encoded)

        def one(encoding: Any) -> Result:
            return read(self._states(encoding))

        if len(encoded) == 1 or self._threads == 1:
            return [one(encoding) for encoding in encoded], tokens
        with ThreadPoolExecutor(min(self._threads, len(encoded))) as pool:
            return list(pool.map(one, encoded)), tokens

    def _load(self) -> None:
        with self._lock:
            if self._tokenizer is None:
                self._folder = self._find() if callable(self._find) else self._find
                self._tokenizer, self._states = self._read(self._folder)

    def _read(self, folder: Path) -> tuple[Any, Callable[[Any], Result]]:
        """The tokenizer, and a function from the tokens of a text to the output for it."""
        from tokenizers import Tokenizer  # slow to import

        try:
            text = (folder / "tokenizer.json").read_text("utf-8")
            json.loads(text)  # the tokenizers package raises a bare Exception for invalid JSON
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.enable_truncation(_LONGEST)
        session = self._session(str(folder / "model.onnx"))
        inputs = [given.name for given in session.get_inputs()]

        def states(encoding: Any) -> Result:
            values = {
                "input_ids": encoding.ids,
                "attention_mask": encoding.attention_mask,
                "token_type_ids": encoding.type_ids,
            }
            given = {name: np.array([values[name]], np.int64) for name in inputs}
            output: Result = session.run(None, given)[0]
            return output

        return tokenizer, states

    def _session(self, model: str | bytes) -> Any:
        onnxruntime = runtime()
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        options = onnxruntime.SessionOptions()
        # One core per text: splitting such short texts over several cores is slower.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        # Texts differ in length, so the next text can rarely reuse this memory.
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
    """A local embedder. `folder` holds the weights, or is a function that finds them on first use.
    `threads` is the number of texts processed at the same time."""

    def __init__(
        self, name: str, folder: Path | Callable[[], Path], threads: int | None = None
    ) -> None:
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


def _network(model: LocalModel) -> type[Network]:
    if model.format == "e5":
        from justmem.models.e5 import E5Network

        return E5Network
    return Network


def _first(states: Result) -> Result:
    row: Result = states[0, 0]
    return row


def _mean(states: Result) -> Result:
    # A text runs alone, so there is no padding to exclude.
    row: Result = states[0].mean(axis=0, dtype=np.float32)
    return row


class OnnxReranker:
    """A local cross-encoder. Scores are logits: higher is better, about zero is undecided."""

    def __init__(
        self, name: str, folder: Path | Callable[[], Path], threads: int | None = None
    ) -> None:
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
