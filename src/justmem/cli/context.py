"""One run of the command: its settings, its memory, its exit code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from justmem.errors import (
    InvalidSession,
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

T = TypeVar("T")
ACTOR = "cli"  # in the change log
# The global options, as arguments of `config.load`
OPTIONS: ContextVar[dict[str, Any]] = ContextVar("OPTIONS")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
    "encryption key is wrong or missing; 8 no such space; 9 an unexpected error; 130 interrupted"
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


def settings(**overrides: Any) -> Settings:
    from justmem.config import load

    return load(**{**OPTIONS.get(), **overrides})


def with_memory(work: Callable[[AsyncMemory], Awaitable[T]], *, create: bool = False) -> T:
    """Opens the memory, does the work, closes it. Only `create` may make a new space."""
    from justmem.cli.terminal import show_download
    from justmem.config.opening import open_memory

    found = settings()
    found = found.model_copy(update={"actor": found.actor or ACTOR})

    async def run() -> T:
        try:
            memory = await open_memory(found, create=create, report=show_download())
        except NoSuchSpace:
            raise NoSuchSpace(await _no_such_space(found)) from None
        async with memory:
            return await work(memory)

    return _run(run())


def with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    """For commands that need no model: this starts faster than `with_memory`."""

    async def run() -> T:
        async with opened(settings()) as store:
            return await work(store)

    return _run(run())


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Store]:
    from justmem.config.opening import opened_store

    try:
        store = await opened_store(settings, create=False)
    except NoSuchSpace:
        raise NoSuchSpace(await _no_such_space(settings)) from None
    try:
        yield store
    finally:
        await store.close()


def _run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio  # not needed for `justmem --help`

    return asyncio.run(work)


async def _no_such_space(settings: Settings) -> str:
    where = "this database" if settings.store else settings.folder
    found = await spaces(settings)
    known = ", ".join(found[:20]) + (" and others" if len(found) > 20 else "")
    listed = f" These spaces exist: {known}." if known else ""
    return (
        f"There is no space {settings.space!r} in {where}.{listed} "
        "`justmem add` and `justmem remember` make a new space."
    )


async def spaces(settings: Settings) -> list[str]:
    """The names of all spaces."""
    from justmem.config.opening import spaces_of

    place = spaces_of(settings)
    try:
        return await place.spaces()
    finally:
        await place.close()


def moment(text: str) -> datetime:
    """A time as given on the command line; `now` is this machine's local time."""
    if text.strip().lower() == "now":
        return now()
    from justmem.intake.sessions import as_time

    try:
        return as_time(text)
    except InvalidSession as error:
        raise typer.BadParameter(f"{error} Or write: now.") from None


def now() -> datetime:
    return datetime.now().replace(microsecond=0)


def a_time(help: str) -> Any:
    """An option that takes a time."""
    return typer.Option(help=help, parser=moment)


Label = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE. May be repeated.", metavar="NAME=VALUE")
]


def labels_of(given: list[str] | None) -> dict[str, str] | None:
    """["project=kitchen"] -> {"project": "kitchen"}."""
    pairs = [text.partition("=") for text in given or ()]
    for name, equals, _ in pairs:
        if not equals:
            raise typer.BadParameter(f"{name!r} is not NAME=VALUE.", param_hint="--label")
    return {name: value for name, _, value in pairs} or None


def database_address() -> str:
    """The address of the PostgreSQL store, for commands that need one."""
    from justmem.config import address
    from justmem.runtime.process import need

    found = settings()
    if found.store is None:
        raise InvalidSetting(
            "This command needs a PostgreSQL store. Set store or JUSTMEM_STORE to postgresql://..."
        )
    need("postgres")
    return address(found)
