"""The interfaces of language models, embedders and rerankers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Call, Stage
from justmem.errors import BudgetExceeded
from justmem.ports.vectors import Vectors
from justmem.runtime import tokens

_ENVELOPE = 24  # tokens that a chat format adds around two messages, at most


@dataclass(frozen=True, slots=True)
class Prompt:
    """A static instruction, the data it is about, and the JSON shape of the reply."""

    stage: Stage
    system: str
    user: str
    schema: Mapping[str, Any]
    max_tokens: int
    limit: int | None = None  # tokens that all attempts together may take
    mark: str = ""  # the number in the tags of `user`, another one in each prompt

    @property
    def tokens(self) -> int:
        """An upper estimate of what it costs: some providers bill the schema as input."""
        texts = (self.system, self.user, json.dumps(self.schema))
        return _ENVELOPE + sum(map(tokens.count, texts))

    def within(self, limit: int | None, *, least: int) -> Prompt:
        """The prompt with its reply shortened so that the call cannot pass `limit`.
        BudgetExceeded if fewer than `least` tokens would be left for the reply."""
        if limit is None:
            return self
        room = limit - self.tokens
        if room < min(least, self.max_tokens):
            raise BudgetExceeded(
                f"The {self.stage} call was not made: it needs about {self.tokens + least} tokens "
                f"and {max(limit, 0)} are left of the limit. Raise the limit in Budget, or give "
                "it less to read."
            )
        return replace(self, max_tokens=min(self.max_tokens, room), limit=limit)

    @property
    def unmarked(self) -> str:
        """`user` without the mark: the same each time."""
        return self.user.replace(f"-{self.mark}>", ">") if self.mark else self.user


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    call: Call
    truncated: bool = False  # stopped by max_tokens


class LanguageModel(Protocol):
    name: str
    context: int  # tokens that prompt and reply may take together

    async def complete(self, prompt: Prompt) -> Completion:
        """Retries temporary failures. A ModelError holds the call that was paid."""
        ...


@dataclass(frozen=True, slots=True)
class Embedded:
    vectors: Vectors  # one row per text, of unit length
    tokens: int


class Embedder(Protocol):
    name: str
    dim: int

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded: ...


@dataclass(frozen=True, slots=True)
class Reranked:
    scores: NDArray[np.float32]  # one per text: chances between 0 and 1, or the logits of them
    tokens: int


class Reranker(Protocol):
    name: str

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked: ...


class Closes(Protocol):
    """A model with connections to close."""

    async def close(self) -> None: ...
