"""Reading the official files, wherever a user keeps them, and saying plainly what is wrong."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from justmem.errors import InvalidFile

_CHUNK = 1 << 24  # bytes


def find(data: Path, names: Sequence[str], what: str) -> Path:
    """The first of `names` that lies in `data` or one folder below."""
    for name in names:
        for path in (data / name, *sorted(data.glob(f"*/{name}"))):
            if path.is_file():
                return path
    raise InvalidFile(
        f"No {what} file in {data}: expected one of {', '.join(names)}. "
        f"`justmem-eval data` says where to get it."
    )


def as_time(text: Any, format: str, where: str) -> datetime:
    try:
        return datetime.strptime(str(text).strip(), format)
    except ValueError as error:
        raise InvalidFile(f"{where}: {error}. Not the published layout.") from error


def digests(*paths: Path) -> dict[str, str]:
    """The sha256 of each file, by its name."""
    found = {}
    for path in paths:
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def read_json(path: Path) -> Any:
    try:
        raw = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        return json.loads(raw)
    except (OSError, lzma.LZMAError, EOFError, ValueError) as error:
        raise InvalidFile(
            f"{path} cannot be read as JSON ({type(error).__name__}: {error}). It may be "
            "truncated: fetch it again and compare its hash with `justmem-eval data`."
        ) from error


def read_list(path: Path, keys: Sequence[str], what: str) -> list[dict[str, Any]]:
    """A JSON list of objects that all have `keys`."""
    items = read_json(path)
    if not isinstance(items, list) or not items:
        raise InvalidFile(f"{path} is not a list of {what}: is it another file?")
    for item in items:
        _check_keys(path, item, keys, what)
    return items


def stream_list(
    path: Path, keys: Sequence[str], what: str
) -> Iterator[tuple[dict[str, Any], int, int]]:
    """As `read_list`, one object at a time, each with its place in the file in bytes."""
    decoder = json.JSONDecoder()
    with path.open("rb") as file:
        raw, start = b"", 0  # `raw` begins at the byte `start` of the file
        while chunk := file.read(_CHUNK):
            raw += chunk
            while True:
                skipped = len(raw) - len(raw.lstrip(b"[, \n\r\t"))
                raw, start = raw[skipped:], start + skipped
                text = raw.decode("utf-8", "ignore")  # a character may be cut at the end
                try:
                    item, end = decoder.raw_decode(text)
                except ValueError:  # not complete
                    break
                _check_keys(path, item, keys, what)
                size = len(text[:end].encode())
                yield item, start, start + size
                raw, start = raw[size:], start + size
    if raw.strip() != b"]":
        raise InvalidFile(f"{path} is truncated, or not a list of {what}.")


def read_part(path: Path, start: int, end: int) -> dict[str, Any]:
    with path.open("rb") as file:
        file.seek(start)
        found: dict[str, Any] = json.loads(file.read(end - start))
    return found


def _check_keys(path: Path, item: Any, keys: Sequence[str], what: str) -> None:
    missing = [k for k in keys if not isinstance(item, dict) or k not in item]
    if missing:
        raise InvalidFile(
            f"{path}: an item has no {missing[0]!r}, so this is not the published layout of "
            f"{what}, or another version of it."
        )


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise InvalidFile(f"{path}: line {number} is not JSON ({error}).") from error
