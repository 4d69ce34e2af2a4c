"""Embedding models behind any OpenAI-compatible URL."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np

from justmem.errors import InvalidSetting, ModelNonsense
from justmem.models.http_client import Declined, HttpOptions, used_tokens
from justmem.models.openai import openai_client
from justmem.ports import Embedded, Vectors
from justmem.runtime import tokens

_LONGEST = 8_000  # tokens of one text that such models read


class OpenAIEmbedder:
    """An embedding model. Vectors come back with unit length."""

    def __init__(
        self,
        name: str,
        *,
        dim: int,
        base_url: str | None = None,
        api_key: str | None = None,
        batch: int = 256,
        **options: Unpack[HttpOptions],
    ) -> None:
        if dim < 1:
            raise InvalidSetting(f"{name!r}: dim must be at least 1.")
        self.name = name
        self.dim = dim
        self._batch = batch
        self._client = openai_client(name, "/embeddings", base_url, api_key, **options)
        self._encoding = "base64"  # a quarter of the bytes of a list of numbers
        self._dimensions: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.name!r}, dim={self.dim}, base_url={self._client.shown_url!r})"

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        vectors, used = [np.zeros((0, self.dim), np.float32)], 0
        for batch in self._batches(texts):
            found, spent = await self._client.retried(partial(self._attempt, batch))
            vectors.append(found)
            used += spent
        return Embedded(vectors=np.concatenate(vectors), tokens=used)

    async def close(self) -> None:
        await self._client.close()

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """At most `batch` texts and some 200,000 characters: servers limit both."""
        batch: list[str] = []
        size = 0
        for text in map(_shortened, texts):
            if batch and (len(batch) == self._batch or size + len(text) > 200_000):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        if batch:
            yield batch

    async def _attempt(self, batch: list[str]) -> tuple[Vectors, int]:
        while True:
            body = {"model": self.name, "input": batch, "encoding_format": self._encoding}
            try:
                reply = await self._client.post(body | self._dimensions)
            except Declined as declined:
                if self._encoding == "base64" and declined.names("encoding_format", "base64"):
                    self._encoding = "float"
                    continue
                raise declined.failure from None
            vectors = self._vectors(reply, len(batch))
            if vectors.shape[1] > self.dim and not self._dimensions:
                self._dimensions = {"dimensions": self.dim}  # some models shorten vectors if asked
                continue
            return self._unit(vectors), used_tokens(reply) or sum(map(tokens.count, batch))

    def _vectors(self, reply: Any, expected: int) -> Vectors:
        try:
            rows = sorted(reply["data"], key=lambda row: row.get("index", 0))
            vectors = np.stack([_numbers(row["embedding"]) for row in rows])
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, binascii.Error):
            raise self._nonsense("a reply without vectors") from None
        if vectors.ndim != 2 or len(vectors) != expected:
            raise self._nonsense(f"numbers of shape {vectors.shape} for {expected} texts")
        return vectors

    def _unit(self, vectors: Vectors) -> Vectors:
        if vectors.shape[1] != self.dim:
            raise ModelNonsense(
                f"{self._client} makes vectors of {vectors.shape[1]} numbers, but "
                f"{self.dim} are expected. Set its dimension to {vectors.shape[1]}."
            )
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(length)) or np.any(length == 0):
            raise self._nonsense("vectors that are zero, infinite or NaN")
        unit: Vectors = (vectors / length).astype(np.float32, copy=False)
        return unit

    def _nonsense(self, what: str) -> ModelNonsense:
        return ModelNonsense(f"{self._client} sent {what}. Check that it is an embedding model.")


def _shortened(text: str) -> str:
    """What the model would not read is not sent: some servers refuse longer texts, and empty
    ones."""
    while len(text) > _LONGEST and (length := tokens.count(text)) > _LONGEST:
        text = text[: int(len(text) * _LONGEST / length * 0.98)]
    return text if text.strip() else "."


def _numbers(embedding: Any) -> Vectors:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
    return np.asarray(embedding, np.float32)
