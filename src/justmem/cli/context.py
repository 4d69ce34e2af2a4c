"""One run of the command: its global options, its memory, its exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from justmem.errors import (
    InvalidSession,
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


@dataclass
class Run:
    config: Path | None = None
    overrides: dict[str, Any] = field(default_factory=dict)

    def settings(self, **overrides: Any) -> Settings:
        from justmem.config import load

        return load(self.config, **{**self.overrides, **overrides})

    def memory(self, work: Callable[[AsyncMemory], Awaitable[T]], *, create: bool = False) -> T:
        """Opens the memory, does the work, closes it. Only `create` may make a new space."""
        import asyncio

        settings = self.settings()
        settings = settings.model_copy(update={"actor": settings.actor or ACTOR})
        return asyncio.run(_with_memory(settings, work, create))

    def store(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """For commands that need no model: this starts faster than `memory`."""
        import asyncio

        return asyncio.run(with_store(self.settings(), work))


async def _with_memory(
    settings: Settings, work: Callable[[AsyncMemory], Awaitable[T]], create: bool
) -> T:
    from justmem.cli.terminal import show_download
    from justmem.config.opening import open_memory

    try:
        memory = await open_memory(settings, create=create, report=show_download())
    except NoSuchSpace:
        raise NoSuchSpace(await _no_such_space(settings)) from None
    async with memory:
        return await work(memory)


async def with_store(settings: Settings, work: Callable[[Store], Awaitable[T]]) -> T:
    from justmem.config.opening import spaces_of

    place = spaces_of(settings)
    try:
        store = await place.open(settings.space, create=False)
        try:
            return await work(store)
        finally:
            await store.close()
    except NoSuchSpace:
        raise NoSuchSpace(await _no_such_space(settings)) from None
    finally:
        await place.close()


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


def run_of(context: typer.Context) -> Run:
    run = context.find_root().obj
    assert isinstance(run, Run)
    return run


def moment(text: str | None, option: str = "--at") -> datetime | None:
    """A time as given on the command line; `now` is this machine's local time."""
    if text is None:
        return None
    if text.strip().lower() == "now":
        return now()
    from justmem.intake.sessions import as_time

    try:
        return as_time(text)
    except InvalidSession as error:
        raise typer.BadParameter(f"{error} Or write: now.", param_hint=option) from None


def now() -> datetime:
    return datetime.now().replace(microsecond=0)
