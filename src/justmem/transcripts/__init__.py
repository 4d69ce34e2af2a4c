"""Files of conversations -> Sessions.

Formats: JSON (one session, a list of sessions, a list of messages), JSON Lines (a session or a
message per line), the exports of ChatGPT and Claude (.zip, unpacked folder or conversations.json),
exports of WhatsApp, mem0 and Zep, Markdown and plain text. The content of a file decides its
format, not its name.

chatgpt, claude, whatsapp    exports of these programs
facts                        exports of mem0 and Zep
markdown                     Markdown and plain text
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from justmem.domain import Session
from justmem.edits.notes import as_note
from justmem.errors import InputError, InvalidFile
from justmem.intake.sessions import TIME_KEYS, as_session, as_time
from justmem.transcripts import chatgpt, claude, facts, markdown, whatsapp

__all__ = ["Reading", "read", "read_bytes"]

_EXPECTED = (
    "Expected a JSON session, a list of sessions or messages, JSON Lines with a session per line, "
    "text, or an export of ChatGPT, Claude (.zip or conversations.json), WhatsApp, mem0 or Zep."
)
_LONGEST_TITLE = 200
_MOST_UNPACKED = 2 << 30  # bytes of all files of a .zip that are read
_EXPORTED = re.compile(
    r"conversations([-_]\d+)?\.json|(memories|projects)\.json|_chat\.txt|.*WhatsApp.*\.txt"
)
_WRAPPERS = ("conversations", "sessions", "results", "memories", "edges", "facts")

# The key that shows what a JSON object is, the type of its value, and its reader. A reader yields
# sessions as dicts, and notes as dicts with `note`, `key`, `at` and `value`.
Reader = Callable[[dict[str, Any], Counter[str]], Iterator[dict[str, Any]]]
_FORMATS: Mapping[str, tuple[type, Reader]] = {
    "mapping": (dict, chatgpt.read),
    "chat_messages": (list, claude.read),
    "conversations_memory": (str, claude.read_memories),
    "docs": (list, claude.read_project),
    "memory": (str, facts.read_mem0),
    "fact": (str, facts.read_zep),
}


@dataclass
class Reading:
    """The sessions of some files. `problems` names each conversation that could not be read, and
    `skipped` counts the content that is not imported."""

    sessions: list[Session] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def read(path: str | Path, *, at: object = None, zone: tzinfo | None = None) -> Reading:
    """`at` is the time of sessions that have none. UTC times become local times of `zone`.
    InvalidFile if nothing in the file can be read."""
    path = Path(path)
    try:
        if not path.is_dir():
            return read_bytes(path.read_bytes(), name=str(path), at=at, zone=zone)
        found = sorted(each for each in path.rglob("*") if _EXPORTED.fullmatch(each.name))
        if not found:
            raise InvalidFile(f"{path} is a folder without a conversations.json. {_EXPECTED}")
        return _read([(str(each), each.read_bytes()) for each in found], at, zone)
    except FileNotFoundError:
        raise InvalidFile(f"There is no file {path}.") from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}.") from None


def read_bytes(
    data: bytes, *, name: str = "input", at: object = None, zone: tzinfo | None = None
) -> Reading:
    """As `read`, for the content of a file."""
    zipped = data.startswith(b"PK\x03\x04")
    return _read(_unpacked(data, name) if zipped else [(name, data)], at, zone)


def _read(files: Iterable[tuple[str, bytes]], at: object, zone: tzinfo | None) -> Reading:
    found, sessions = Reading(), dict[str, Session]()
    latest: datetime | None = None
    for name, data in files:
        for where, value in _conversations(_decoded(data, name, found), name, found):
            try:
                for each in _converted(value, found.skipped):
                    if isinstance(each, dict) and each.get("turns", each.get("messages")) == []:
                        found.skipped["blank conversation"] += 1
                    else:
                        session = _session(each, at, zone, latest)
                        latest = max(latest or session.at, session.at)
                        _keep(session, sessions, found.skipped)
            except InputError as error:
                found.problems.append(f"{name}, {where}: {error}" if where else f"{name}: {error}")
    found.sessions = list(sessions.values())
    if found.problems and not found.sessions:
        more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
        raise InvalidFile(f"{found.problems[0]}{more}")
    found.skipped = +found.skipped
    return found


# ---------------------------------------------------------------- bytes -> text


def _unpacked(data: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            held = sorted(archive.namelist())
            members = [each for each in held if _EXPORTED.fullmatch(each.rpartition("/")[2])]
            if not members:
                some = ", ".join(held[:5]) or "nothing"
                raise InvalidFile(f"{name} holds no conversations.json (it holds {some}).")
            if (size := sum(archive.getinfo(each).file_size for each in members)) > _MOST_UNPACKED:
                raise InvalidFile(
                    f"{name} would unpack to {size:,} bytes, and at most {_MOST_UNPACKED:,} are "
                    "read at once. Unpack it, and read its files one by one."
                )
            for member in members:
                yield f"{name}/{member}", archive.read(member)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InvalidFile(f"{name} is a .zip that cannot be unpacked: {error}.") from None


def _decoded(data: bytes, name: str, found: Reading) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:4096]:
        raise InvalidFile(f"{name} is a binary file, not conversations. {_EXPECTED}")
    text = data.decode("utf-8-sig", "replace")
    if not text.strip():
        raise InvalidFile(f"{name} is empty. {_EXPECTED}")
    found.skipped["unreadable character"] += text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    return text


# ---------------------------------------------------------------- text -> conversations

Conversations = Iterable[tuple[str, Any]]  # each with its position in the file


def _conversations(text: str, name: str, found: Reading) -> Conversations:
    try:
        value = _json(text)
    except ValueError as error:
        if whatsapp.fits(text):
            return [("", session) for session in whatsapp.read(text, found.skipped)]
        if text.lstrip()[0] not in "{[":
            return [("", session) for session in markdown.read(text)]
        lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or lines[0][1][-1] not in "}]":
            raise InvalidFile(f"{name} is not JSON ({error}). {_EXPECTED}") from None
        return _joined(_lines(lines, name, found))
    if isinstance(value, dict) and not {"turns", "messages", *_FORMATS} & value.keys():
        value = _unwrapped(value, name, found)
    if isinstance(value, dict):
        return [("", value)]
    if not isinstance(value, list) or not value:
        raise InvalidFile(f"{name} is JSON, but not a conversation ({value!r:.40}). {_EXPECTED}")
    return _joined([(f"conversation {n}", each) for n, each in enumerate(value, 1)])


def _unwrapped(value: dict[str, Any], name: str, found: Reading) -> list[Any]:
    """The conversations and memories of an object that has lists of them."""
    lists = {key: each for key, each in value.items() if isinstance(each, list)}
    wrapped = [each for key in _WRAPPERS for each in lists.get(key, ())]
    if not wrapped:
        keys = ", ".join(list(value)[:6]) or "no keys"
        raise InvalidFile(f"{name} is JSON, but not a conversation ({keys}). {_EXPECTED}")
    for key in lists.keys() - set(_WRAPPERS):
        found.skipped[key.removesuffix("s")] += len(lists[key])
    return wrapped


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _lines(lines: Sequence[tuple[int, str]], name: str, found: Reading) -> list[tuple[str, Any]]:
    values = []
    for number, line in lines:
        try:
            values.append((f"line {number}", _json(line)))
        except ValueError as error:
            found.problems.append(f"{name}, line {number}: not JSON ({error}).")
    if values and isinstance(values[0][1], dict) and values[0][1].get("is") == "export":
        raise InvalidFile(f"{name} is an export of JustMem: read it with `justmem import`.")
    return values


def _joined(values: Sequence[tuple[str, Any]]) -> Conversations:
    """Messages become one conversation."""
    if all(isinstance(each, dict) and {"role", "speaker"} & each.keys() for _, each in values):
        return [("", [each for _, each in values])]
    return values


# ---------------------------------------------------------------- conversations -> sessions


def _converted(value: Any, skipped: Counter[str]) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, (kind, reader) in _FORMATS.items():
            if isinstance(value.get(key), kind):
                return reader(value, skipped)
    return iter([value])


def _session(value: Any, at: object, zone: tzinfo | None, latest: datetime | None) -> Session:
    """Memories without a time get the one of the latest session."""
    if isinstance(value, dict) and "note" in value:
        when = value["at"] or at or latest
        if when is None:
            raise InputError("the memory has no date. Pass at=... (the command: --at).")
        when = as_time(when, zone)
        given = {name: value.get(name) for name in ("key", "value", "labels")}
        return as_note(value["note"], **given, at=when, until=None, now=when)
    if isinstance(value, dict):
        value = _local(value, zone)
        if value.get("turns"):
            value["turns"] = [_local(turn, zone) for turn in value["turns"]]
        if isinstance(title := value.get("title"), str) and title.strip():
            value["labels"] = {"title": title.strip()[:_LONGEST_TITLE], **value.get("labels", {})}
    return as_session(value, otherwise=at)


def _local(value: Any, zone: tzinfo | None) -> Any:
    """With UTC times as local times of the zone."""
    if not isinstance(value, dict):
        return value
    times = {key: value[key] for key in TIME_KEYS if zone and value.get(key) is not None}
    return value | {key: as_time(time, zone) for key, time in times.items()}


def _keep(session: Session, sessions: dict[str, Session], skipped: Counter[str]) -> None:
    known = sessions.setdefault(session.id, session)
    if known is not session and not session.is_note:
        if known.digest != session.digest:
            raise InputError(f"another conversation has the same id {session.id!r}.")
        skipped["repeated conversation"] += 1
