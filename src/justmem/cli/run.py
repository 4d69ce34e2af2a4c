"""One run of the command: its global options, its memory, its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

import typer

from justmem.cli.terminal import fetching
from justmem.config import Settings, load
from justmem.errors import (
    InvalidSession,
    JustMemError,
    ModelError,
    NotForgotten,
    NotInMemory,
    StoreError,
    StoreLocked,
    StoreNotLocked,
)
from justmem.intake.sessions import as_time
from justmem.memory import AsyncMemory
from justmem.opening import parts, spaces_of

T = TypeVar("T")
ACTOR = "cli"  # in the change log


class Exit(IntEnum):
    OK = 0
    NOTHING = 1  # not in memory
    INPUT = 2  # usage, a file, a setting
    MODEL = 3
    STORE = 4
    PARTLY = 5  # some sessions could not be remembered
    REMAINS = 6  # what was forgotten is still found somewhere
    KEY = 7  # a locked space, and no key or another one; a key, and no lock
    INTERRUPTED = 130


def exit_code(error: JustMemError) -> Exit:
    if isinstance(error, NotInMemory):
        return Exit.NOTHING
    if isinstance(error, ModelError):
        return Exit.MODEL
    if isinstance(error, NotForgotten):
        return Exit.REMAINS
    if isinstance(error, StoreLocked | StoreNotLocked):
        return Exit.KEY
    return Exit.STORE if isinstance(error, StoreError) else Exit.INPUT


@dataclass
class Run:
    config: Path | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    debug: bool = False

    def settings(self, **overrides: Any) -> Settings:
        return load(self.config, **{**self.overrides, **overrides})

    def memory(
        self,
        work: Callable[[AsyncMemory], Awaitable[T]],
        *,
        create: bool = False,
        **overrides: Any,
    ) -> T:
        """Opens the memory, does the work, closes it. Only `create` may make a new space."""
        settings = self.settings(**overrides)
        settings = settings.model_copy(update={"actor": settings.actor or ACTOR})

        async def opened() -> T:
            try:
                made = await parts(settings, create=create, report=fetching())
            except NotInMemory:
                raise NotInMemory(await _no_space(settings)) from None
            async with AsyncMemory(**made) as memory:
                return await work(memory)

        return asyncio.run(opened())


async def _no_space(settings: Settings) -> str:
    where = "this database" if settings.store else settings.folder
    place = spaces_of(settings)
    found = await place.spaces()
    await place.close()
    known = ", ".join(found[:20]) + (" and others" if len(found) > 20 else "")
    return (
        f"There is no space {settings.space!r} in {where}: `justmem remember FILE` "
        f"makes it{f'; there are {known}' if known else ''}."
    )


def run_of(context: typer.Context) -> Run:
    run = context.find_root().obj
    assert isinstance(run, Run)
    return run


def moment(text: str | None, option: str = "--at") -> datetime | None:
    """A time as given on the command line; `now` is the clock on this machine's wall."""
    if text is None:
        return None
    if text.strip().lower() == "now":
        return now()
    try:
        return as_time(text)
    except InvalidSession as error:
        raise typer.BadParameter(f"{error} Or write: now.", param_hint=option) from None


def now() -> datetime:
    """The command is the caller, so the clock is its to read."""
    return datetime.now().replace(microsecond=0)
