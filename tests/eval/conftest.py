"""A small hand-written slice of each benchmark, and a model server that plays every part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from eval_server import played

from justmem_eval.loopback import Served, serve_openai

collect_ignore = ["fakes"]


@pytest.fixture
def data() -> Path:
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def dev_data() -> Path:
    """The published files in part, where they are at hand."""
    folder = Path(__file__).parents[3] / "shared" / "data"
    if not (folder / "locomo").is_dir():
        pytest.skip("the published benchmark files are not here")
    return folder


@pytest.fixture
def server() -> Iterator[Served]:
    with serve_openai(played) as served:
        yield served
