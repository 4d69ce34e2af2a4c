"""Embedding models behind any OpenAI-compatible URL."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from justmem import tokens
from justmem.errors import InvalidSetting, ModelNonsense
from justmem.models.addresses import OPENAI_URL, checked_url, shown_url
from justmem.models.chat_reply import plausible
from justmem.models.http_client import Declined, HttpClient
from justmem.models.retry import Retry, Server, Sleep
from justmem.ports import Embedded, Vectors

_SET_A_KEY = (
    "Put its key into an environment variable, and name that variable with api_key_env or "
    "JUSTMEM_API_KEY_ENV; in Python, pass api_key."
)


def openai_client(
    model: str, path: str, base_url: str | None, api_key: str | None, timeout: float
) -> HttpClient:
    """A client for one path of an OpenAI-compatible server. `base_url` may include the path."""
    url = checked_url(base_url or OPENAI_URL)
    for known in ("/chat/completions", "/embeddings"):
        url = url.removesuffix(known)
    if not api_key and url == OPENAI_URL:
        raise InvalidSetting(
            f"{model!r} at {url} needs an API key. Set one, or give the base URL of a server "
            "that needs none."
        )
    return HttpClient(Server(model, shown_url(url), api_key, _SET_A_KEY), url + path, timeout)


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
        longest: int = 8_000,
        timeout: float = 60.0,
        attempts: int = 4,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if dim < 1 or batch < 1:
            raise InvalidSetting(f"{name!r}: dim and batch must be at least 1.")
        self.name = name
        self.dim = dim
        self._batch = batch
        self._longest = longest  # tokens of one text that the model reads
        self._client = openai_client(name, "/embeddings", base_url, api_key, timeout)
        self._retry = Retry(attempts=attempts, sleep=sleep)
        self._encoding = "base64"  # a quarter of the bytes of a list of numbers
        self._ask_dim = False

    def __repr__(self) -> str:
        return (
            f"OpenAIEmbedder({self.name!r}, dim={self.dim}, base_url={self._client.server.url!r})"
        )

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        done = used = 0
        for batch in self._batches(texts):
            found, spent = await self._retry.run(
                lambda batch=batch: self._attempt(batch),  # type: ignore[misc]
                self._client.server,
            )
            vectors[done : done + len(batch)] = found
            done += len(batch)
            used += spent
        return Embedded(vectors=vectors, tokens=used)

    async def close(self) -> None:
        await self._client.close()

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """At most `batch` texts and some 200,000 characters: servers limit both."""
        batch: list[str] = []
        size = 0
        for text in texts:
            text = self._shortened(text)
            if batch and (len(batch) == self._batch or size + len(text) > 200_000):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        if batch:
            yield batch

    def _shortened(self, text: str) -> str:
        """What the model would not read is not sent: some servers refuse longer texts, and
        empty ones."""
        while len(text) > self._longest and (length := tokens.count(text)) > self._longest:
            text = text[: int(len(text) * self._longest / length * 0.98)]
        return text if text.strip() else "."

    async def _attempt(self, batch: list[str]) -> tuple[Vectors, int]:
        while True:
            body: dict[str, Any] = {"model": self.name, "input": batch}
            body["encoding_format"] = self._encoding
            if self._ask_dim:
                body["dimensions"] = self.dim
            try:
                reply = await self._client.post(body)
            except Declined as declined:
                if self._encoding == "base64" and declined.names("encoding_format", "base64"):
                    self._encoding = "float"
                    continue
                raise declined.failure from None
            vectors = self._vectors(reply, len(batch))
            if vectors.shape[1] > self.dim and not self._ask_dim:
                self._ask_dim = True  # some models can shorten their vectors when asked
                continue
            return self._unit(vectors), self._spent(reply, batch)

    def _vectors(self, reply: Any, expected: int) -> Vectors:
        try:
            rows = sorted(reply["data"], key=lambda row: row.get("index", 0))
            vectors = np.stack([_numbers(row["embedding"]) for row in rows])
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, binascii.Error):
            raise self._nonsense("a reply that holds no vectors") from None
        if vectors.ndim != 2:
            raise self._nonsense("vectors that are no lists of numbers")
        if len(vectors) != expected:
            raise self._nonsense(f"{len(vectors)} vectors for {expected} texts")
        return vectors

    def _unit(self, vectors: Vectors) -> Vectors:
        if vectors.shape[1] != self.dim:
            raise ModelNonsense(
                f"{self._client.server} makes vectors of {vectors.shape[1]} numbers, but "
                f"{self.dim} are expected. Set its dimension to {vectors.shape[1]}."
            )
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(length)) or np.any(length == 0):
            raise self._nonsense("vectors without a direction (zeros, or not numbers)")
        unit: Vectors = (vectors / length).astype(np.float32, copy=False)
        return unit

    def _spent(self, reply: Any, batch: list[str]) -> int:
        usage = reply.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        most = 1000 * len(batch) + 8 * sum(len(text) for text in batch)
        reported = usage.get("prompt_tokens") or usage.get("total_tokens")
        return plausible(reported, most=most) or sum(map(tokens.count, batch))

    def _nonsense(self, what: str) -> ModelNonsense:
        return ModelNonsense(
            f"{self._client.server} sent {what}. Check that it is an embedding model."
        )


def _numbers(embedding: Any) -> Vectors:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
    return np.asarray(embedding, np.float32)
