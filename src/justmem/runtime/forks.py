"""A memory belongs to the process that opened it.

A forked process has copies of its objects but not its threads, and shares its connections. Using
them there would hang, or mix two conversations with a server.
"""

from __future__ import annotations

import os

from justmem.errors import StoreError


class Origin:
    """The process that opened something."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def here(self) -> bool:
        return os.getpid() == self._pid

    def check(self) -> None:
        if not self.here:
            raise StoreError(
                f"This memory was opened in another process ({self._pid}), and this one was forked "
                "from it: open the memory here too, with justmem.open."
            )
