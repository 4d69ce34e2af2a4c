"""Questions have priority over remembering in the local models, because a user waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import numpy as np

from justmem.domain import Session
from justmem.extract.rules import RulesExtractor
from justmem.models.onnx import OnnxEmbedder, OnnxReranker
from justmem.ports import Embedded, Embedder, Extraction, Reranked, Reranker

BATCH = 4  # texts to embed between two checks for questions
PATIENCE = 1.0  # seconds that remembering waits for questions before each step


class Yielding:
    """Counts the questions in local models. Remembering waits while there are any."""

    def __init__(self) -> None:
        self._questions = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._step = asyncio.Lock()

    @contextmanager
    def question(self) -> Iterator[None]:
        self._questions += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self._quiet.set()

    @asynccontextmanager
    async def step(self) -> AsyncIterator[None]:
        """One step of remembering. It begins without questions, or after `PATIENCE` seconds."""
        async with self._step:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._quiet.wait()
            yield


class YieldingEmbedder:
    def __init__(self, embedder: Embedder, yielding: Yielding) -> None:
        self.name, self.dim = embedder.name, embedder.dim
        self._embedder = embedder
        self._yielding = yielding

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        if query:
            with self._yielding.question():
                return await self._embedder.embed(texts, query=True)
        vectors, tokens = [np.zeros((0, self.dim), np.float32)], 0
        for start in range(0, len(texts), BATCH):
            async with self._yielding.step():
                done = await self._embedder.embed(texts[start : start + BATCH])
            vectors.append(done.vectors)
            tokens += done.tokens
        return Embedded(np.concatenate(vectors), tokens)


class YieldingReranker:
    def __init__(self, reranker: Reranker, yielding: Yielding) -> None:
        self.name = reranker.name
        self._reranker = reranker
        self._yielding = yielding

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked:
        with self._yielding.question():
            return await self._reranker.rerank(query, texts)


class YieldingExtractor:
    """The rules, which also wait for questions."""

    def __init__(self, extractor: RulesExtractor, yielding: Yielding) -> None:
        self._extractor = extractor
        self._yielding = yielding

    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Extraction:
        async with self._yielding.step():
            pass  # the lock is released: a long extraction must not block other sessions
        return await self._extractor.extract(session, limit=limit, after=after)


def yielding(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a memory. Those that use this machine's CPU wait for questions."""
    gate, made = Yielding(), dict(parts)
    if isinstance(made["embedder"], OnnxEmbedder):
        made["embedder"] = YieldingEmbedder(made["embedder"], gate)
    if isinstance(made["reranker"], OnnxReranker):
        made["reranker"] = YieldingReranker(made["reranker"], gate)
    if isinstance(made["extractor"], RulesExtractor):
        made["extractor"] = YieldingExtractor(made["extractor"], gate)
    return made
