"""A limit on the time that rules may take over one session or one question.

The limit is on processor time of the thread, so that a busy machine causes no failure. Code that
loops over turns, sentences or cards calls `check` between its steps, and gives each step a text of
bounded length (as `words.sentences` does).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from justmem.errors import TimeLimitExceeded

SESSION_SECONDS = 60.0  # to make the cards of one session
QUESTION_SECONDS = 10.0  # to plan one question, and to answer it


@dataclass(slots=True)
class _Limit:
    ends: float  # in processor time of the thread
    seconds: float
    what: str
    look: float = 0.0  # time of the next check: before it, the limit cannot have been reached


_LIMIT: ContextVar[_Limit | None] = ContextVar("limit", default=None)


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """`check` raises from now on, in this thread, once `seconds` of processor time have passed.
    `what` begins the message: "Making the cards". Inside another limit, that one holds."""
    if _LIMIT.get() is not None:
        yield
        return
    token = _LIMIT.set(_Limit(time.thread_time() + seconds, seconds, what))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def check() -> None:
    """Cheap enough to call for every sentence."""
    limit = _LIMIT.get()
    if limit is None or time.perf_counter() < limit.look:
        return
    left = limit.ends - time.thread_time()
    limit.look = time.perf_counter() + left
    if left < 0:
        raise TimeLimitExceeded(
            f"{limit.what} took longer than {limit.seconds:g} seconds of processor time and was "
            "stopped. Shorten the text, split it, or let a language model read it."
        )
