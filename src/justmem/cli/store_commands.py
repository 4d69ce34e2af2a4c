"""reembed, rekey, sweep, work: maintenance of a store."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from justmem.cli.context import Json, Run, run_of
from justmem.cli.terminal import amount, out, plain, say, show, show_download
from justmem.config import KEY_VARIABLE, Settings, address
from justmem.config.opening import build_parts, keyring
from justmem.errors import InvalidSetting, JustMemError
from justmem.memory import AsyncMemory
from justmem.runtime.process import need
from justmem.store.files import KeyFile
from justmem.store.sqlite import rekey as rekey_file

if TYPE_CHECKING:
    from justmem.parts import Parts
    from justmem.store.postgres import Job, PostgresStorage

_AT_A_TIME = 4  # sessions
_MOST_OF_ONE = 3  # sessions of one space, so that others get their turn


def reembed(context: typer.Context, json: Json = False) -> None:
    """Make all vectors again, with the embedder in the settings."""
    count = run_of(context).memory(lambda memory: memory.reembed())
    show({"embedded": count}, json, lambda _: f"{amount(count, 'text')} embedded again.")


def rekey(
    context: typer.Context,
    new_file: Annotated[Path, typer.Option("--new-file", help="A file with the new key.")],
) -> None:
    """Give an encrypted space another key. Change the settings afterwards.

    If this is interrupted, one of the two keys opens the space.
    """
    settings = run_of(context).settings()
    if settings.store is not None:
        raise InvalidSetting(
            "JustMem encrypts only the files of its SQLite store. Encrypt the disk and the "
            "connection of a PostgreSQL database: see docs/encryption.md."
        )
    old = keyring(settings)
    if old is None:
        raise InvalidSetting(
            f"No key is set. Set key_file or the environment variable {KEY_VARIABLE}."
        )
    rekey_file(settings.folder, settings.space, old, KeyFile(new_file.expanduser()))
    out().print(f"{plain(settings.space, one_line=True)} has the new key.", soft_wrap=True)


def sweep(
    context: typer.Context,
    rewrite: Annotated[
        bool,
        typer.Option("--rewrite", help="Rewrite the tables. Others wait meanwhile."),
    ] = False,
) -> None:
    """Remove the bytes of forgotten rows from PostgreSQL, with VACUUM.

    A SQLite store does not need this: forgetting rewrites the file.
    """

    async def work() -> None:
        url = _address(run_of(context))
        need("postgres")
        from justmem.store.postgres import PostgresStorage

        place = PostgresStorage(url)
        try:
            await place.sweep(rewrite=rewrite)
        finally:
            await place.close()

    asyncio.run(work())
    out().print("Swept.")


def work(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Stop when no session waits.")] = False,
    pause: Annotated[float, typer.Option(min=0.05, help="Seconds between checks.")] = 1.0,
) -> None:
    """Make the cards of waiting sessions in all spaces of a PostgreSQL store.

    Several workers may run. Each session is leased by one of them; if that worker dies, another
    takes the session over.
    """
    settings = run_of(context).settings()
    done = asyncio.run(working(settings, _address(run_of(context)), once=once, pause=pause))
    say(f"{amount(done, 'session')} done.", "dim")


async def working(settings: Settings, url: str, *, once: bool, pause: float) -> int:
    need("postgres")
    from justmem.store.postgres import PostgresStorage

    place = PostgresStorage(url)
    named = settings.model_copy(update={"actor": settings.actor or "worker"})
    parts = build_parts(named, report=show_download())
    done = 0
    at_work: dict[asyncio.Task[bool], str] = {}  # -> its space
    try:
        while True:
            while len(at_work) < _AT_A_TIME:
                spaces = Counter(at_work.values())
                full = [space for space, count in spaces.items() if count >= _MOST_OF_ONE]
                jobs = await place.take(busy=list(spaces), full=full)
                if not jobs:
                    break
                for job in jobs:
                    at_work[asyncio.create_task(_one(place, parts, job))] = job.space
            if at_work:
                over, _ = await asyncio.wait(
                    at_work, timeout=pause, return_when=asyncio.FIRST_COMPLETED
                )
                for task in over:
                    del at_work[task]
                done += sum(task.result() for task in over)
            elif once:
                return done
            else:
                await asyncio.sleep(pause)
    finally:
        for task in at_work:
            task.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)
        await place.close()


async def _one(place: PostgresStorage, parts: Parts, job: Job) -> bool:
    """Whether it was done. An error in one session does not stop the others."""
    try:
        store = await place.open(job.space, create=False)
        result = await AsyncMemory(store, parts).finish(job.session.id)
    except JustMemError as error:
        say(f"{job.session.id}: {error}", "red")
        return False
    except Exception as error:  # noqa: BLE001
        say(f"{job.session.id}: {type(error).__name__}", "red")
        return False
    say(f"{result.session_id}: {result.state}, {amount(len(result.cards), 'card')}", "dim")
    return True


def _address(run: Run) -> str:
    settings = run.settings()
    if settings.store is None:
        raise InvalidSetting(
            "This command needs a PostgreSQL store. Set store or JUSTMEM_STORE to postgresql://..."
        )
    need("postgres")
    return address(settings)
