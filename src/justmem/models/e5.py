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
table takes 384 MB. onnxruntime runs the layers as a graph with 4-bit weights: the same in plain
numpy takes 2 to 50 times the CPU, because BLAS splits such small products over all cores.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.models.onnx import Network

Floats = NDArray[np.float32]

Tensors = Mapping[str, NDArray[Any]]

_BLOCK_BYTES = 2 + 16


class E5Network(Network):
    def _read(self, folder: Path) -> tuple[Any, Callable[[Any], Floats]]:
        try:
            file = _File(folder / "model.bin")
            if file.numbers("4sI") != (b"E5S1", 1):
                raise ValueError("The file has an unknown format.")
            hidden, layers, heads, _, _, longest, _, epsilon, _ = file.numbers("7ifi")
            tokenizer, tensors = _Tokenizer(file, longest), _tensors(file, hidden)
            session = self._session(_bert(tensors, layers, heads, epsilon))
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise self._unusable(error) from error
        words = tensors["emb.word"]
        # All tokens have the first type, so its vector is added to every position.
        positions = tensors["emb.pos"].reshape(-1, hidden) + tensors["emb.type"][:hidden]

        def states(encoding: Any) -> Floats:
            given = {"words": _expanded(words[encoding.ids]), "positions": positions}
            rows = {name: each[np.newaxis, : len(encoding.ids)] for name, each in given.items()}
            output: Floats = session.run(None, rows)[0]
            return output

        return tokenizer, states


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


def _tensors(file: _File, hidden: int) -> Tensors:
    """Weights of 4 bits stay blocks: rows, blocks of a row, bytes of a block."""
    tensors: dict[str, NDArray[Any]] = {}
    (count,) = file.numbers("i")
    for _ in range(count):
        (length,) = file.numbers("H")
        name = file.array("u1", length).tobytes().decode()
        quantised, numbers, place, size = file.numbers("BIQQ")
        tensors[name] = np.frombuffer(
            file.bytes[place : place + size], "u1" if quantised else "<f4"
        )
        if quantised:
            # A row has the hidden size, except in the matrix that maps back to that size.
            rows = hidden if name.endswith(".fo.w") else numbers // hidden
            tensors[name] = tensors[name].reshape(rows, -1, _BLOCK_BYTES)
    return tensors


def _nibbles(blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The weights plus 8, in their order."""
    return np.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], axis=-1)


def _scales(blocks: NDArray[np.uint8]) -> Floats:
    return np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)


def _expanded(blocks: NDArray[np.uint8]) -> Floats:
    weights: Floats = (_nibbles(blocks).astype(np.float32) - 8) * _scales(blocks)
    return weights.reshape(len(blocks), -1)


# ---------------------------------------------------------------- the network


def _bert(tensors: Tensors, layers: int, heads: int, epsilon: float) -> bytes:
    """An ONNX model: the vectors of words and of their positions -> one state for each word."""
    graph = _Graph()

    def constant(name: str) -> str:
        return graph.constant(name, tensors[name])

    def product(name: str, given: str) -> str:
        blocks = tensors[f"{name}.w"]
        nibbles = _nibbles(blocks)
        # onnxruntime expects weights 2j and 2j + 1 in byte j.
        packed = graph.constant(f"{name}.w", nibbles[..., ::2] | nibbles[..., 1::2] << 4)
        scales = graph.constant(f"{name}.scales", _scales(blocks)[..., 0])
        sizes = {"K": blocks.shape[1] * 32, "N": len(blocks), "bits": 4, "block_size": 32}
        return graph.add("MatMulNBits", given, packed, scales, **sizes)

    def norm(name: str, *given: str, bias: str = "") -> str:
        scale, shift = constant(f"{name}.w"), constant(f"{name}.b")
        added = [constant(bias)] if bias else []
        return graph.add("SkipLayerNormalization", *given, scale, shift, *added, epsilon=epsilon)

    states = norm("emb.ln", "words", "positions")
    for layer in (f"l{number}" for number in range(layers)):
        parts = [product(f"{layer}.{part}", states) for part in "qkv"]
        biases = np.concatenate([tensors[f"{layer}.{part}.b"] for part in "qkv"])
        bias = graph.constant(f"{layer}.qkv.b", biases)
        attended = graph.add("MultiHeadAttention", *parts, bias, num_heads=heads)
        added = product(f"{layer}.ao", attended)
        states = norm(f"{layer}.aln", states, added, bias=f"{layer}.ao.b")
        inner = graph.add("BiasGelu", product(f"{layer}.fi", states), constant(f"{layer}.fi.b"))
        added = product(f"{layer}.fo", inner)
        states = norm(f"{layer}.oln", states, added, bias=f"{layer}.fo.b")
    return graph.model("words", "positions", result=states)


class _Graph:
    """Writes an ONNX model of onnxruntime's own operations. onnxruntime reads such files but cannot
    write them, and the `onnx` package is large. The numbers are those of the fields in onnx.proto.
    """

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, name: str, array: NDArray[Any]) -> str:
        dims = [(1, size) for size in array.shape]
        kind = {"float32": 1, "uint8": 2}[array.dtype.name]
        self._constants.append(_message(*dims, (2, kind), (8, name), (9, array.tobytes())))
        return name

    def add(self, operation: str, *inputs: str, **options: int | float) -> str:
        """Adds an operation, and returns the name of its result."""
        result = f"result {len(self._nodes)}"
        attributes = [
            (5, _message((1, name), (3, value), (20, 2)))
            if isinstance(value, int)
            else (5, _message((1, name), (2, value), (20, 1)))
            for name, value in options.items()
        ]
        given = [(1, name) for name in inputs]
        named = [(2, result), (4, operation), (7, "com.microsoft")]
        self._nodes.append(_message(*given, *named, *attributes))
        return result

    def model(self, *inputs: str, result: str) -> bytes:
        floats = _message((1, _message((1, 1))))
        graph = _message(
            *((1, node) for node in self._nodes),
            (2, "graph"),
            *((5, constant) for constant in self._constants),
            *((11, _message((1, name), (2, floats))) for name in inputs),
            (12, _message((1, result), (2, floats))),
        )
        operations = _message((1, "com.microsoft"), (2, 1))
        return _message((1, 8), (7, graph), (8, _message((2, 17))), (8, operations))


def _message(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    """Fields in the encoding of protocol buffers."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_varint(number << 3), _varint(value)]
        elif isinstance(value, float):
            parts += [_varint(number << 3 | 5), struct.pack("<f", value)]
        else:
            data = value.encode() if isinstance(value, str) else value
            parts += [_varint(number << 3 | 2), _varint(len(data)), data]
    return b"".join(parts)


def _varint(number: int) -> bytes:
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])
