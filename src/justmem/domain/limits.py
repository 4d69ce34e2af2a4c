"""Limits on tokens and on time, and receipts of what was spent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field, computed_field

from justmem.domain.cards import Card, Kind, Value

Stage = Literal["extract", "plan", "answer", "chat"]


class Budget(Value):
    """All limits. A call that would exceed one is not made. None means no limit."""

    cards: int = Field(10, ge=1, description="cards that selection chooses")
    dense: int = Field(40, ge=0, description="candidates of a view by vectors")
    lexical: int = Field(20, ge=0, description="candidates of a view by words")
    rerank: int = Field(14, ge=1, description="candidates that the reranker reads")
    source_tokens: int = Field(1500, ge=0, description="tokens of the turns that REPLAY recovers")
    ask_tokens: int | None = Field(None, ge=1, description="model tokens of one question")
    session_tokens: int | None = Field(
        100_000, ge=1, description="model tokens of remembering one session"
    )
    day_tokens: int | None = Field(None, ge=1, description="model tokens of one day in one space")


class Retention(Value):
    """How many days sessions, cards and words are kept, counted from the time of the session. None
    means always. A card expires with its session, or earlier if its kind has fewer days.
    `source_days` is for the words: the cards stay. With 0, the words are removed as soon as the
    cards are made."""

    days: int | None = Field(None, ge=1, description="days that sessions and their cards are kept")
    kinds: Mapping[Kind, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="days for cards of a kind, such as `{ event = 90 }`"
    )
    source_days: int | None = Field(
        None, ge=0, description="days that the original words are kept; 0: until cards are made"
    )

    def session_expired(self, at: datetime, now: datetime) -> bool:
        return _older(at, now, self.days)

    def card_expired(self, card: Card, now: datetime) -> bool:
        """With its session, or by its kind."""
        return any(_older(card.said_at, now, d) for d in (self.days, self.kinds.get(card.kind)))

    def words_expired(self, at: datetime, now: datetime) -> bool:
        return self.source_days == 0 or _older(at, now, self.source_days)

    @property
    def limited(self) -> bool:
        return self.days is not None or self.source_days is not None or bool(self.kinds)


def _older(at: datetime, now: datetime, days: int | None) -> bool:
    if days is None:
        return False
    # Times are local times: a time zone is ignored.
    return now.replace(tzinfo=None) - at.replace(tzinfo=None) > timedelta(days=days)


class Call(Value):
    """One call of a language model, including all its attempts."""

    stage: Stage
    model: str
    tokens_in: int
    tokens_out: int
    undelivered: int = 0  # longest possible size of replies that never came: limits count it
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
    """The work of an embedder or a reranker. It is not part of the language model's tokens."""

    model: str
    items: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Receipt(Value):
    """What an operation cost. For comparison, `history_tokens` is the size of the whole history:
    what a prompt with all of it would have cost."""

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
