"""A process to talk with, a line at a time. One that hangs is ended, so that its test fails."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_LONGEST = 120.0  # seconds


class Partner:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Its next line; empty when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")


@contextmanager
def talking(command: Sequence[str], **options: Any) -> Iterator[Partner]:
    """It ends with its input, and is waited for."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **options)
    patience = threading.Timer(_LONGEST, process.kill)
    patience.daemon = True
    patience.start()
    try:
        yield Partner(process)
    finally:
        process.communicate()
        patience.cancel()
