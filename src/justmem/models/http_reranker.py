"""Rerankers behind HTTP, in the two common formats.

cohere      {model, query, documents, top_n} -> {results: [{index, relevance_score}]}
            (Cohere, Jina, vLLM, Infinity, llama.cpp, DashScope's compatible API, ...)
tei         {query, texts} -> [{index, score}]   (text-embeddings-inference)

A server that asks for the field `texts` is a TEI server.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Unpack
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from justmem.errors import ModelNonsense
from justmem.models.http_client import Declined, HttpClient, HttpOptions, used_tokens
from justmem.ports import Reranked
from justmem.runtime import tokens
from justmem.runtime.addresses import checked_url

_SET_A_KEY = "Put its key into the environment variable JUSTMEM_RERANK_KEY."
_TEI_BATCH = 32  # text-embeddings-inference takes so many unless it was started otherwise


class HttpReranker:
    """A reranking model on a server. `url` may be the base or the full path of the service."""

    def __init__(
        self,
        name: str,
        *,
        url: str,
        api_key: str | None = None,
        batch: int = 100,
        **options: Unpack[HttpOptions],
    ) -> None:
        self.name = name
        url = checked_url(url)
        if not urlsplit(url).path.endswith(("/rerank", "/reranks")):
            url += "/rerank"
        self._style: Literal["cohere", "tei"] = "cohere"
        self._client = HttpClient(name, url, api_key, set_a_key=_SET_A_KEY, **options)
        self._batch = batch

    def __repr__(self) -> str:
        return f"HttpReranker({self.name!r}, url={self._client.shown_url!r})"

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked:
        scores, used = [np.zeros(0, np.float32)], 0
        at = 0
        while at < len(texts):
            size = min(self._batch, _TEI_BATCH) if self._style == "tei" else self._batch
            # Some servers refuse an empty document.
            batch = [text if text.strip() else "." for text in texts[at : at + size]]
            reply = await self._client.retried(partial(self._attempt, query, batch))
            if reply is None:
                continue  # again, in the other format
            scores.append(self._scores(reply, len(batch)))
            used += used_tokens(reply) or (
                len(batch) * tokens.count(query) + sum(map(tokens.count, batch))
            )
            at += size
        return Reranked(scores=np.concatenate(scores), tokens=used)

    async def close(self) -> None:
        await self._client.close()

    async def _attempt(self, query: str, texts: list[str]) -> Any:
        """The reply; None if the server turned out to have another format."""
        try:
            return await self._client.post(self._body(query, texts)) or {}
        except Declined as declined:
            wants_texts = declined.status in (400, 422) and declined.names("texts")
            if self._style != "cohere" or not wants_texts:
                raise declined.failure from None
            self._style = "tei"
            return None

    def _body(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self._style == "tei":
            return {"query": query, "texts": texts, "truncate": True}
        return {"model": self.name, "query": query, "documents": texts, "top_n": len(texts)}

    def _scores(self, reply: Any, expected: int) -> NDArray[np.float32]:
        try:
            rows = reply["results"] if isinstance(reply, dict) else reply
            found = {
                row["index"]: float(row.get("relevance_score", row.get("score"))) for row in rows
            }
            if len(rows) != expected or set(found) != set(range(expected)):
                raise self._nonsense(
                    f"scores for the places {sorted(found)}, but there are {expected} texts"
                )
            scores = np.array([found[place] for place in range(expected)], np.float32)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._nonsense("a reply without scores") from None
        if not np.all(np.isfinite(scores)):
            raise self._nonsense("scores that are not numbers")
        return scores

    def _nonsense(self, what: str) -> ModelNonsense:
        return ModelNonsense(f"{self._client} sent {what}. Check that the URL is a reranker's.")
