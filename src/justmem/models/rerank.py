"""Rerankers behind HTTP, in the three common formats.

cohere      {model, query, documents, top_n} -> {results: [{index, relevance_score}]}
            (Cohere, Jina, vLLM, Infinity, llama.cpp, ...)
tei         {query, texts} -> [{index, score}]   (text-embeddings-inference)
dashscope   {model, input: {query, documents}, parameters} -> {output: {results: [...]}}
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from justmem import tokens
from justmem.errors import InvalidSetting, ModelNonsense
from justmem.models.addresses import checked_url, shown_url
from justmem.models.http_client import Declined, HttpClient
from justmem.models.retry import Retry, Server, Sleep
from justmem.ports import Reranked

Style = Literal["auto", "cohere", "tei", "dashscope"]

_SET_A_KEY = (
    "Put its key into the environment variable JUSTMEM_RERANK_KEY, or name another variable with "
    "rerank_key_env."
)
_DASHSCOPE_PATH = "/api/v1/services/rerank/text-rerank/text-rerank"


class HttpReranker:
    """A reranking model on a server. `url` may be the base or the full path of the service."""

    def __init__(
        self,
        name: str,
        *,
        url: str,
        api_key: str | None = None,
        style: Style = "auto",
        batch: int = 100,
        timeout: float = 60.0,
        attempts: int = 4,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if style not in ("auto", "cohere", "tei", "dashscope"):
            raise InvalidSetting(f"{style!r} is not a style: use auto, cohere, tei or dashscope.")
        self.name = name
        self._style, address = _address(checked_url(url), style)
        self._server = Server(name, shown_url(address), api_key, _SET_A_KEY)
        self._client = HttpClient(self._server, address, timeout)
        self._batch = batch
        self._retry = Retry(attempts=attempts, sleep=sleep)

    def __repr__(self) -> str:
        return f"HttpReranker({self.name!r}, url={self._server.url!r})"

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked:
        scores = np.zeros(len(texts), np.float32)
        done = used = 0
        for batch in self._batches(texts):
            found, spent = await self._retry.run(
                lambda batch=batch: self._attempt(query, batch),  # type: ignore[misc]
                self._server,
            )
            scores[done : done + len(batch)] = found
            done += len(batch)
            used += spent
        return Reranked(scores=scores, tokens=used)

    async def close(self) -> None:
        await self._client.close()

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        at = 0
        while at < len(texts):
            # text-embeddings-inference takes 32 unless it was started otherwise.
            size = min(self._batch, 32) if self._style == "tei" else self._batch
            # Some servers refuse an empty document.
            yield [text if text.strip() else "." for text in texts[at : at + size]]
            at += size

    # ------------------------------------------------------------ one attempt

    async def _attempt(self, query: str, texts: list[str]) -> tuple[NDArray[np.float32], int]:
        try:
            body = await self._client.post(self._body(query, texts))
        except Declined as declined:
            wants_texts = declined.status in (400, 422) and declined.names("texts")
            if self._style != "auto" or not wants_texts:
                raise declined.failure from None
            self._style = "tei"  # only this kind of server needs the field `texts`
            parts = [await self._attempt(query, part) for part in self._batches(texts)]
            return np.concatenate([part[0] for part in parts]), sum(part[1] for part in parts)
        return self._scores(body, len(texts)), self._spent(body, query, texts)

    def _body(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self._style == "tei":
            return {"query": query, "texts": texts, "truncate": True}
        if self._style == "dashscope":
            return {
                "model": self.name,
                "input": {"query": query, "documents": texts},
                "parameters": {"top_n": len(texts), "return_documents": False},
            }
        return {"model": self.name, "query": query, "documents": texts, "top_n": len(texts)}

    # ------------------------------------------------------------ reading the reply

    def _scores(self, body: Any, expected: int) -> NDArray[np.float32]:
        try:
            inner = body.get("output", body) if isinstance(body, dict) else body
            rows = inner["results"] if isinstance(inner, dict) else inner
            found = {row["index"]: float(_score(row)) for row in rows}
            if len(rows) != expected or set(found) != set(range(expected)):
                raise self._nonsense(f"places {sorted(found)} for {expected} texts")
            scores = np.array([found[place] for place in range(expected)], np.float32)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._nonsense("a reply that holds no scores") from None
        if not np.all(np.isfinite(scores)):
            raise self._nonsense("scores that are not numbers")
        return scores

    def _spent(self, body: Any, query: str, texts: list[str]) -> int:
        """Tokens as the server reports them, else counted: the query is read with each text."""
        counted = len(texts) * tokens.count(query) + sum(map(tokens.count, texts))
        if not isinstance(body, dict):
            return counted
        meta = body.get("meta")
        usage = body.get("usage") or (meta.get("tokens") if isinstance(meta, dict) else None)
        if not isinstance(usage, dict):
            return counted
        total = usage.get("total_tokens") or usage.get("input_tokens")
        return total if isinstance(total, int) and 0 < total < 100 * counted + 1000 else counted

    def _nonsense(self, what: str) -> ModelNonsense:
        return ModelNonsense(
            f"{self._server} sent {what}. Check that the URL is a reranker's and, if need be, set "
            "its style."
        )


def _address(url: str, style: Style) -> tuple[Style, str]:
    parts = urlsplit(url)
    path, host = parts.path, parts.hostname or ""
    if style == "auto" and path.endswith(("/text-rerank", "/api/v1")) and "dashscope" in host:
        style = "dashscope"
    if style == "auto" and path.endswith(_DASHSCOPE_PATH):
        style = "dashscope"
    if style == "dashscope":
        return style, url.removesuffix(path) + _DASHSCOPE_PATH
    return style, url if path.endswith(("/rerank", "/reranks")) else f"{url}/rerank"


def _score(row: dict[str, Any]) -> Any:
    return row["relevance_score"] if "relevance_score" in row else row["score"]
