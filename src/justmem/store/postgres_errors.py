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
# Error, problem and fix by SQLSTATE.
_REFUSED = (StoreError, "does not let this role in", "check user and password")
_INCOMPLETE = (
    StoreDamaged,
    "lacks a table or column of JustMem",
    "restore the schema justmem from a backup",
)
_CROWDED = (
    StoreBusy,
    "takes no more connections",
    "raise max_connections, or put a pooler in front of it",
)
_BUSY = (StoreBusy, "is busy with the same data", "try again")
_BROKEN = (StoreDamaged, "has damaged files", "restore them from a backup")
_FAULTS: dict[str, tuple[type[JustMemError], str, str]] = {
    "28P01": _REFUSED,
    "28000": _REFUSED,
    "3D000": (StoreError, "has no such database", "create it with createdb"),
    "42501": (
        StoreError,
        "does not permit this",
        "grant the role rights on the schema justmem and its tables, or use their owner",
    ),
    "25006": (
        StoreError,
        "is read-only",
        "give the address of the primary server, and a role that may write",
    ),
    "3F000": _INCOMPLETE,
    "42P01": _INCOMPLETE,
    "42703": _INCOMPLETE,
    "53100": (StoreFull, "has no room left", "free space on its disk"),
    "53300": _CROWDED,
    "53400": _CROWDED,
    "57014": (StoreBusy, "took too long", "try again when it has less to do"),
    "55P03": _BUSY,
    "40001": _BUSY,
    "40P01": _BUSY,
    "54000": (InvalidSession, "cannot hold a name as long as this", "choose a shorter one"),
    "XX001": _BROKEN,
    "XX002": _BROKEN,
}
_UNREACHABLE = "check the address, and that the server runs. What was acknowledged is kept"
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
            f"({_message(error)}): write postgresql://user@host:5432/database."
        ) from None
    return url


def named(error: psycopg.Error, url: str) -> JustMemError:
    message = _message(error)
    state = error.sqlstate or _guessed(message)
    lost = (StoreError, "cannot be reached", _UNREACHABLE) if is_lost(error) else None
    kind, problem, fix = _FAULTS.get(state) or lost or (StoreError, "cannot do this", "see its log")
    return kind(f"PostgreSQL at {shown(url)} {problem} ({message}): {fix}.")


def _guessed(message: str) -> str:
    """The code of an error while connecting: libpq passes on the server's words alone."""
    if re.search(r'database ".*" does not exist', message):
        return "3D000"
    if re.search(
        r'role ".*" does not exist|authentication failed|pg_hba\.conf|no password', message
    ):
        return "28000"
    return "53300" if "too many" in message else ""


def _message(error: psycopg.Error) -> str:
    primary = error.diag.message_primary if error.sqlstate else None
    return " ".join((primary or str(error) or type(error).__name__).split())[:300].rstrip(".")
