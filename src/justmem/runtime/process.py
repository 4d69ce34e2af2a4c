"""The running program: which packages it has, and whether it was forked."""

from __future__ import annotations

import importlib
import os
from typing import Literal

from justmem.errors import InvalidSetting, StoreError

Extra = Literal["server", "mcp", "postgres", "encryption", "metrics"]

# What is not there without the extra, and the modules to import.
_EXTRAS: dict[Extra, tuple[str, tuple[str, ...]]] = {
    "server": ("The server", ("fastapi", "uvicorn")),
    "mcp": ("The MCP server", ("mcp", "fastapi")),
    "postgres": ("A PostgreSQL store", ("psycopg", "psycopg_pool")),
    "encryption": ("An encrypted space", ("sqlcipher3.dbapi2",)),
    "metrics": ("The metrics page", ("prometheus_client",)),
}


def need(extra: Extra) -> None:
    """Raises InvalidSetting, naming the extra, if one of its packages cannot be imported."""
    what, modules = _EXTRAS[extra]
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InvalidSetting(
                f"{what} needs {module.partition('.')[0]}, which is not installed ({error}): "
                f"pip install 'justmem[{extra}]'."
            ) from None


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
