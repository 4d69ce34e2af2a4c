"""Packages that only some uses of JustMem need: the optional dependencies of pyproject.toml."""

from __future__ import annotations

import importlib
from typing import Literal

from justmem.errors import InvalidSetting

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
