"""Writes an ONNX model: operations, constants, inputs and outputs -> the bytes of a model file.

onnxruntime reads such files but cannot write them, and the `onnx` package is large. Only what
our models need is here. The numbers are those of the fields in onnx.proto.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS = {"float32": 1, "uint8": 2}  # TensorProto.DataType
_MICROSOFT = "com.microsoft"  # onnxruntime's own operations
_STANDARD = 17  # version of the standard operations


class Graph:
    """Collects operations in the order in which they run. Values are named by strings."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, name: str, array: NDArray[Any]) -> str:
        dims = [(1, size) for size in array.shape]
        kind = _KINDS[array.dtype.name]
        self._constants.append(_message(*dims, (2, kind), (8, name), (9, array.tobytes())))
        return name

    def add(
        self, operation: str, *inputs: str, to: str, standard: bool = False, **options: int | float
    ) -> str:
        """Adds an operation of onnxruntime, or a standard one. An empty input is left out."""
        attributes = [(5, _option(name, value)) for name, value in options.items()]
        domain = "" if standard else _MICROSOFT
        given = [(1, name) for name in inputs]
        self._nodes.append(_message(*given, (2, to), (4, operation), *attributes, (7, domain)))
        return to

    def model(self, *, given: str, result: str, size: int) -> bytes:
        """The model file. Its input and its output have the shape [1, tokens, size]."""
        graph = _message(
            *((1, node) for node in self._nodes),
            (2, "graph"),
            *((5, constant) for constant in self._constants),
            (11, _value(given, size)),
            (12, _value(result, size)),
        )
        standard = _message((1, ""), (2, _STANDARD))
        microsoft = _message((1, _MICROSOFT), (2, 1))
        return _message((1, 8), (7, graph), (8, standard), (8, microsoft))


def _option(name: str, value: int | float) -> bytes:
    """An AttributeProto."""
    if isinstance(value, int):
        return _message((1, name), (3, value), (20, 2))
    return _message((1, name), (2, value), (20, 1))


def _value(name: str, size: int) -> bytes:
    """A ValueInfoProto."""
    sizes = (_message((1, 1)), _message((2, "tokens")), _message((1, size)))
    shape = _message(*((1, size) for size in sizes))
    return _message((1, name), (2, _message((1, _message((1, 1), (2, shape))))))


def _message(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    """Fields in the encoding of protocol buffers."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_varint(number << 3), _varint(value)]
        elif isinstance(value, float):
            parts += [_varint(number << 3 | 5), np.array(value, "<f4").tobytes()]
        else:
            data = value.encode() if isinstance(value, str) else value
            parts += [_varint(number << 3 | 2), _varint(len(data)), data]
    return b"".join(parts)


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)
