"""multilingual-e5-small from its 4-bit file. A question in one language finds texts in another.

The file holds the tokenizer and the network. All numbers are little-endian.

    header       "E5S1", version, hidden size, layers, heads, inner size, words, positions, types,
                 epsilon of the layer norms, weights in a block
    pieces       count, ids of <s> </s> <pad> <unk>, bytes; where each piece begins, scores, pieces
    characters   count, bytes; each character with the characters that replace it
    directory    count; of each tensor the name, kind (0: float32, 1: 4-bit), numbers, offset, bytes
    tensors

A 4-bit tensor consists of blocks of 32 weights: a float16 scale, then 16 bytes. Byte j holds
weight j in its lower half and weight j + 16 in its upper half, both plus 8.

Only the rows of the current text are read from the word table and expanded, because the whole
table takes 384 MB. The layers are expanded when the file is loaded (85 MB).
"""

from __future__ import annotations

import mmap
import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.models.onnx import Network, Result

Floats = NDArray[np.float32]
Blocks = NDArray[np.uint8]  # rows, blocks of a row, bytes of a block
Tensors = Mapping[str, NDArray[Any]]
States = Callable[[list[int]], Floats]

_BLOCK = 32  # weights in a block
_BLOCK_BYTES = 2 + _BLOCK // 2


class E5Network(Network):
    def _read(self, folder: Path) -> tuple[Any, Callable[[Any], Result]]:
        file = _File(folder / "model.bin")
        if file.numbers("4sI") != (b"E5S1", 1):
            raise ValueError("This file has another format.")
        hidden, layers, heads, _, _, longest, _, epsilon, _ = file.numbers("7ifi")
        tokenizer = _tokenizer(file, longest)
        states = _network(_tensors(file, hidden), hidden, layers, heads, epsilon)
        return tokenizer, lambda encoding: states(encoding.ids)[np.newaxis]


# ---------------------------------------------------------------- the file


class _File:
    """Reads the file in order. Only the pages that are used take memory."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._place = 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + form, self._bytes, self._place)
        self._place += struct.calcsize("<" + form)
        return found

    def array(self, kind: str, count: int) -> NDArray[Any]:
        found = self.array_at(self._place, kind, count)
        self._place += found.nbytes
        return found

    def array_at(self, place: int, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self._bytes, kind, count, place)


def _tensors(file: _File, hidden: int) -> Tensors:
    tensors: dict[str, NDArray[Any]] = {}
    (count,) = file.numbers("i")
    for _ in range(count):
        (length,) = file.numbers("H")
        name = file.array("u1", length).tobytes().decode()
        quantised, numbers, place, size = file.numbers("BIQQ")
        if quantised:
            # A row has the hidden size, except in the matrix that maps back to that size.
            rows = hidden if name.endswith(".fo.w") else numbers // hidden
            tensors[name] = file.array_at(place, "u1", size).reshape(rows, -1, _BLOCK_BYTES)
        else:
            tensors[name] = file.array_at(place, "<f4", numbers)
    return tensors


def _expanded(blocks: Blocks) -> Floats:
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    plus_8 = np.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], axis=-1)
    rows: Floats = ((plus_8.astype(np.float32) - 8) * scales).reshape(len(blocks), -1)
    return rows


# ---------------------------------------------------------------- the tokenizer


def _tokenizer(file: _File, longest: int) -> _Tokenizer:
    count, begin, end, _, unknown = file.numbers("5i")
    (size,) = file.numbers("Q")
    starts = file.array("<u4", count + 1).tolist()
    scores = file.array("<f4", count).tolist()
    blob = file.array("u1", size).tobytes()
    pieces = [blob[start:stop].decode() for start, stop in pairwise(starts)]
    replaced = {}
    characters, _ = file.numbers("iI")
    for _ in range(characters):
        character, length = file.numbers("IB")
        replaced[character] = "".join(map(chr, file.numbers(f"{length}I")))

    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", begin), ("</s>", end)]
    )
    tokenizer.enable_truncation(longest)
    return _Tokenizer(tokenizer, replaced)


class _Tokenizer:
    """Replaces characters, then splits the text into pieces with the tokenizers package."""

    def __init__(self, pieces: Any, replaced: Mapping[int, str]) -> None:
        self._pieces = pieces
        self._replaced = replaced

    def encode_batch(self, texts: Sequence[str]) -> list[Any]:
        encoded: list[Any] = self._pieces.encode_batch([self._normal(text) for text in texts])
        return encoded

    def _normal(self, text: str) -> str:
        # The table has single characters only. NFC composes letters with their accents.
        return " ".join(unicodedata.normalize("NFC", text.translate(self._replaced)).split())


# ---------------------------------------------------------------- the network


def _network(tensors: Tensors, hidden: int, layers: int, heads: int, epsilon: float) -> States:
    """BERT in numpy: a text's token ids -> one state for each token."""
    # All tokens have the first type, so its vector is added to every position.
    positions = tensors["emb.pos"].reshape(-1, hidden) + tensors["emb.type"][:hidden]
    words = tensors["emb.word"]
    weights = {
        name: _expanded(tensor) if tensor.ndim == 3 else tensor
        for name, tensor in tensors.items()
        if not name.startswith("emb.word")
    }

    def linear(name: str, given: Floats) -> Floats:
        return given @ weights[f"{name}.w"].T + weights[f"{name}.b"]

    def norm(name: str, given: Floats) -> Floats:
        centred: Floats = given - given.mean(axis=-1, keepdims=True)
        spread: Floats = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + epsilon)
        return centred / spread * weights[f"{name}.w"] + weights[f"{name}.b"]

    def attended(layer: str, states: Floats) -> Floats:
        shape = (len(states), heads, hidden // heads)
        q, k, v = (
            linear(f"{layer}.{part}", states).reshape(shape).swapaxes(0, 1) for part in "qkv"
        )
        scores = q @ k.swapaxes(1, 2) / np.float32(np.sqrt(shape[2]))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed: Floats = (shares @ v).swapaxes(0, 1)
        return mixed.reshape(states.shape)

    def run(ids: list[int]) -> Floats:
        states = norm("emb.ln", _expanded(words[ids]) + positions[: len(ids)])
        for layer in (f"l{number}" for number in range(layers)):
            states = norm(f"{layer}.aln", states + linear(f"{layer}.ao", attended(layer, states)))
            inner = _gelu(linear(f"{layer}.fi", states))
            states = norm(f"{layer}.oln", states + linear(f"{layer}.fo", inner))
        return states

    return run


def _gelu(given: Floats) -> Floats:
    """x * (1 + erf(x / sqrt(2))) / 2, with erf by formula 7.1.26 of Abramowitz and Stegun, which is
    exact to seven digits."""
    size = np.abs(given) / np.float32(np.sqrt(2))
    t = 1 / (1 + 0.3275911 * size)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    erf = np.copysign(1 - series * np.exp(-size * size), given)
    result: Floats = given * (1 + erf) / 2
    return result
