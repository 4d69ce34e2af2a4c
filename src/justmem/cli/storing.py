"""backup, rekey, copy, sweep, work: what is done to stores as a whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from justmem.cli.asking import Json
from justmem.cli.run import ACTOR, Run, now, run_of
from justmem.cli.terminal import amount, fetching, out, plain, print_json, say
from justmem.config import Settings, address
from justmem.errors import InvalidSetting, JustMemError, NotInMemory
from justmem.memory import AsyncMemory
from justmem.opening import keyring, shared_parts
from justmem.ports import Author
from justmem.runtime.extras import need
from justmem.store.keys import KeyFile
from justmem.store.sqlite import rekey as rekey_file
from justmem.store.storage import PostgresStorage, Storage, storage
from justmem.transfer import copying

if TYPE_CHECKING:
    from justmem.store.postgres import Job

_AT_A_TIME = 4
_MOST_OF_ONE = 3  # of one space, so that no space keeps the others waiting


def backup(
    context: typer.Context,
    space: Annotated[str, typer.Argument(help="The space.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A file that is not there yet.")],
) -> None:
    """Write a space to a file, also while it is in use.

    The file of an encrypted space has the same key. For PostgreSQL, use pg_dump.
    """
    target = target.expanduser()
    run_of(context).memory(lambda memory: memory.backup(target), space=space)
    out().print(
        f"{plain(space, one_line=True)} is backed up in {plain(target, one_line=True)}.",
        soft_wrap=True,
    )


def rekey(
    context: typer.Context,
    new_file: Annotated[Path, typer.Option("--new-file", help="A file that holds the new key.")],
) -> None:
    """Give a locked space another key, and set it as the key afterwards.

    Killed halfway, one of the two keys opens the space.
    """
    settings = run_of(context).settings()
    if settings.store is not None:
        raise InvalidSetting(
            "JustMem locks the files of its SQLite store. A PostgreSQL database is encrypted by "
            "its disk and its connection: see docs/encryption.md."
        )
    old = keyring(settings)
    if old is None:
        raise InvalidSetting(
            f"No key is set: set key_file, or the environment variable {settings.key_env}."
        )
    rekey_file(settings.folder, settings.space, old, KeyFile(new_file.expanduser()))
    out().print(f"{plain(settings.space, one_line=True)} has the new key.", soft_wrap=True)


def copy(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A folder, or postgresql://user@host/database.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="Likewise.")],
    only: Annotated[
        list[str] | None, typer.Option("--only", help="This space alone. May be given again.")
    ] = None,
    unlocked: Annotated[
        bool, typer.Option("--plain", help="Do not lock the copy, though a key is set.")
    ] = False,
    json: Json = False,
) -> None:
    """Copy spaces between stores, and compare both sides afterwards.

    Can be interrupted and run again: what has arrived is not copied twice. With a key set, locked
    spaces are read with it, and a copy in a folder is locked with it.
    """
    keys = keyring(run_of(context).settings())
    places = storage(source, keys, either=True), storage(target, None if unlocked else keys)
    done = asyncio.run(_copy(*places, only or []))
    if json:
        print_json([asdict(each) for each in done])
        return
    for each in done:
        name = plain(each.space, one_line=True)
        out().print(
            f"{name}: {amount(each.sessions, 'session')} ({each.brought:,} copied now), "
            f"{amount(each.cards, 'card')}, {amount(each.passages, 'passage')}, "
            f"{each.forgotten:,} forgotten; "
            f"the same on both sides, {each.digest}",
            soft_wrap=True,
        )
    say(f"{len(done)} spaces copied and compared.", "dim")


async def _copy(one: Storage, other: Storage, only: list[str]) -> list[copying.Copied]:
    try:
        there = await one.spaces()
        if missing := [space for space in only if space not in there]:
            raise NotInMemory(f"There is no space {missing[0]!r} in the source.")
        done = []
        for space in only or there:
            left = await one.open(space, create=False)
            right = await other.open(space)
            right.author = Author(ACTOR, now)
            try:
                done.append(await copying.copy(left, right, _told(space)))
            finally:
                await left.close()
                await right.close()
        return done
    finally:
        await one.close()
        await other.close()


def _told(space: str) -> Callable[[int, int], None]:
    def told(done: int, total: int) -> None:
        if done == total or done % 500 == 0:
            say(f"{space}: {done:,} of {amount(total, 'session')}", "dim")

    return told


def sweep(
    context: typer.Context,
    rewrite: Annotated[
        bool,
        typer.Option("--rewrite", help="Copy the tables without the deleted rows; others wait."),
    ] = False,
) -> None:
    """Have PostgreSQL drop the bytes of what was forgotten, by vacuum.

    An SQLite store needs none of this: there, forgetting rewrites the file.
    """

    async def work() -> None:
        url = _address(run_of(context))
        from justmem.store.postgres import prepared, sweep

        database = await prepared(url)
        try:
            await sweep(database, rewrite=rewrite)
        finally:
            await database.close()

    asyncio.run(work())
    out().print("Swept.")


def work(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="End when nothing is left to do.")] = False,
    pause: Annotated[float, typer.Option(min=0.05, help="Seconds between looks.")] = 1.0,
) -> None:
    """Make the cards of sessions that wait, of all spaces of a PostgreSQL store.

    Run as many as you like: a session is taken by one of them, and given back if it dies.
    """
    settings = run_of(context).settings()
    done = asyncio.run(working(settings, _address(run_of(context)), once=once, pause=pause))
    say(f"{amount(done, 'session')} done.", "dim")


async def working(settings: Settings, url: str, *, once: bool, pause: float) -> int:
    from justmem.store import postgres

    place = PostgresStorage(url)
    parts = {**shared_parts(settings, report=fetching()), "actor": settings.actor or "worker"}
    done = 0
    at_work: dict[asyncio.Task[bool], str] = {}  # -> its space
    try:
        database = await place.database()
        while True:
            while len(at_work) < _AT_A_TIME:
                spaces = Counter(at_work.values())
                full = [space for space, count in spaces.items() if count >= _MOST_OF_ONE]
                jobs = await postgres.take(database, busy=list(spaces), full=full)
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


async def _one(place: PostgresStorage, parts: dict[str, Any], job: Job) -> bool:
    """Whether it was done. What goes wrong with one session is no reason to leave the others."""
    try:
        store = await place.open(job.space, create=False)
        result = await AsyncMemory(store=store, **parts).finish(job.session.id)
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
            "This is for PostgreSQL stores: set store or JUSTMEM_STORE to postgresql://..."
        )
    need("postgres")
    return address(settings)
