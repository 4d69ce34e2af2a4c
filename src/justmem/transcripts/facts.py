"""Exports of mem0 and Zep. Their facts become notes, word for word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

_SCOPES = ("user_id", "agent_id", "run_id")


def read_mem0(value: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """One memory, as `get_all` returns it. Whose it is becomes a label."""
    at = value.get("updated_at") or value.get("created_at")
    key = f"mem0/{value['id']}" if value.get("id") else None
    labels = {name: value[name] for name in _SCOPES if isinstance(value.get(name), str)}
    metadata = value.get("metadata") or None
    yield {"note": value["memory"], "key": key, "at": at, "value": metadata, "labels": labels}


def read_zep(value: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """One edge of the graph. A fact that no longer holds says so."""
    ended = value.get("invalid_at") or value.get("expired_at")
    text = f"{value['fact']} (until {str(ended)[:10]})" if ended else value["fact"]
    key = f"zep/{value['uuid']}" if value.get("uuid") else None
    yield {"note": text, "key": key, "at": value.get("valid_at") or value.get("created_at")}
