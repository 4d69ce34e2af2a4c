"""A memory in a folder of the test's own, with real everything but the language model."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import perturbation
import pytest

from justmem import AsyncMemory
from justmem.memory_parts import Parts
from justmem.store.sqlite import open_store
from justmem.testing import HashEmbedder
from stories import Make, by_model, by_rules

ORDER = "JUSTMEM_TEST_ORDER"


def pytest_configure() -> None:
    """Perturb the local models here and in child processes, if the variable asks for it."""
    if os.environ.get(perturbation.SEED):
        folder = str(Path(perturbation.__file__).parent)
        paths = [folder, os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        perturbation.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`JUSTMEM_TEST_ORDER=SEED` runs the tests in random order."""
    seed = os.environ.get(ORDER)
    if seed:
        random.Random(seed).shuffle(items)


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """make(model) -> AsyncMemory in a folder of the test's own; without a model, by the rules."""
    opened: list[AsyncMemory] = []

    async def make(model: Any = None, *, space: str = "test", **parts: Any) -> AsyncMemory:
        stages = by_model(model) if model else by_rules()
        store = parts.pop("store", None) or await open_store(tmp_path / "memory", space)
        embedder = parts.pop("embedder", None) or HashEmbedder(512)
        memory = AsyncMemory(store, Parts(embedder, **{**stages, **parts}))
        opened.append(memory)
        return memory

    yield make
    for memory in opened:
        await memory.close()
