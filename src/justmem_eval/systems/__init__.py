"""What every system under test does: build once, then retrieve. JustMem answers itself. For the
others a plain reader answers.

justmem          JustMem
ablations        the ablations of the paper
plain            references: no memory, the whole history, the most similar turns
peer             another system, in an environment of its own
alignment        text of a peer -> the turns it most likely comes from
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from justmem_eval.benchmarks import History, Question
from justmem_eval.records import Built, Predicted, Retrieved

Retrieve = Callable[[Question], Awaitable[Retrieved]]
Answer = Callable[[Question, Retrieved], Awaitable[Predicted]]


class System(Protocol):
    async def build(self, history: History) -> Built: ...

    def opened(self, history: History) -> AbstractAsyncContextManager[Retrieve]:
        """The built memory of a history, to be asked."""
