"""A memory belongs to the process that opened it.

A forked process has a copy of its objects, but none of its threads, and it shares its connections:
to use them there would hang, or mix up two conversations with a server.
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
