"""PostgreSQL's errors as ours, and which of them are worth another try."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict

from justmem.errors import (
    InvalidSession,
    InvalidSetting,
    JustMemError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
)

OLDEST_SERVER = 14

# Try again as it was: nothing of the transaction happened.
_UNDONE = {
    "40001",  # serialization failure
    "40P01",  # deadlock
}
# The server went away, or is not there yet.
_AWAY = ("08", "57P")


def is_lost(error: psycopg.Error) -> bool:
    """The connection is gone: whether a commit under way happened is not known."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(_AWAY)


def is_undone(error: psycopg.Error) -> bool:
    return error.sqlstate in _UNDONE


@contextmanager
def translated(url: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise named(error, url) from error
    except UnicodeEncodeError:
        raise InvalidSession(
            "The session holds text that is not valid Unicode (a lone surrogate): "
            "decode it with errors='replace' and remember it again."
        ) from None


def shown(url: str) -> str:
    """The address without its password."""
    parts = conninfo_to_dict(url)
    host = parts.get("host") or parts.get("hostaddr") or "localhost"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{host}{port}/{parts.get('dbname') or parts.get('user') or ''}"


def checked(url: str) -> str:
    """The address, if it is one that PostgreSQL understands."""
    try:
        conninfo_to_dict(url)
    except psycopg.Error as error:
        raise InvalidSetting(
            "The address of the store is not one that PostgreSQL understands "
            f"({_said(error)}): write postgresql://user@host:5432/database."
        ) from None
    return url


def named(error: psycopg.Error, url: str) -> JustMemError:
    where = f"PostgreSQL at {shown(url)}"
    said = _said(error)
    state = error.sqlstate or _guessed(said)
    match state:
        case "28P01" | "28000":
            return StoreError(
                f"{where} does not let this role in ({said}): check user and password."
            )
        case "3D000":
            return StoreError(f"{where} has no such database ({said}): create it with createdb.")
        case "42501":
            return StoreError(
                f"{where} does not permit this ({said}): grant the role rights on the schema "
                "justmem and its tables, or use the role that owns them."
            )
        case "25006":
            return StoreError(
                f"{where} is read-only ({said}): give the address of the primary server, and a "
                "role that may write."
            )
        case "3F000" | "42P01" | "42703":
            return StoreDamaged(
                f"{where} lacks a table or column of JustMem ({said}): restore the schema "
                "justmem from a backup."
            )
        case "53100":
            return StoreFull(f"{where} has no room left ({said}): free space on its disk.")
        case "53300" | "53400":
            return StoreBusy(
                f"{where} takes no more connections ({said}): raise max_connections, or put a "
                "pooler in front of it."
            )
        case "57014":
            return StoreBusy(f"{where} took too long ({said}): try again when it has less to do.")
        case "55P03" | "40001" | "40P01":
            return StoreBusy(f"{where} is busy with the same data ({said}): try again.")
        case "54000":
            return InvalidSession(f"{where} cannot hold a name as long as this ({said}).")
        case "XX001" | "XX002":
            return StoreDamaged(f"{where} has damaged files ({said}): restore them from a backup.")
    if is_lost(error):
        return StoreError(
            f"{where} cannot be reached ({said}): check the address, and that the server runs. "
            "What was acknowledged is kept."
        )
    return StoreError(f"{where} cannot do this ({said}): see its log.")


def _guessed(said: str) -> str:
    """The code of an error while connecting: libpq passes on the server's words alone."""
    if re.search(r'database ".*" does not exist', said):
        return "3D000"
    if re.search(r'role ".*" does not exist|authentication failed|pg_hba\.conf|no password', said):
        return "28000"
    return "53300" if "too many" in said else ""


def _said(error: psycopg.Error) -> str:
    primary = error.diag.message_primary if error.sqlstate else None
    return " ".join((primary or str(error) or type(error).__name__).split())[:300].rstrip(".")
