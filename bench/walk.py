"""Counts the functions and files of justmem that one `remember` and one `ask` enter.

    python bench/walk.py [--files]

Rules alone and `justmem.testing.HashEmbedder`: no model, no weights. Both calls are made once
before, so that imports and first openings do not count.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from types import FrameType
from typing import Any

import justmem
from justmem.testing import HashEmbedder

PACKAGE = Path(justmem.__file__).parent


class Walk:
    """Functions entered, in whatever thread, while `of` waits for some work."""

    def __init__(self) -> None:
        self._walking = False
        self._seen: set[tuple[str, str]] = set()
        # Before any other thread starts: a thread is profiled from its start or not at all.
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not self._walking or event != "call" or code.co_name.startswith("<"):
            return  # a comprehension or a lambda belongs to the function around it
        if code.co_filename.startswith(str(PACKAGE)):
            self._seen.add((code.co_filename, code.co_qualname))

    async def of(self, work: Awaitable[Any]) -> Counter[str]:
        """How many functions of each file the work enters."""
        self._seen, self._walking = set(), True
        await work
        self._walking = False
        return Counter(str(Path(file).relative_to(PACKAGE)) for file, _ in self._seen)


async def main() -> None:
    walk = Walk()
    said = {"role": "user", "content": "I moved to Ghent last Saturday. My sister Ana helped me."}
    with tempfile.TemporaryDirectory() as folder:
        async with justmem.open_async(
            "ana", folder=folder, embedder=HashEmbedder(), reranker="none"
        ) as memory:
            await memory.remember([said], at="2024-05-20")
            await memory.ask("Where did I move?", at="2024-06-01")
            told = {**said, "content": "I adopted a cat on Friday. Her name is Mila."}
            walks = {
                "remember": await walk.of(memory.remember([told], at="2024-05-27")),
                "ask": await walk.of(memory.ask("Who is Mila?", at="2024-06-01")),
            }
    for name, files in walks.items():
        print(f"{name}: {files.total()} functions in {len(files)} files")
        if "--files" in sys.argv:
            for file, count in sorted(files.items()):
                print(f"  {count:3} {file}")


asyncio.run(main())
