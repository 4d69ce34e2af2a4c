"""A real memory for each test, and one that fails. A file whose framework is not installed here is
left to `make integrations`, which runs each in an environment of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import justmem
from justmem.integrations.safe import SafeMemory
from justmem.testing import HashEmbedder

MODULES = {
    "langchain": "langchain",
    "langgraph": "langgraph",
    "openai_agents": "agents",
    "google_adk": "google.adk",
    "pydantic_ai": "pydantic_ai",
    "agent_framework": "agent_framework",
    "strands": "strands",
    "llama_index": "llama_index",
    "anthropic": "anthropic",
    "claude_code": "claude_agent_sdk",
}


def _missing(module: str) -> bool:
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:
        return True


collect_ignore = [f"test_{name}.py" for name, module in MODULES.items() if _missing(module)]
if "CODEX" not in os.environ:
    collect_ignore.append("test_codex.py")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {"folder": tmp_path, "embedder": HashEmbedder(), "reranker": "none"}


@pytest.fixture
async def memory(settings: dict[str, Any]) -> AsyncIterator[SafeMemory]:
    async with justmem.open_async("ana", **settings) as opened:
        yield SafeMemory(opened)


@pytest.fixture
async def broken(settings: dict[str, Any]) -> SafeMemory:
    """Closed, so that every use of it fails."""
    async with justmem.open_async("broken", **settings) as opened:
        pass
    return SafeMemory(opened)


@pytest.fixture
def quiet_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For code that opens a memory without settings of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path))
    monkeypatch.setenv("JUSTMEM_EMBEDDER", "justmem.testing:HashEmbedder")
    monkeypatch.setenv("JUSTMEM_RERANKER", "none")
