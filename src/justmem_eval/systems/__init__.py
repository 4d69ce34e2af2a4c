"""What every system under test does: build once, retrieve once, answer as often as asked."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from justmem_eval.benchmarks import History, Question
from justmem_eval.records import Built, Predicted, Retrieved


class Opened(Protocol):
    """The built memory of a history."""

    async def retrieve(self, question: Question) -> Retrieved: ...

    async def answer(self, question: Question, retrieved: Retrieved) -> Predicted: ...


class System(Protocol):
    async def build(self, history: History) -> Built: ...

    def opened(self, history: History, sample: int = 0) -> AbstractAsyncContextManager[Opened]: ...
