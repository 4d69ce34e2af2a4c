"""Vectors, and the twelve-bit numbers that stores keep of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
_MOST = 2039  # so that the upper eight of the twelve bits, rounded, stay below 128


class Coded(NamedTuple):
    """Rows of vectors as `scales * (16 * high + low)`. A search scans `high`, which tells nearly
    everything, and scores the best again with both parts."""

    high: NDArray[np.int8]
    low: NDArray[np.uint8]  # two numbers from 0 to 15, which stand for -8 to 7, in each byte
    scales: NDArray[np.float32]

    @classmethod
    def empty(cls, rows: int, dim: int) -> Coded:
        """Rows without vectors: their scale is 0."""
        return cls(
            np.zeros((rows, dim), np.int8),
            np.zeros((rows, (dim + 1) // 2), np.uint8),
            np.zeros(rows, np.float32),
        )

    @property
    def dim(self) -> int:
        return int(self.high.shape[1])

    def at(self, rows: Any) -> Coded:
        return Coded(self.high[rows], self.low[rows], self.scales[rows])

    @property
    def vectors(self) -> Vectors:
        numbers = self.high.astype(np.int16) * 16 - 8
        numbers[:, 0::2] += self.low & 15
        numbers[:, 1::2] += (self.low >> 4)[:, : self.dim // 2]
        return numbers * self.scales[:, None]


def coded(vectors: Vectors) -> Coded:
    """The vectors of the result are coded in the same way again: copies of them stay equal."""
    scales = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float32) / np.float32(_MOST)
    # With twelve significant bits, so that the products above are exact.
    scales = ((scales.view(np.uint32) + 0x800) & np.uint32(0xFFFFF000)).view(np.float32)
    safe = np.where(scales > 0, scales, np.float32(1))
    numbers = np.rint(vectors / safe[:, None]).clip(-_MOST, _MOST).astype(np.int16)
    high = (numbers + 8) >> 4
    rest = (numbers - 16 * high + 8).astype(np.uint8)
    low = rest[:, 0::2].copy()
    low[:, : rest.shape[1] // 2] |= rest[:, 1::2] << 4
    return Coded(high.astype(np.int8), low, scales)
