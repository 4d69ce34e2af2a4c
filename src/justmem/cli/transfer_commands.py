"""export, import, copy, backup: moving whole spaces."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import typer

from justmem import transfer
from justmem.cli.context import ACTOR, Json, now, run_of
from justmem.cli.terminal import amount, out, plain, say, show, show_list
from justmem.config.opening import keyring
from justmem.errors import InputError, NoSuchSpace
from justmem.memory import AsyncMemory
from justmem.ports import Author
from justmem.store.storage import Storage, storage


def export(
    context: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file. Default: standard output.")
    ] = None,
    vectors: Annotated[
        bool,
        typer.Option("--vectors", help="Also write the vectors."),
    ] = False,
) -> None:
    """Write everything in this space to a file.

    The file appears when it is complete, and only you can read it.
    """

    async def work(memory: AsyncMemory) -> int:
        async with aclosing(memory.export(vectors=vectors)) as lines:
            if output is None:
                return await _written(lines, sys.stdout.buffer)
            return await _filed(lines, output.expanduser())

    count = run_of(context).memory(work)
    if output is not None:
        say(f"{count:,} bytes written to {output}.", "dim")


async def _filed(lines: AsyncGenerator[str], path: Path) -> int:
    beside = path.with_name(path.name + ".part")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            count = await _written(lines, file)
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        beside.unlink(missing_ok=True)
    return count


async def _written(lines: AsyncGenerator[str], file: Any) -> int:
    count = 0
    async for line in lines:
        count += file.write(line.encode())
    file.flush()
    return count


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `justmem export` wrote.")],
    json: Json = False,
) -> None:
    """Read an export into this space.

    If the file was changed or cut off, nothing is stored. Sessions that are already in the space
    stay as they are; a session that differs is an error. After an interruption, run it again.
    """

    path = file.expanduser()
    done = run_of(context).memory(
        lambda memory: memory.load(path, on_loaded=_progress("")), create=True
    )
    show(
        done,
        json,
        lambda _: (
            f"{amount(done.sessions, 'session')} in the file, {done.brought:,} new with "
            f"{amount(done.cards, 'card')}; {amount(done.embedded, 'text')} embedded."
        ),
    )


def copy(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A folder, or postgresql://user@host/database.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="The same.")],
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this space. May be repeated.")
    ] = None,
    unencrypted: Annotated[
        bool, typer.Option("--plain", help="Do not encrypt the copy, although a key is set.")
    ] = False,
    json: Json = False,
) -> None:
    """Copy spaces between stores, and compare both sides afterwards.

    After an interruption, run it again: what has arrived is not copied twice. If a key is set,
    encrypted spaces are read with it, and copies in a folder are encrypted with it.
    """
    keys = keyring(run_of(context).settings())
    places = storage(source, keys, either=True), storage(target, None if unencrypted else keys)
    done = asyncio.run(_copy(*places, only or []))
    lines = [
        f"{each.space}: {amount(each.sessions, 'session')} ({each.brought:,} copied now), "
        f"{amount(each.cards, 'card')}, {each.forgotten:,} forgotten; "
        f"the same on both sides, {each.digest}"
        for each in done
    ]
    show_list(done, json, lambda _: "\n".join(lines), "space")


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
            say(f"{name}{done:,} of {amount(total, 'session')}", "dim")

    return progress


def backup(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A file that is not there yet.")],
) -> None:
    """Back up a space to a file, also while it is in use.

    The file of an encrypted space has the same key. For PostgreSQL, use pg_dump.
    """
    target = target.expanduser()
    run = run_of(context)
    run.memory(lambda memory: memory.backup(target))
    space = plain(run.settings().space, one_line=True)
    out().print(f"{space} is backed up in {plain(target, one_line=True)}.", soft_wrap=True)
