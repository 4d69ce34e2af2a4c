"""For the doctor: which spaces are encrypted, and whether others can read the files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from justmem.config import Settings, address
from justmem.errors import StoreError
from justmem.opening import keyring
from justmem.runtime import private_files
from justmem.store import drivers, files

Finding = tuple[Literal["ok", "note", "wrong"], str, str]
_SHOWN = 20  # names in a line


def encryption(settings: Settings) -> Iterator[Finding]:
    if settings.store is not None:
        return
    keys = keyring(settings)
    locked, plain = _sorted(settings.folder)
    if locked:
        yield "ok", f"encrypted: {_names(locked)}", ""
    if plain and keys is not None:
        fix = "make encrypted copies with justmem copy, or remove the key from the settings"
        yield "wrong", f"a key is set, but these spaces are not encrypted: {_names(plain)}", fix
    elif plain:
        yield "ok", f"not encrypted: {_names(plain)}", ""
    if locked and keys is None:
        fix = f"set key_file or {settings.key_env} to open them"
        yield "note", "no key is set", fix
    if (locked or keys is not None) and find_spec("sqlcipher3") is None:
        yield "wrong", "SQLCipher is not installed", "pip install 'justmem[encryption]'"


def _sorted(folder: Path) -> tuple[list[str], list[str]]:
    """The files of encrypted spaces and of plain ones. No space is opened."""
    found: dict[str, list[str]] = {"locked": [], "plain": []}
    for path in sorted(folder.glob("*" + files.SUFFIX)):
        try:
            claim = drivers.claim(path)
        except (StoreError, FileNotFoundError):
            continue
        kind = claim.kind
        claim.release()
        if kind in found:
            found[kind].append(path.stem)
    return found["locked"], found["plain"]


def _names(stems: list[str]) -> str:
    more = f" and {len(stems) - _SHOWN} more" if len(stems) > _SHOWN else ""
    return ", ".join(stems[:_SHOWN]) + more


def permissions(settings: Settings) -> Iterator[Finding]:
    opened = [path for path in _private(settings) if path.exists() and private_files.is_open(path)]
    for path in opened[:_SHOWN]:
        mode = "u=rwX,go=" if path.is_dir() else "600"
        yield "note", f"others on this machine can read {path}", f"chmod {mode} '{path}'"


def _private(settings: Settings) -> Iterator[Path]:
    if settings.store is None and settings.folder.is_dir():
        yield settings.folder
        yield from sorted(path for path in settings.folder.iterdir() if path.is_file())
    if settings.key_file is not None:
        name = settings.key_file.name.replace("{space}", "*")
        yield from sorted(settings.key_file.parent.glob(name))
    if settings.file and settings.store is not None and urlsplit(address(settings)).password:
        yield settings.file
