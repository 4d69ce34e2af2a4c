"""What every system under test does: build once, retrieve once, answer as often as asked."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from justmem.domain import Call
from justmem.errors import JustMemError, ModelError
from justmem_eval.benchmarks import History, Question
from justmem_eval.lines import Item
from justmem_eval.rows import Row


class PeerFailed(ModelError):
    """The peer crashed, hung, or said that it could not do it. `seen`: the tokens it took."""

    seen: int = 0


class PeerCannotStart(JustMemError):
    """Ends the run: a peer that cannot start fails on every question in the same way."""


class Spent(Item):
    """An item of a stage file with the calls it took. `seen`: tokens that the meter counted,
    where a system's own calls are out of sight."""

    calls: tuple[Call, ...] = ()
    seen: int | None = None

    @property
    def tokens(self) -> int:
        if self.seen is not None:
            return self.seen
        return sum(call.tokens_in + call.tokens_out for call in self.calls)


class Built(Spent):
    """A line of memory.jsonl: `id` is the history's."""

    sessions: int = 0
    cards: int = 0
    card_tokens: int = 0
    failed: tuple[str, ...] = ()  # sessions without cards, and why


class Retrieved(Spent):
    """A line of evidence.jsonl. `context` is what a plain reader is shown; `payload` is what the
    system itself needs to answer from it."""

    row: Row
    context: str = ""
    payload: Any = None


class Predicted(Spent):
    """A line of predictions.N.jsonl."""

    answer: str = ""
    sufficient: bool = True
    cited: tuple[tuple[str, int], ...] = ()  # session and turn


class Retriever(Protocol):
    async def retrieve(self, question: Question) -> Retrieved: ...


class System(Protocol):
    name: str

    async def build(self, history: History) -> Built: ...

    def opened(self, history: History) -> AbstractAsyncContextManager[Retriever]:
        """The built memory of a history, ready to be asked."""
        ...

    async def answer(
        self, history: History, question: Question, retrieved: Retrieved, sample: int
    ) -> Predicted: ...

    async def close(self) -> None: ...
