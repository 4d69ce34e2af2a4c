"""LangGraph: the store tests of langgraph's own SQLite store, run against ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from integration_chats import run_own_suite

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
# These look inside of SQLite, score with an embedder of their own, or filter by dotted paths.
NOT_PORTABLE = (
    "vector or embed_with_path or scores or migrations or escape_glob or match_pattern "
    "or indexable or non_ascii or hyphens or sql_injection_vulnerability"
)


def test_our_store_passes_the_portable_tests_of_langgraph(tmp_path: Path) -> None:
    change = ("from langgraph.store.sqlite import", "from stand_in import")
    passed = run_own_suite(
        tmp_path,
        "langgraph-checkpoint-sqlite",
        "tests/test_store.py",
        STAND_IN,
        change,
        NOT_PORTABLE,
    )
    assert passed > 70


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
