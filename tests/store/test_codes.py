"""The scan of vectors: numpy and NumKong give the same scores."""

from __future__ import annotations

import numpy as np
import pytest

from justmem.store.codes import _numkong_dots, _numpy_dots


@pytest.mark.parametrize("dots", [_numpy_dots, _numkong_dots()], ids=["numpy", "numkong"])
@pytest.mark.parametrize("rows", [0, 1, 511, 513])
def test_scores_are_exact(dots: object, rows: int) -> None:
    if not callable(dots):
        pytest.skip("needs the extra justmem[fast]")
    draw = np.random.default_rng(rows)
    stored = draw.integers(-127, 128, (rows, 384)).astype(np.int8)
    queries = draw.integers(-127, 128, (3, 384)).astype(np.int8)
    assert np.array_equal(dots(stored, queries), queries.astype(int) @ stored.T.astype(int))
