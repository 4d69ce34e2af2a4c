"""One run of the command: its settings, its memory, its exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

from justmem.errors import (
    InvalidSetting,
    JustMemError,
    ModelError,
    NoSuchSpace,
    NotForgotten,
    NotInMemory,
    StoreError,
    StoreLocked,
    StoreNotLocked,
)

if TYPE_CHECKING:
    from justmem.config import Settings
    from justmem.memory import AsyncMemory
    from justmem.ports import Store
    from justmem.store.postgres import PostgresStorage

T = TypeVar("T")
ACTOR = "cli"  # in the change log
_SHOWN = 20  # names of spaces in a message
# The global options, as arguments of `config.load`
OPTIONS: ContextVar[dict[str, Any]] = ContextVar("OPTIONS")


class Exit(IntEnum):
    OK = 0
    NOT_IN_MEMORY = 1
    INPUT = 2
    MODEL = 3
    STORE = 4
    PARTLY = 5
    REMAINS = 6
    KEY = 7
    NO_SPACE = 8
    UNEXPECTED = 9
    INTERRUPTED = 130


EXIT_CODES = (
    "0 done; 1 not in memory; 2 wrong usage, file or setting; 3 a model failed; 4 the store "
    "failed; 5 some sessions could not be remembered; 6 forgotten text was still found; 7 the "
    "encryption key is wrong or missing; 8 no such space; 9 an unexpected error; 130 interrupted, "
    "or not confirmed"
)
_CODES: tuple[tuple[type[Exception], Exit], ...] = (  # the first that fits
    (NoSuchSpace, Exit.NO_SPACE),
    (NotInMemory, Exit.NOT_IN_MEMORY),
    (ModelError, Exit.MODEL),
    (NotForgotten, Exit.REMAINS),
    (StoreLocked, Exit.KEY),
    (StoreNotLocked, Exit.KEY),
    (StoreError, Exit.STORE),
    (JustMemError, Exit.INPUT),
    (OSError, Exit.INPUT),
    (Exception, Exit.UNEXPECTED),
)


def exit_code(error: Exception) -> Exit:
    return next(code for kind, code in _CODES if isinstance(error, kind))


# ---------------------------------------------------------------- settings and memory


def settings(**overrides: Any) -> Settings:
    from justmem.config import load

    return load(**{**OPTIONS.get(), **overrides})


def settings_of(actor: str) -> Settings:
    """The same, with a name for the change log if none is set."""
    found = settings()
    return found.model_copy(update={"actor": found.actor or actor})


def with_memory(work: Callable[[AsyncMemory], Awaitable[T]], *, create: bool = False) -> T:
    """Opens the memory, does the work, closes it. Only `create` may make a new space."""
    from justmem.cli.terminal import show_download
    from justmem.config.opening import open_memory

    async def run(found: Settings) -> T:
        async with await open_memory(found, create=create, report=show_download) as memory:
            return await work(memory)

    return _run(run)


def with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    """For commands that need no model: this starts faster than `with_memory`."""
    from justmem.config.opening import opened_store

    async def run(found: Settings) -> T:
        store = await opened_store(found, create=False)
        try:
            return await work(store)
        finally:
            await store.close()

    return _run(run)


def _run(work: Callable[[Settings], Coroutine[Any, Any, T]]) -> T:
    import asyncio  # not needed for `justmem --help`

    found = settings_of(ACTOR)
    try:
        return asyncio.run(work(found))
    except NoSuchSpace as error:
        names = asyncio.run(spaces(found))
        more = " and others" if len(names) > _SHOWN else ""
        known = f" These spaces exist: {', '.join(names[:_SHOWN])}{more}." if names else ""
        raise NoSuchSpace(
            f"{error}{known} `justmem add` and `justmem remember` make a new space."
        ) from None


async def spaces(settings: Settings) -> list[str]:
    """The names of all spaces."""
    from justmem.config.opening import spaces_of

    place = spaces_of(settings)
    try:
        return await place.spaces()
    finally:
        await place.close()


def postgres_storage() -> PostgresStorage:
    """For commands that need a PostgreSQL store."""
    from justmem.runtime.process import need

    found = settings()
    if found.store is None:
        raise InvalidSetting(
            "This command needs a PostgreSQL store. Set store or JUSTMEM_STORE to postgresql://..."
        )
    need("postgres")
    from justmem.store.postgres import PostgresStorage

    return PostgresStorage(found.address)
