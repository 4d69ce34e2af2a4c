"""rescue: what can still be read of a damaged file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from justmem.cli.asking import Json
from justmem.cli.run import Exit, run_of
from justmem.cli.terminal import amount, out, plain, print_json, say
from justmem.domain import Rescued, dump
from justmem.errors import InvalidSetting
from justmem.opening import keyring
from justmem.stores import rescuing
from justmem.stores.storage import Storage, storage

_SHOWN = 20


def rescue(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The damaged file of a space.")],
    to: Annotated[
        str,
        typer.Option(
            "--to", "-o", metavar="FOLDER", help="A folder, or postgresql://user@host/database."
        ),
    ],
    space: Annotated[
        str | None, typer.Option("--as", help="The new space's name. Default: the old one's.")
    ] = None,
    json: Json = False,
) -> None:
    """Bring what can be read of a damaged file into a new space, and say what is gone.

    The file is only read. Exits with 5 when words are lost.
    """
    place = storage(to, keyring(run_of(context).settings()))
    done = asyncio.run(_rescue(file.expanduser(), place, to, space))
    if json:
        print_json(dump(done))
    else:
        _print(done, to)
    if done.lost or done.doubtful:
        raise typer.Exit(Exit.PARTLY)


async def _rescue(file: Path, place: Storage, to: str, space: str | None) -> Rescued:
    wreck = await asyncio.to_thread(rescuing.read, file)
    try:
        target = await place.open_copy(space or rescuing.name_of(wreck, file))
        try:
            if await target.store.sessions():
                raise InvalidSetting(
                    f"There is a space {target.store.space!r} in {to} already: choose another "
                    "folder with --to, or another name with --as."
                )
            return await rescuing.rescue(wreck, target)
        finally:
            await target.store.close()
    finally:
        await place.close()


def _print(done: Rescued, to: str) -> None:
    out().print(
        f"{plain(done.space, one_line=True)}: {amount(done.sessions, 'session')}, "
        f"{amount(done.turns, 'turn')} and "
        f"{amount(done.cards, 'card')} brought to {plain(to, one_line=True)}",
        soft_wrap=True,
    )
    _list("cards to be made again by `justmem retry`", done.anew)
    _list(
        "words that are not those that were stored; read them before you rely on them",
        done.doubtful,
    )
    _list("words lost", done.lost)
    _list("cards of those said", done.loose)
    if done.unreadable:
        say(f"{done.unreadable:,} rows could not be read.", "red")


def _list(what: str, names: Sequence[str]) -> None:
    if names:
        shown = ", ".join(plain(name, one_line=True) for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        out().print(f"  {len(names):,} × {what}: {shown}{more}", soft_wrap=True)
