"""export, import, copy, backup, reembed, rekey, sweep: whole spaces and their stores."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from justmem import transfer
from justmem.cli.context import ACTOR, postgres_storage, settings, with_memory
from justmem.cli.options import argument, flag, now, option
from justmem.cli.terminal import amount, say, show, show_list
from justmem.config.opening import keyring
from justmem.errors import InvalidFile, InvalidSetting, NoSuchSpace
from justmem.ports import Author
from justmem.runtime import private_files
from justmem.runtime.validation import as_path
from justmem.store.engine import Storage, storage
from justmem.store.files import Keyring
from justmem.store.sqlite import rekey as rekey_file

if TYPE_CHECKING:
    from justmem.memory import AsyncMemory


def export(
    output: Path | None = option("A new file. Default: standard output.", None, "--output", "-o"),
    vectors: bool = flag("Also write the vectors.", "--vectors"),
) -> None:
    """Write everything in this space to a file, as JSON Lines.

    The file appears when it is complete, and only you can read it.
    """

    async def work(memory: AsyncMemory) -> None:
        async with aclosing(memory.export(vectors=vectors)) as lines:
            if output is None:
                await _write(lines, sys.stdout.buffer)
            else:
                with private_files.new(as_path(output)) as beside, beside.open("wb") as file:
                    await _write(lines, file)

    if output is not None and as_path(output).exists():
        raise InvalidFile(f"{output} exists already: name a new file.")
    try:
        with_memory(work)
    except OSError as error:
        if output is None:
            raise
        raise InvalidFile(f"{output} cannot be written ({error.strerror}).") from None
    if output is not None:
        say(f"The space is exported to {output}.")


async def _write(lines: AsyncGenerator[str], file: Any) -> None:
    async for line in lines:
        file.write(line.encode())
    file.flush()


def import_(
    file: Path = argument("A file that `justmem export` wrote."),
) -> None:
    """Read an export into this space.

    If the file was changed or cut off, nothing is stored. Sessions that are already in the space
    stay as they are; a session that differs is an error. After an interruption, run it again.
    """
    done = with_memory(lambda memory: memory.load(file, on_loaded=_progress("")), create=True)
    result = (
        f"{amount(done.sessions, 'session')} in the file, {done.brought:,} new with "
        f"{amount(done.cards, 'card')}; {amount(done.embedded, 'text')} embedded."
    )
    show(done, lambda _: result)


def copy(
    source: str = argument("A folder, or postgresql://user@host/database.", metavar="FROM"),
    target: str = argument("The same.", metavar="TO"),
    only: list[str] | None = option("Only this space. May be repeated.", None, "--only"),
    unencrypted: bool = flag("Do not encrypt the copy, although a key is set.", "--plain"),
) -> None:
    """Copy spaces between stores, and compare both sides afterwards.

    After an interruption, run it again: what has arrived is not copied twice. If a key is set,
    encrypted spaces are read with it, and copies in a folder are encrypted with it.
    """
    keys = keyring(settings())
    places = storage(source, keys, either=True), storage(target, None if unencrypted else keys)
    done = asyncio.run(_copy(*places, only or []))
    lines = [
        f"{each.space}: {amount(each.sessions, 'session')} ({each.brought:,} copied now), "
        f"{amount(each.cards, 'card')}, {each.forgotten:,} forgotten; "
        f"the same on both sides, {each.digest}"
        for each in done
    ]
    show_list(done, lambda _: "\n".join(lines), "space")


async def _copy(one: Storage, other: Storage, only: list[str]) -> list[transfer.Copied]:
    try:
        there = await one.spaces()
        if not there:
            raise NoSuchSpace("There are no spaces in the source.")
        if missing := [space for space in only if space not in there]:
            raise NoSuchSpace(f"There is no space {missing[0]!r} in the source.")
        done = []
        for space in only or there:
            left = await one.open(space, create=False)
            right = await other.open(space)
            right.author = Author(ACTOR, now)
            try:
                done.append(await transfer.copy(left, right, _progress(f"{space}: ")))
            finally:
                await left.close()
                await right.close()
        return done
    finally:
        await one.close()
        await other.close()


def _progress(name: str) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done == total or done % 500 == 0:
            say(f"{name}{done:,} of {amount(total, 'session')}")

    return progress


def backup(
    target: Path = argument("A file that is not there yet.", metavar="TARGET"),
) -> None:
    """Back up a space to a file, also while it is in use.

    The file of an encrypted space has the same key. For PostgreSQL, use pg_dump.
    """
    with_memory(lambda memory: memory.backup(target))
    say(f"{settings().space} is backed up in {target}.")


def reembed() -> None:
    """Make all vectors again, with the embedder in the settings."""
    count = with_memory(lambda memory: memory.reembed())
    show({"embedded": count}, lambda _: f"{amount(count, 'text')} embedded again.")


def rekey(
    new_file: Path = option("A file with the new key.", ..., "--new-file"),
) -> None:
    """Give an encrypted space another key. Change the settings afterwards.

    If this is interrupted, one of the two keys opens the space.
    """
    found = settings()
    old = keyring(found)
    if old is None:
        raise InvalidSetting("No key is set. Set key_file or the environment variable JUSTMEM_KEY.")
    rekey_file(found.folder, found.space, old, Keyring(file=as_path(new_file)))
    say(f"{found.space} has the new key.")


def sweep(
    rewrite: bool = flag("Rewrite the tables. Others wait meanwhile.", "--rewrite"),
) -> None:
    """Remove the bytes of forgotten rows from PostgreSQL, with VACUUM.

    A SQLite store does not need this: forgetting rewrites the file.
    """

    async def work() -> None:
        place = postgres_storage()
        try:
            await place.sweep(rewrite=rewrite)
        finally:
            await place.close()

    asyncio.run(work())
    say("Swept.")
