"""What it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, computed_field

from justmem.domain.value import Value

Stage = Literal["extract", "plan", "answer", "chat"]


class Call(Value):
    """One call of a language model, all of its attempts together."""

    stage: Stage
    model: str
    tokens_in: int
    tokens_out: int
    undelivered: int = 0  # at most so many of replies that never came: limits count them
    cached: int = 0
    estimated: bool = False  # the provider gave no usage: counted here with o200k_base
    attempts: int = 1
    seconds: float = 0.0
    error: str = ""

    @property
    def counted(self) -> int:
        """What a limit counts."""
        return self.tokens_in + self.tokens_out + self.undelivered


class Usage(Value):
    """Work of an embedder or a reranker: kept apart from the language model's tokens."""

    model: str
    items: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Receipt(Value):
    """What something cost. `history_tokens` is what putting the whole history into the
    prompt would have cost instead."""

    calls: tuple[Call, ...] = ()
    embedding: tuple[Usage, ...] = ()
    reranking: tuple[Usage, ...] = ()
    seconds: Mapping[str, float] = Field(default_factory=dict)
    history_tokens: int = 0
    notes: tuple[str, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens_in(self) -> int:
        return sum(call.tokens_in for call in self.calls)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens_out(self) -> int:
        return sum(call.tokens_out for call in self.calls)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out
