"""What every system under test does: build once, retrieve once. JustMem answers itself. For the
others a plain reader answers (see plain.py)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from justmem_eval.benchmarks import History, Question
from justmem_eval.records import Built, Retrieved


class Opened(Protocol):
    """The built memory of a history."""

    async def retrieve(self, question: Question) -> Retrieved: ...


class System(Protocol):
    async def build(self, history: History) -> Built: ...

    def opened(self, history: History) -> AbstractAsyncContextManager[Opened]: ...
