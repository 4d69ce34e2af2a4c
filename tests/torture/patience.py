"""A limit for what must not hang."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 120  # far more than anything here takes on a busy machine: longer is a hang


@contextmanager
def patience(what: str) -> Iterator[None]:
    """AssertionError if it does not end. Only the main thread can be called back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hangs(*_: Any) -> None:
        raise AssertionError(f"it hangs: {what}")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
