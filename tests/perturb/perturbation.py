"""Small seeded noise on the outputs of the local models.

Int8 models give slightly different numbers on different processors. `JUSTMEM_TEST_NOISE=SEED`
imitates another processor: it changes each vector by about 0.001 of its length and each reranker
score by a few hundredths. The noise depends on the seed and the text only, so one "processor"
always gives the same numbers. Only the tests read this variable.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SEED = "JUSTMEM_TEST_NOISE"
_MODULE = "justmem.models.onnx"
_VECTOR_NOISE = 1e-3  # of the vector's length
_SCORE_NOISE = 0.03  # standard deviation, in logits


def install() -> None:
    """Perturb the local models of this process, if the variable is set."""
    seed = os.environ.get(SEED)
    if not seed:
        return
    if _MODULE in sys.modules:
        perturb(sys.modules[_MODULE], seed)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(seed))


def perturb(module: ModuleType, seed: str) -> None:
    network = module.Network
    exact = network.run

    def run(self: Any, texts: Sequence[Any], read: Callable[[Any], Any]) -> tuple[list[Any], int]:
        rows, tokens = exact(self, texts, read)
        return [noisy(row, seed, text) for row, text in zip(rows, texts, strict=True)], tokens

    network.run = run


def noisy(row: Any, seed: str, text: object) -> Any:
    import numpy as np

    digest = hashlib.sha256(f"{seed}\0{text!r}".encode()).digest()
    noise = np.random.default_rng(list(digest)).standard_normal(row.shape)
    if row.size == 1:
        return (row + _SCORE_NOISE * noise).astype(row.dtype)
    scale = _VECTOR_NOISE * np.linalg.norm(row) / np.linalg.norm(noise)
    return (row + scale * noise).astype(row.dtype)


class _Finder(MetaPathFinder):
    """Perturbs the module when it is imported, so that importing justmem stays light."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._seed)
        return spec


class _Loader(Loader):
    def __init__(self, inner: Loader, seed: str) -> None:
        self._inner = inner
        self._seed = seed

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        perturb(module, self._seed)
