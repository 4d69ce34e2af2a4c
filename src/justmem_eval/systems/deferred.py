"""Passage vectors made when they are first asked for, not before.

Embedding both sides of every turn is most of the work of building a LongMemEval history, and
most questions look at a few turns of it. What is found is the same, to the bit: a search among
all of them makes them all, a look at some turns makes those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from justmem.domain import Session, SessionRecord
from justmem.embed import OPENING, opening, passages
from justmem.errors import StoreError
from justmem.language.languages import LANGUAGES
from justmem.ports import (
    INDEXES,
    Digested,
    Embedded,
    Extraction,
    Extractor,
    Found,
    Hits,
    Index,
    Place,
    Reach,
    Store,
    Vectors,
    View,
)
from justmem_eval.cache import CachedEmbedder


class Deferred:
    """Embedder, extractor and store of one memory that is built one session at a time."""

    def __init__(
        self, store: Store, embedder: CachedEmbedder, extractor: Extractor, marker: Path
    ) -> None:
        self.name = embedder.name
        self.dim = embedder.dim
        self._store = store
        self._embedder = embedder
        self._extractor = extractor
        self._marker = marker  # there while passage vectors are still missing
        self._turns: Sequence[str] = ()
        self._cards: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)  # all that is not said otherwise below

    async def log(self, entries: Sequence[tuple[int, str, str]]) -> None:
        """An evaluation is nobody's memory: nothing is logged."""

    # ------------------------------------------------------------ building

    async def keep(self, session: Session) -> SessionRecord:
        self._turns = [turn.text for turn in session.turns]
        return await self._store.keep(session)

    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Extraction:
        found = await self._extractor.extract(session, limit=limit, after=after)
        self._cards = {LANGUAGES.search_text(card.dated) for card in found.cards}
        return found

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        if query:
            return await self._embedder.embed(texts, query=True)
        ready = self._embedder.known(texts)
        now = [text for text in texts if text in ready or not self._is_passage(text)]
        if len(now) == len(texts):
            return await self._embedder.embed(texts)
        self._marker.touch()
        made = await self._embedder.embed(now)
        rows = iter(made.vectors)
        later = np.zeros(self.dim, np.float32)
        kept = set(now)
        vectors: Vectors = np.stack([next(rows) if text in kept else later for text in texts])
        return Embedded(vectors=vectors, tokens=made.tokens)

    def _is_passage(self, text: str) -> bool:
        return text not in self._cards and any(text in turn for turn in self._turns)

    async def settle(self, session: Session, digested: Digested) -> None:
        if len(digested.cards) and not np.linalg.norm(digested.card_vectors, axis=1).all():
            raise StoreError("A card was taken for a passage and has no vector: a bug here.")
        await self._store.settle(session, digested)

    # ------------------------------------------------------------ asking

    async def search(
        self, views: Sequence[View], index: Index, *, dense: int, lexical: int, until: date | None
    ) -> Sequence[Hits]:
        if index == "passages" and dense and self._marker.exists():
            await self._complete()
        return await self._store.search(views, index, dense=dense, lexical=lexical, until=until)

    async def find(self, views: Sequence[View], reach: Reach) -> Found:
        found = await self._store.find(views, reach)
        if not self._marker.exists():
            return found
        return replace(found, turns=await self._vectors_of(set(found.turns)))

    async def _vectors_of(self, wanted: set[Place]) -> Mapping[Place, Vectors]:
        texts: dict[Place, list[str]] = {}
        for id, session in (await self._store.sessions_at([id for id, _ in wanted])).items():
            for passage in passages(session):
                if (id, passage.turn) in wanted:
                    texts.setdefault((id, passage.turn), []).append(opening(session, passage))
        made = await self._embedder.embed([text for each in texts.values() for text in each])
        ends = np.cumsum([len(each) for each in texts.values()])
        return dict(zip(texts, np.split(made.vectors, ends[:-1]), strict=True)) if texts else {}

    async def _complete(self) -> None:
        replaced: dict[Index, tuple[list[int], Vectors]] = {}
        for index in INDEXES:
            keys: list[int] = []
            parts: list[Vectors] = []
            while batch := await self._store.texts(index, after=keys[-1] if keys else 0):
                passage = index == "passages"
                searched = LANGUAGES.search_text
                texts = [text[:OPENING] if passage else searched(text) for _, text in batch]
                parts.append((await self._embedder.embed(texts)).vectors)
                keys += [key for key, _ in batch]
            if keys:
                replaced[index] = keys, np.concatenate(parts)
        await self._store.replace_vectors(self.name, self.dim, replaced)
        self._marker.unlink(missing_ok=True)
