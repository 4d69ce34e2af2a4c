"""multilingual-e5-small from its 4-bit file, in numpy. A question in one language finds texts in
another.

The file holds the tokenizer and the network. All numbers are little-endian.

    header       "E5S1", version, hidden size, layers, heads, inner size, words, positions, types,
                 epsilon of the layer norms, weights in a block
    pieces       count, ids of <s> </s> <pad> <unk>, bytes; where each piece begins, scores, pieces
    characters   count, bytes; each character with the characters that replace it
    directory    count; of each tensor the name, kind (0: float32, 1: 4-bit), numbers, offset, bytes
    tensors

A 4-bit tensor consists of blocks of 32 weights: a float16 scale, then 16 bytes. Byte j holds
weight j in its lower half and weight j + 16 in its upper half, both plus 8.

Tensors of layer 0 are named `l0.q.w` (weights) and `l0.q.b` (biases). The parts are q, k, v (query,
key, value), ao (attention output), fi and fo (feed-forward, in and out), aln and oln (the layer
norms after attention and after feed-forward).
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_WORDS = "emb.word"
_BLOCK = 2 + 16  # bytes
# OpenBLAS splits a product of more than 262,144 multiplications over all cores. For texts this
# short, that takes 20 times the CPU. So larger products are made in parts.
_ROWS = 16  # of the left matrix in one part
_RIGHT = 12_288  # numbers of the right matrix in one part


def read(folder: Path) -> tuple[Any, Callable[[Any], Floats]]:
    """The tokenizer, and a function from the tokens of a text to their states."""
    file = _File(folder / "model.bin")
    if file.numbers("4sI") != (b"E5S1", 1):
        raise ValueError("The file has an unknown format.")
    hidden, layers, heads, _, _, longest, _, epsilon, _ = file.numbers("7ifi")
    tokenizer = _Tokenizer(file, longest)
    return tokenizer, _Bert(_tensors(file), hidden, layers, heads, epsilon).states


class _File:
    """Reads the file in order. Only the pages that are used take memory."""

    def __init__(self, path: Path) -> None:
        self.bytes: Any = np.memmap(path, np.uint8, "r")
        self._place = 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self.bytes, self._place)
        self._place += struct.calcsize(f"<{form}")
        return found

    def array(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self.bytes, kind, count, self._place)
        self._place += found.nbytes
        return found


class _Tokenizer:
    """Replaces characters, then splits the text into pieces with the tokenizers package."""

    def __init__(self, file: _File, longest: int) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers, processors

        count, begin, end, _, unknown = file.numbers("5i")
        (size,) = file.numbers("Q")
        starts = file.array("<u4", count + 1).tolist()
        scores = file.array("<f4", count).tolist()
        blob = file.array("u1", size).tobytes()
        pieces = [blob[start:stop].decode() for start, stop in pairwise(starts)]
        self._replaced = {}
        characters, _ = file.numbers("iI")
        for _ in range(characters):
            character, length = file.numbers("IB")
            self._replaced[character] = "".join(map(chr, file.numbers(f"{length}I")))

        self._pieces = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unknown))
        self._pieces.pre_tokenizer = pre_tokenizers.Metaspace()
        self._pieces.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", begin), ("</s>", end)]
        )
        self._pieces.enable_truncation(longest)

    def encode_batch(self, texts: Sequence[str]) -> list[Any]:
        return list(self._pieces.encode_batch([self._normal(text) for text in texts]))

    def _normal(self, text: str) -> str:
        # The table has single characters only. NFC composes letters with their accents.
        return " ".join(unicodedata.normalize("NFC", text.translate(self._replaced)).split())


def _tensors(file: _File) -> Mapping[str, Any]:
    """The table of words stays in its 4 bits, because it would take 384 MB."""
    tensors: dict[str, Any] = {}
    (count,) = file.numbers("i")
    for _ in range(count):
        (length,) = file.numbers("H")
        name = file.array("u1", length).tobytes().decode()
        quantised, _, place, size = file.numbers("BIQQ")
        data = file.bytes[place : place + size]
        if len(data) != size:
            raise ValueError("The file is cut short.")
        if quantised:
            blocks = np.frombuffer(data, "u1").reshape(-1, _BLOCK)
            tensors[name] = blocks if name == _WORDS else _expanded(blocks)
        else:
            tensors[name] = np.frombuffer(data, "<f4")
    return tensors


def _expanded(blocks: NDArray[np.uint8]) -> Floats:
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    nibbles = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)
    weights: Floats = (nibbles.astype(np.float32) - 8) * scales
    return weights


@dataclass(frozen=True, slots=True)
class _Bert:
    """The layers of BERT, for one text at a time."""

    tensors: Mapping[str, Any]
    hidden: int  # numbers of a state
    layers: int
    heads: int
    epsilon: float

    def states(self, encoding: Any) -> Floats:
        states = self._norm("emb.ln", self._embedded(encoding.ids))
        for layer in (f"l{number}" for number in range(self.layers)):
            attended = self._linear(f"{layer}.ao", self._attended(layer, states))
            states = self._norm(f"{layer}.aln", states + attended)
            inner = _gelu(self._linear(f"{layer}.fi", states))
            states = self._norm(f"{layer}.oln", states + self._linear(f"{layer}.fo", inner))
        return states

    def _embedded(self, ids: Sequence[int]) -> Floats:
        words = self.tensors[_WORDS].reshape(-1, self.hidden // 32, _BLOCK)[ids]
        positions = self.tensors["emb.pos"].reshape(-1, self.hidden)[: len(ids)]
        kind = self.tensors["emb.type"][: self.hidden]  # the same for all tokens
        embedded: Floats = _expanded(words.reshape(-1, _BLOCK)).reshape(positions.shape)
        embedded += positions + kind
        return embedded

    def _attended(self, layer: str, states: Floats) -> Floats:
        shape = (len(states), self.heads, -1)
        query, key, value = (
            self._linear(f"{layer}.{part}", states).reshape(shape).swapaxes(0, 1) for part in "qkv"
        )
        scores = _product(query, key.swapaxes(1, 2)) / query.shape[-1] ** 0.5
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return _product(weights, value).swapaxes(0, 1).reshape(states.shape)

    def _linear(self, name: str, states: Floats) -> Floats:
        """The states times the weights of a part, plus its biases."""
        size = states.shape[1]
        weights = self.tensors[f"{name}.w"].reshape(-1, _RIGHT // size, size).swapaxes(1, 2)
        product = _product(states, weights).swapaxes(0, 1).reshape(len(states), -1)
        shifted: Floats = product + self.tensors[f"{name}.b"]
        return shifted

    def _norm(self, name: str, states: Floats) -> Floats:
        centred = states - states.mean(axis=1, keepdims=True)
        spread = np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + self.epsilon)
        normal: Floats = centred / spread * self.tensors[f"{name}.w"] + self.tensors[f"{name}.b"]
        return normal


def _gelu(given: Floats) -> Floats:
    bent = given + 0.044715 * given * given * given
    activated: Floats = given / 2 * (1 + np.tanh(0.7978846 * bent))
    return activated


def _product(left: Floats, right: Floats) -> Floats:
    """The matrix product, made in parts of _ROWS rows."""
    parts = [left[..., row : row + _ROWS, :] @ right for row in range(0, left.shape[-2], _ROWS)]
    product: Floats = np.concatenate(parts, axis=-2)
    return product
