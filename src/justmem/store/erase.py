"""Looking for traces of what was forgotten: in every table of a space, and in every file that
belongs to it or lies beside it."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from justmem.errors import StoreError
from justmem.ports import Searched
from justmem.ports.traces import Search, Traces
from justmem.store import drivers
from justmem.store.drivers import Claim, Lock
from justmem.store.files import SUFFIX, Keyring, holds_another_space
from justmem.store.schema import WITH_WORDS

_BUFFER = 1 << 20
_SIDE = re.compile(r"-(wal|shm|journal)$")
# gzip, zip, xz, zstd, bzip2, 7z, lz4, rar, compress; age, OpenPGP and OpenSSL.
_PACKED = re.compile(
    rb"\x1f\x8b|PK(\x03\x04|\x05\x06)|\xfd7zXZ\0|\x28\xb5\x2f\xfd|BZh[1-9]|7z\xbc\xaf\x27\x1c"
    rb"|\x04\x22\x4d\x18|Rar!\x1a\x07|\x1f\x9d"
    rb"|age-encryption\.org/|-----BEGIN (PGP MESSAGE|AGE ENCRYPTED)|Salted__"
)
_SQLITE, _ENCODING, _SQLITE_UTF16 = b"SQLite format 3\0", slice(56, 60), (b"\0\0\0\2", b"\0\0\0\3")

Tables = Iterable[tuple[str, Iterator[Sequence[Any]]]]  # names and rows


def in_tables(tables: Tables, traces: Traces, machinery: set[int]) -> tuple[Searched, set[int]]:
    """`machinery`: single words that are part of the database's own texts. Those that occur in a
    table without words join them."""
    found: dict[str, set[int]] = {}
    total = 0
    for name, rows in tables:
        search = Search(traces)
        for data in _buffered(rows):
            search.look(data)
            total += len(data)
        hits = set(search.hits)
        if name.rpartition(".")[2] not in WITH_WORDS:
            machinery |= traces.weak(hits)
            hits -= traces.weak(hits)
        found[name] = hits
    places = tuple(f"table {name}" for name, hits in found.items() if hits - machinery)
    return Searched(tables=tuple(found), bytes=total, remains=places), machinery


def _buffered(rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    buffer: list[bytes] = []
    size = 0
    for row in rows:
        for value in row:
            if isinstance(value, str | bytes):
                buffer.append(value.encode() if isinstance(value, str) else value)
                size += len(buffer[-1])
        if size > _BUFFER:
            yield b"\n".join(buffer)
            buffer, size = [], 0
    yield b"\n".join(buffer)


# ---------------------------------------------------------------- files


def in_files(
    path: Path,
    traces: Traces,
    claim: Claim | None,
    lock: Lock | None = None,
    keys: Keyring | None = None,
) -> Searched:
    """The file of the space, its side files, and whatever else lies in the folder: copies, keys,
    files of a server. Other spaces are other people's memory and are left alone: files whose name
    is the one that the space inside would have. `claim`, `lock`: of the space, while it is open."""
    searched = Searched()
    for names in _files(path.parent):
        own = next((file for file in names if _main(file) == path.name), None)
        if own is None and any(_is_of_another_space(file, keys) for file in names):
            continue
        file = own or names[0]
        try:
            if own is not None:
                searched += _in_bytes(own, drivers.chunks(own, claim), traces)
            else:
                searched += _in_stranger(file, traces, claim, lock)
        except FileNotFoundError:
            continue  # gone since
        except OSError as error:
            raise StoreError(
                f"{file} cannot be searched ({error.strerror}): correct its permissions, or move "
                "it away if it is not JustMem's."
            ) from None
    return searched


def _files(folder: Path) -> list[list[Path]]:
    """The files of a folder. Those that are one file under several names come together."""
    found: dict[tuple[int, int], list[Path]] = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        with suppress(FileNotFoundError):
            status = file.stat()
            if stat.S_ISREG(status.st_mode):
                found.setdefault((status.st_dev, status.st_ino), []).append(file)
    return list(found.values())


def _main(file: Path) -> str:
    """The name of the database that a file would be a side file of, or its own name."""
    return _SIDE.sub("", file.name)


def _is_of_another_space(file: Path, keys: Keyring | None) -> bool:
    main = file.with_name(_main(file))
    return main.suffix == SUFFIX and holds_another_space(main, keys)


def _in_bytes(file: Path, chunks: Iterable[bytes], traces: Traces) -> Searched:
    hits, size = traces.found_in_chunks(chunks)
    return Searched(files=(str(file),), bytes=size, remains=(str(file),) if hits else ())


def _in_stranger(file: Path, traces: Traces, claim: Claim | None, lock: Lock | None) -> Searched:
    """A file that is neither the space's nor another space's."""
    with closing(drivers.chunks(file, None)) as chunks:
        head = next(chunks, b"")
        first = head[: drivers.PAGE]
        if not _is_unreadable(first):
            return _in_bytes(file, chain([head], chunks), traces)
    # The salt is made with the file, so a file with the same one is a copy.
    if claim is not None and lock is not None and first[: drivers.SALT] == claim.salt:
        from justmem.store.sqlite import in_tables as in_database

        with (
            suppress(*drivers.errors()),
            closing(drivers.connect(file, 1.0, lock, still=True)) as db,
        ):
            found, _ = in_database(db, traces)
            remains = (str(file),) if found.remains else ()
            return Searched(files=(str(file),), bytes=found.bytes, remains=remains)
    return Searched(unsearched=(str(file),))


def _is_unreadable(first: bytes) -> bool:
    """Whether words in the file would not be found as they stand: it is compressed, encrypted or
    written in UTF-16."""
    if first.startswith(_SQLITE):
        return first[_ENCODING] in _SQLITE_UTF16
    return bool(_PACKED.match(first)) or drivers.is_noise(first) or _is_utf16(first)


def _is_utf16(first: bytes) -> bool:
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    one, other = (half.count(0) / max(1, len(half)) for half in (first[::2], first[1::2]))
    return max(one, other) > 0.5 and min(one, other) < 0.1
