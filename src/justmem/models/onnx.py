"""Embedding and reranking on this machine's CPU.

The models use dynamic quantisation. The scale of each layer depends on the whole batch, so the
vector of a text would depend on the other texts of its batch (cosine 0.97 to 0.99; one in ten of
its ten nearest neighbours changes). Therefore each text runs alone, several on several cores, and
the same text always has the same vector. bench/models.py measures the cost.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.errors import WeightsUnavailable
from justmem.models import e5
from justmem.models.weights import LocalModel, known
from justmem.ports import Embedded, Reranked

_LONGEST = 512  # the most tokens these models read

Result = NDArray[np.float32]
Read = Callable[[Result], Result]
Folder = Path | Callable[[], Path]  # of the weights, or a function that finds them on first use

# How the states of a text's tokens become its vector. A text runs alone, so there is no padding.
_POOLING: Mapping[str, Read] = {
    "cls": lambda states: states[0],
    "mean": lambda states: states.mean(axis=0, dtype=np.float32),
}


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
    """A network with its tokenizer, loaded on first use. Safe to use from threads."""

    def __init__(self, model: LocalModel, folder: Folder, threads: int | None) -> None:
        self._model = model
        self._folder = folder
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Callable[[Any], Result]] | None = None

    def run(self, texts: Sequence[Any], read: Read) -> tuple[list[Result], int]:
        """`read` converts the output for one text (or pair) into a row. Returns the rows and the
        number of tokens."""
        tokenizer, output = self.load()
        encoded = tokenizer.encode_batch(list(texts))
        tokens = sum(len(encoding.ids) for encoding in encoded)

        def one(encoding: Any) -> Result:
            return read(output(encoding))

        if len(encoded) == 1 or self._threads == 1:
            return [one(encoding) for encoding in encoded], tokens
        with ThreadPoolExecutor(min(self._threads, len(encoded))) as pool:
            return list(pool.map(one, encoded)), tokens

    def load(self) -> tuple[Any, Callable[[Any], Result]]:
        """The tokenizer, and a function from the tokens of a text to the output for it."""
        with self._lock:
            if self._loaded is None:
                folder = self._folder() if callable(self._folder) else self._folder
                try:
                    self._loaded = e5.read(folder) if self._model.format == "e5" else _read(folder)
                except Exception as error:  # tokenizers and onnxruntime raise their own
                    raise WeightsUnavailable(
                        f"The model {self._model.name} in {folder} cannot be loaded "
                        f"({type(error).__name__}). Run `justmem models pull {self._model.name}`."
                    ) from error
            return self._loaded


def _read(folder: Path) -> tuple[Any, Callable[[Any], Result]]:
    from tokenizers import Tokenizer  # slow to import

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_LONGEST)
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    # One core per text: splitting such short texts over several cores is slower.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Texts differ in length, so the next text can rarely reuse this memory.
    options.enable_cpu_mem_arena = False
    path = str(folder / "model.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = [given.name for given in session.get_inputs()]

    def output(encoding: Any) -> Result:
        values = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        given = {name: np.array([values[name]], np.int64) for name in inputs}
        first: Result = session.run(None, given)[0][0]
        return first

    return tokenizer, output


class OnnxEmbedder:
    """A local embedder. `threads` is the number of texts processed at the same time."""

    def __init__(self, name: str, folder: Folder, threads: int | None = None) -> None:
        self._model = known(name, "embed")
        self.name = name
        self.dim = self._model.dim
        self.relevance_bound = self._model.relevance_bound
        self._network = Network(self._model, folder, threads)

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        if not texts:
            return Embedded(vectors=np.zeros((0, self.dim), np.float32), tokens=0)
        prefix = self._model.query_prefix if query else self._model.passage_prefix
        given = [prefix + text for text in texts]
        pool = _POOLING[self._model.pooling]
        rows, tokens = await asyncio.to_thread(self._network.run, given, pool)
        vectors = np.stack(rows)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Embedded(vectors=vectors, tokens=tokens)


class OnnxReranker:
    """A local cross-encoder. Scores are logits: higher is better, about zero is undecided."""

    def __init__(self, name: str, folder: Folder, threads: int | None = None) -> None:
        self.name = name
        self._network = Network(known(name, "rerank"), folder, threads)

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked:
        if not texts:
            return Reranked(scores=np.zeros(0, np.float32), tokens=0)
        pairs = [(query, text) for text in texts]
        rows, tokens = await asyncio.to_thread(self._network.run, pairs, lambda logit: logit)
        return Reranked(scores=np.concatenate(rows), tokens=tokens)
