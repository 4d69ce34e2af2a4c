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
table takes 384 MB. onnxruntime runs the layers as a graph with 4-bit weights.
"""

from __future__ import annotations

import mmap
import struct
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.models.graph import Graph
from justmem.models.onnx import Network

Floats = NDArray[np.float32]
Blocks = NDArray[np.uint8]  # rows, blocks of a row, bytes of a block
Tensors = Mapping[str, NDArray[Any]]

_BLOCK = 32  # weights in a block
_BLOCK_BYTES = 2 + _BLOCK // 2


class E5Network(Network):
    _words: Blocks
    _positions: Floats

    def _read(self) -> tuple[Any, bytes]:
        try:
            return self._parse(_File(self._folder / "model.bin"))
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise self._unusable(error) from error

    def _parse(self, file: _File) -> tuple[Any, bytes]:
        if file.numbers("4sI") != (b"E5S1", 1):
            raise ValueError("The file has an unknown format.")
        hidden, layers, heads, _, _, longest, _, epsilon, _ = file.numbers("7ifi")
        tokenizer = _tokenizer(file, longest)
        tensors = _tensors(file, hidden)
        self._words = tensors["emb.word"]
        # All tokens have the first type, so its vector is added to every position.
        self._positions = tensors["emb.pos"].reshape(-1, hidden) + tensors["emb.type"][:hidden]
        return tokenizer, _graph(tensors, layers, heads, epsilon)

    def _feed(self, encoding: Any) -> dict[str, NDArray[Any]]:
        words = _expanded(self._words[encoding.ids]) + self._positions[: len(encoding.ids)]
        return {"words": words[np.newaxis]}


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


def _scales(blocks: Blocks) -> Floats:
    scales: Floats = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    return scales


def _nibbles(blocks: Blocks) -> Blocks:
    """The weights plus 8, in their order."""
    return np.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], axis=-1)


def _expanded(blocks: Blocks) -> Floats:
    weights = (_nibbles(blocks).astype(np.float32) - 8) * _scales(blocks)
    rows: Floats = weights.reshape(len(blocks), -1)
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


def _graph(tensors: Tensors, layers: int, heads: int, epsilon: float) -> bytes:
    """BERT: embedded words -> one state for each of them."""
    graph = Graph()

    def constant(name: str) -> str:
        return graph.constant(name, tensors[name])

    def linear(name: str, given: str) -> str:
        blocks = tensors[f"{name}.w"]
        rows, columns = len(blocks), blocks.shape[1] * _BLOCK
        nibbles = _nibbles(blocks)
        # onnxruntime expects weights 2j and 2j + 1 in byte j.
        packed = graph.constant(f"{name}.w", nibbles[..., ::2] | nibbles[..., 1::2] << 4)
        scales = graph.constant(f"{name}.scales", _scales(blocks)[..., 0])
        sizes = {"K": columns, "N": rows, "bits": 4, "block_size": _BLOCK}
        product = graph.add("MatMulNBits", given, packed, scales, to=f"{name}.product", **sizes)
        return graph.add("Add", product, constant(f"{name}.b"), to=f"{name}.sum", standard=True)

    def norm(name: str, given: str, added: str) -> str:
        scale, shift = constant(f"{name}.w"), constant(f"{name}.b")
        operation = "SkipLayerNormalization"
        return graph.add(operation, given, added, scale, shift, to=name, epsilon=epsilon)

    scale, shift = constant("emb.ln.w"), constant("emb.ln.b")
    options: dict[str, Any] = {"standard": True, "epsilon": epsilon}
    states = graph.add("LayerNormalization", "words", scale, shift, to="emb.ln", **options)
    for layer in (f"l{number}" for number in range(layers)):
        parts = [linear(f"{layer}.{part}", states) for part in "qkv"]
        attended = graph.add("MultiHeadAttention", *parts, to=f"{layer}.attended", num_heads=heads)
        states = norm(f"{layer}.aln", states, linear(f"{layer}.ao", attended))
        inner = graph.add("Gelu", linear(f"{layer}.fi", states), to=f"{layer}.gelu")
        states = norm(f"{layer}.oln", states, linear(f"{layer}.fo", inner))
    return graph.model(given="words", result=states, size=len(tensors["emb.ln.b"]))
