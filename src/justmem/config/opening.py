"""Opens a Memory from settings: builds each part from its name, and opens the store last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from justmem.config import Settings, load, providers
from justmem.domain import PAPER, Profile
from justmem.errors import InvalidSetting
from justmem.runtime.process import need

if TYPE_CHECKING:
    from justmem.memory import AsyncMemory
    from justmem.memory_parts import Parts
    from justmem.ports import Closes, Language, Store
    from justmem.store.engine import Storage
    from justmem.store.files import Keyring
    from justmem.sync import Memory


Clock = Callable[[], datetime]
_PROFILES = {"default": Profile(), "paper": PAPER}


def open(
    space: str | None = None,
    *,
    clock: Clock | None = None,
    report: providers.Report | None = None,
    **settings: Any,
) -> Memory:
    """Opens a memory: `with justmem.open("ana") as memory: ...`.

    `settings` are the fields of Settings. `clock` returns the current time; default: this machine's
    local time. `report(name, bytes)` is called before weights are downloaded."""
    from justmem.sync import Memory

    opening = open_memory(load(space=space, **settings), clock=clock, report=report)
    # In another thread, because the caller may be inside an event loop.
    with ThreadPoolExecutor(1) as thread:
        return Memory(thread.submit(asyncio.run, opening).result())


def open_async(
    space: str | None = None,
    *,
    clock: Clock | None = None,
    report: providers.Report | None = None,
    **settings: Any,
) -> Opening:
    """As `open`, for asynchronous code: `async with justmem.open_async("ana") as memory: ...`,
    or `memory = await justmem.open_async("ana")` and `await memory.close()`."""
    found = load(space=space, **settings)
    return Opening(partial(open_memory, found, clock=clock, report=report))


class Opening:
    """Opens an AsyncMemory, by `await` or by `async with`."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, AsyncMemory]]) -> None:
        self._make = make
        self._memory: AsyncMemory | None = None

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        return self._make().__await__()

    async def __aenter__(self) -> AsyncMemory:
        self._memory = await self._make()
        return self._memory

    async def __aexit__(self, *_: object) -> None:
        if self._memory is not None:
            await self._memory.close()


async def open_memory(
    settings: Settings,
    *,
    create: bool = True,
    clock: Clock | None = None,
    report: providers.Report | None = None,
) -> AsyncMemory:
    """The memory that the settings describe. Without `create`, the space must exist."""
    from justmem.memory import AsyncMemory

    parts = build_parts(settings, clock=clock, report=report)
    # The store is last, so that a wrong setting leaves no file behind.
    store = await opened_store(settings, create=create)
    return AsyncMemory(store, parts, closable_parts(settings, parts))


def build_parts(
    settings: Settings, *, clock: Clock | None = None, report: providers.Report | None = None
) -> Parts:
    """All parts that the settings describe. `clock` is by default this machine's local time."""
    from justmem.language.languages import LANGUAGES
    from justmem.memory_parts import Parts

    profile = settings.profile
    made = Parts(
        embedder=providers.build_embedder(settings.embedder, settings, report),
        reranker=providers.build_reranker(settings.reranker, settings, report),
        **_stages(settings, LANGUAGES),
        language=LANGUAGES,
        budget=settings.budget,
        retention=settings.retention,
        redact=providers.build_redaction(settings.redact),
        profile=profile if isinstance(profile, Profile) else _PROFILES[profile],
        concurrency=settings.concurrency,
        log_reads=settings.log_reads,
        actor=settings.actor or "program",
    )
    return replace(made, clock=clock) if clock else made


def closable_parts(settings: Settings, parts: Parts) -> list[Closes]:
    """The parts with connections to close. The caller closes the objects that it passed."""
    made: list[tuple[Any, Any]] = [(settings.embedder, parts.embedder)]
    made += [(settings.reranker, parts.reranker)]
    for name in ("extractor", "planner", "answerer"):
        made += [(settings.stage(name), getattr(getattr(parts, name), "model", None))]
    ours = [part for given, part in made if isinstance(given, str) and hasattr(part, "close")]
    return list({id(part): part for part in ours}.values())


async def opened_store(settings: Settings, *, create: bool = True) -> Store:
    keys = keyring(settings)
    if settings.store is None:
        from justmem.store.sqlite import open_store

        return await open_store(settings.folder, settings.space, create=create, keys=keys)
    need("postgres")
    from justmem.store import postgres

    return await postgres.open_store(settings.address, settings.space, create=create)


def keyring(settings: Settings) -> Keyring | None:
    """The source of encryption keys, or None if no key is set. An error if encryption is not
    possible."""
    if settings.key is None and settings.key_file is None:
        return None
    from justmem.store.files import Keyring
    from justmem.store.sqlite_connection import sqlcipher

    if settings.store is not None:
        raise InvalidSetting(
            "A key is set, but JustMem encrypts only the files of its SQLite store, not a "
            "PostgreSQL database. Remove the key, and see docs/encryption.md."
        )
    sqlcipher()
    return Keyring(settings.key, settings.key_file)


def spaces_of(settings: Settings) -> Storage:
    """The folder or database that holds all spaces."""
    from justmem.store.engine import storage

    where = settings.folder if settings.store is None else settings.address
    return storage(where, keyring(settings))


def _stages(settings: Settings, language: Language) -> dict[str, Any]:
    from justmem.answer import ModelAnswerer
    from justmem.extract import ModelExtractor
    from justmem.plan import ModelPlanner

    built: dict[str, Any] = {}
    made: dict[str, Any] = {}
    for name, method, of_model in (
        ("extractor", "extract", partial(ModelExtractor, language=language)),
        ("planner", "plan", partial(ModelPlanner, language=language)),
        ("answerer", "answer", ModelAnswerer),
    ):
        stage = providers.build_stage(settings.stage(name), method, settings, built)
        if stage is not None:
            made[name] = stage if hasattr(stage, method) else of_model(stage)
    return made
