"""Models whose processor time is measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from justmem.ports import Embedded, Embedder, Reranked, Reranker


@dataclass(slots=True)
class Meter:
    """Processor time of the whole process while at least one call runs: threads count, a busy
    machine does not, and calls side by side count once."""

    cpu: float = 0.0
    _running: int = 0
    _since: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        if not self._running:
            self._since = time.process_time()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self.cpu += time.process_time() - self._since


class MeteredEmbedder:
    def __init__(self, inner: Embedder) -> None:
        self.name = inner.name
        self.dim = inner.dim
        self.meter = Meter()
        self._inner = inner

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        with self.meter.running():
            return await self._inner.embed(texts, query=query)


class MeteredReranker:
    def __init__(self, inner: Reranker) -> None:
        self.name = inner.name
        self.meter = Meter()
        self._inner = inner

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked:
        with self.meter.running():
            return await self._inner.rerank(query, texts)
