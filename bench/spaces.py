"""Many spaces in turn in one process: memory and open files must stay flat.

    python bench/spaces.py --spaces 10000

appends a turn to each space, has its card made in the background and recalls it, with at most
100 spaces open. Prints the resident memory and the open files after every tenth of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from justmem import Spaces
from justmem.testing import HashEmbedder


async def run(count: int, folder: Path) -> None:
    settings = {"embedder": HashEmbedder(64), "reranker": None, "model": None}
    async with Spaces(folder=folder, most_open=100, **settings) as spaces:
        print("   spaces   resident MB   open files   open spaces")
        for number in range(1, count + 1):
            space = f"user{number}"
            turn = {"speaker": "Mira", "text": f"I keep {number} hens in Porto."}
            await spaces.append(space, [turn], id="chat", at="2024-05-01")
            async with spaces.use(space) as memory:
                assert (await memory.recall("How many hens does Mira keep?")).cards
            if number % max(1, count // 10) == 0:
                await spaces.drain()
                files = len(os.listdir("/proc/self/fd"))
                print(f"{number:9,} {_resident():13.0f} {files:12} {spaces.open:13}", flush=True)


def _resident() -> float:
    """In megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--spaces", type=int, default=10_000)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(options.parse_args().spaces, Path(folder)))


if __name__ == "__main__":
    main()
