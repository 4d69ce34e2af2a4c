"""lock, unlock, rekey: encryption of spaces that are there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from justmem.cli.asking import Json
from justmem.cli.run import run_of
from justmem.cli.terminal import out, plain, print_json, say
from justmem.config import Settings
from justmem.errors import InvalidSetting
from justmem.opening import keyring
from justmem.stores.folder import spaces
from justmem.stores.relocking import relock

if TYPE_CHECKING:
    from justmem.stores.keyring import Keyring

All = Annotated[bool, typer.Option("--all", help="Every space in the folder.")]


def lock(context: typer.Context, every: All = False, json: Json = False) -> None:
    """Encrypt a space that is not, with the key that is set.

    Nobody else may have the space open. Killed halfway, run it again.
    """
    settings = _folder(run_of(context).settings())
    keys = _keys(settings)
    _change(settings, every, None, keys, "locked", json)
    say(f"Its key is in {keys.where}: whoever loses it loses the words.", "dim")


def unlock(context: typer.Context, every: All = False, json: Json = False) -> None:
    """Decrypt a space for good: its words lie open in its file again.

    Take the key out of the settings afterwards.
    """
    settings = _folder(run_of(context).settings())
    _change(settings, every, _keys(settings), None, "not locked", json)


def rekey(
    context: typer.Context,
    new_file: Annotated[Path | None, typer.Option(help="The new key is in this file.")] = None,
    new_folder: Annotated[
        Path | None, typer.Option(help="New keys, one for each space, go into this folder.")
    ] = None,
    new_command: Annotated[
        str | None, typer.Option(help="The new key is what this prints.")
    ] = None,
    every: All = False,
    json: Json = False,
) -> None:
    """Give a locked space another key.

    With key_folder the key is made, and nothing has to be said. Elsewhere, name where the new key
    is, and set it as the key afterwards. Killed halfway, the space opens with one of the two keys:
    run it again.
    """
    run = run_of(context)
    settings = _folder(run.settings())
    old = _keys(settings)
    given = {"key_file": new_file, "key_folder": new_folder, "key_command": new_command}
    if any(given.values()):
        new = _keys(run.settings(**given))
    elif old.own:
        new = old
    else:
        raise typer.BadParameter("Say where the new key is: --new-file, --new-folder, ...")
    _change(settings, every, old, new, "locked with the new key", json)
    if new is not old:
        say(f"From now on the key is in {new.where}: change the settings to say so.", "yellow")


def _change(
    settings: Settings,
    every: bool,
    old: Keyring | None,
    new: Keyring | None,
    state: str,
    json: bool,
) -> None:
    names = spaces(settings.folder, old or new) if every else [settings.space]
    rows = []
    for space in names:
        changed = relock(settings.folder, space, old, new)
        rows.append({"space": space, "changed": changed})
        if not json:
            already = "" if changed else " already"
            out().print(f"{plain(space, one_line=True)} is {state}{already}.", soft_wrap=True)
    if json:
        print_json(rows)


def _folder(settings: Settings) -> Settings:
    if settings.store is not None:
        raise InvalidSetting(
            "JustMem locks the files of its SQLite store. A PostgreSQL database is encrypted by "
            "its disk and its connection: see docs/encryption.md."
        )
    return settings


def _keys(settings: Settings) -> Keyring:
    keys = keyring(settings)
    if keys is None:
        raise InvalidSetting(
            "No key is set: set key_file, key_folder or key_command, or the environment variable "
            f"{settings.key_env}."
        )
    return keys
