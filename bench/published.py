"""`--figures FILE`: enters what a benchmark measured into the file of published figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from justmem_eval import figures
from justmem_eval.metrics import Figure


def publish(path: Path | None, name: str, found: Mapping[str, float], n: int, command: str) -> None:
    """`n`: how often each was measured."""
    if path is not None:
        entries = {key: Figure(value=value, n=n) for key, value in found.items()}
        figures.write(path, name, entries, f"python bench/{command}")
