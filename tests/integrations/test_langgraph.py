"""LangGraph: the store tests of langgraph's own SQLite store, run against ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import justmem
from justmem.integrations.langgraph import JustMemStore
from justmem.integrations.safe import SafeMemory

# What stands in for langgraph's store in its own tests.
STAND_IN = """
import tempfile
from contextlib import contextmanager
import justmem
from justmem.integrations.langgraph import JustMemStore
from justmem.integrations.safe import SafeMemory
from justmem.testing import HashEmbedder

class SqliteStore(JustMemStore):
    MIGRATIONS = ()
    def setup(self): pass
    @classmethod
    @contextmanager
    def from_conn_string(cls, _, **__):
        settings = {"embedder": HashEmbedder(), "reranker": "none"}
        with tempfile.TemporaryDirectory() as folder:
            with justmem.open("store", folder=folder, **settings) as memory:
                yield cls(SafeMemory(memory))
"""
# These look inside of SQLite, or score with an embedder of their own.
NOT_PORTABLE = (
    "vector or embed_with_path or scores or migrations or escape_glob or match_pattern "
    "or indexable or non_ascii or sql_injection_vulnerability"
)


def test_the_portable_tests_of_langgraphs_sqlite_store(tmp_path: Path) -> None:
    package = "langgraph-checkpoint-sqlite"
    wanted = f"{package}=={version(package)}"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    download.append("--no-build-isolation")
    subprocess.run([*download, "--no-binary", ":all:", wanted], cwd=tmp_path, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (tests,) = tmp_path.glob("*/tests/test_store.py")
    text = tests.read_text("utf-8").replace(
        "from langgraph.store.sqlite import SqliteStore", "from stand_in import SqliteStore"
    )
    assert "from stand_in import" in text
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "stand_in.py").write_text(STAND_IN, "utf-8")
    (folder / "test_store.py").write_text(text, "utf-8")
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-k", f"not ({NOT_PORTABLE})"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 70  # type: ignore[index]


def test_a_query_ranks_by_recall_and_an_item_expires(settings: dict[str, Any]) -> None:
    with justmem.open("ana", **settings) as memory:
        store = JustMemStore(SafeMemory(memory))
        store.put(("users", "ana"), "food", {"text": "I am allergic to walnuts."})
        store.put(("users", "ana"), "drink", {"text": "I like tea."})
        first = store.search(("users",), query="What am I allergic to?")[0]
        assert (first.key, first.value) == ("food", {"text": "I am allergic to walnuts."})
        store.put(("users", "ana"), "gone", {"a": 1}, ttl=0.001)
        time.sleep(0.06)
        assert store.get(("users", "ana"), "gone") is None
        # The same memory is recalled elsewhere, in the words that were given.
        assert "I am allergic to walnuts." in memory.recall("allergic to walnuts").prompt()


def test_invalid_namespaces_are_refused(settings: dict[str, Any]) -> None:
    with justmem.open("ana", **settings) as memory:
        store = JustMemStore(SafeMemory(memory))
        with pytest.raises(ValueError, match="Namespace"):
            store.put((), "key", {"a": 1})
