"""Files of conversations -> Sessions.

Formats: JSON (one session, a list of sessions, a list of messages), JSON Lines (a session or a
message per line), the exports of ChatGPT and Claude (.zip, unpacked folder or conversations.json),
exports of WhatsApp, mem0 and Zep, Markdown and plain text. The content of a file decides its
format, not its name.
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
from datetime import tzinfo
from pathlib import Path
from typing import Any

from justmem.domain import Session
from justmem.edits.notes import as_note
from justmem.errors import InputError, InvalidFile
from justmem.intake.sessions import TIME_KEYS, as_session, as_time
from justmem.transcripts import chatgpt, claude, facts, markdown, whatsapp

__all__ = ["Reading", "read", "read_bytes"]

EXPECTED = (
    "Expected a JSON session, a list of sessions or messages, JSON Lines with a session per line, "
    "text, or an export of ChatGPT, Claude (.zip or conversations.json), WhatsApp, mem0 or Zep."
)
_LARGEST = 2 << 30  # bytes of an archive's files, unpacked: more is a mistake or a trap
_PIECE = 1 << 20
_LONGEST_TITLE = 200
_EXPORTED = re.compile(
    r"conversations([-_]\d+)?\.json|(memories|projects)\.json|_chat\.txt|WhatsApp Chat .*\.txt"
)
_WRAPPERS = ("conversations", "sessions", "results", "memories", "edges", "facts")

# The key that shows what a JSON object is, the type of its value, and its reader. A reader yields
# sessions as dicts, and notes as dicts with `note`, `key`, `at` and `value`.
Reader = Callable[[dict[str, Any], Counter[str]], Iterator[dict[str, Any]]]
FORMATS: Mapping[str, tuple[type, Reader]] = {
    "mapping": (dict, chatgpt.read),
    "chat_messages": (list, claude.read),
    "conversations_memory": (str, claude.read_memories),
    "docs": (list, claude.read_project),
    "messages": (list, facts.read_zep_thread),
    "memory": (str, facts.read_mem0),
    "fact": (str, facts.read_zep),
}


@dataclass(frozen=True)
class Reading:
    """The sessions of a file. `problems` names each conversation that could not be read, `skipped`
    counts the content that is not imported, and `notes` lists the adjustments."""

    sessions: Sequence[Session] = ()
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass
class _Found:
    name: str
    at: object
    zone: tzinfo | None
    sessions: dict[str, Session] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def read(path: str | Path, *, at: object = None, zone: tzinfo | None = None) -> Reading:
    """`at` is the time of sessions that have none. UTC times become local times of `zone`.
    InvalidFile if nothing in the file can be read."""
    path = Path(path)
    try:
        if path.is_dir():
            members = sorted(p for p in path.rglob("*") if _EXPORTED.fullmatch(p.name))
            if not members:
                raise InvalidFile(f"{path} is a folder without a conversations.json. {EXPECTED}")
            files = ((str(p), p.read_bytes()) for p in members)
            return _read(files, _Found(str(path), at, zone))
        return read_bytes(path.read_bytes(), name=str(path), at=at, zone=zone)
    except FileNotFoundError:
        raise InvalidFile(f"There is no file {path}.") from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}.") from None


def read_bytes(
    data: bytes, *, name: str = "input", at: object = None, zone: tzinfo | None = None
) -> Reading:
    """As `read`, for the content of a file."""
    files = _unpacked(data, name) if data.startswith(b"PK\x03\x04") else [(name, data)]
    return _read(files, _Found(name, at, zone))


def _read(files: Iterable[tuple[str, bytes]], found: _Found) -> Reading:
    for member, data in files:
        found.name = member
        text = _decoded(data, found)
        for where, value in _values(text, found):
            _take(where, value, found)
    if found.problems and not found.sessions:
        more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
        raise InvalidFile(f"{found.problems[0]}{more}")
    return Reading(tuple(found.sessions.values()), found.problems, found.notes, +found.skipped)


# ---------------------------------------------------------------- bytes -> text


def _unpacked(data: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [
                info
                for info in sorted(archive.infolist(), key=lambda info: info.filename)
                if _EXPORTED.fullmatch(info.filename.rpartition("/")[2])
            ]
            if not members:
                held = ", ".join(archive.namelist()[:5]) or "nothing"
                raise InvalidFile(f"{name} holds no conversations.json (it holds {held}).")
            if sum(info.file_size for info in members) > _LARGEST:
                raise InvalidFile(
                    f"{name} unpacks to more than {_LARGEST >> 20:,} MiB: unpack it and give its "
                    "conversations files one by one."
                )
            for info in members:
                yield f"{name}/{info.filename}", _member(archive, info)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InvalidFile(f"{name} is a damaged .zip ({error}): download it again.") from None
    except (RuntimeError, NotImplementedError) as error:
        raise InvalidFile(f"{name} cannot be unpacked: {error}.") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Reads in pieces, so that a false size in the archive cannot fill the memory."""
    data = bytearray()
    with archive.open(info) as member:
        while piece := member.read(_PIECE):
            data += piece
    return bytes(data)


def _decoded(data: bytes, found: _Found) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:4096]:
        raise InvalidFile(f"{found.name} is a binary file, not conversations. {EXPECTED}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8-sig", "replace")
        found.notes.append(
            f"{found.name}: not valid UTF-8 at byte {error.start}; what cannot be read became �."
        )
    if not text.strip():
        raise InvalidFile(f"{found.name} is empty. {EXPECTED}")
    return text


# ---------------------------------------------------------------- text -> values


def _values(text: str, found: _Found) -> Iterator[tuple[str, Any]]:
    """Each conversation of the file, with its position."""
    try:
        value = _json(text)
    except ValueError as error:
        if whatsapp.fits(text):
            yield from (("", session) for session in whatsapp.read(text, found.skipped))
            return
        if text.lstrip()[0] not in "{[":
            yield from (("", session) for session in markdown.read(text))
            return
        lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) < 2 or not _opens(lines[0][1]):
            raise InvalidFile(f"{found.name}, {_place(error)}. {EXPECTED}") from None
        yield from _lines(lines, found)
        return
    yield from _conversations(value, found)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _opens(line: str) -> bool:
    """Whether a line begins and ends like JSON."""
    line = line.strip()
    return (line[0], line[-1]) in (("{", "}"), ("[", "]"))


def _lines(lines: Sequence[tuple[int, str]], found: _Found) -> Iterator[tuple[str, Any]]:
    messages: list[Any] = []
    for number, line in lines:
        try:
            value = _json(line)
        except ValueError as error:
            found.problems.append(f"{found.name}, line {number}: {_place(error)}.")
            continue
        if isinstance(value, dict) and value.get("is") == "export" and "justmem" in value:
            raise InvalidFile(
                f"{found.name} is an export of JustMem: read it with `justmem import`."
            )
        if _is_message(value):
            messages.append(value)
        else:
            yield f"line {number}", value
    if messages:
        yield "its messages", messages


def _place(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: not JSON ({error.msg})"
    return f"not JSON ({error})"


def _conversations(value: Any, found: _Found) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and not _is_conversation(value):
        inner = next((value[key] for key in _WRAPPERS if isinstance(value.get(key), list)), None)
        if inner is None:
            keys = ", ".join(list(value)[:6]) or "no keys"
            raise InvalidFile(f"{found.name} is JSON, but not a conversation ({keys}). {EXPECTED}")
        value = inner
    if isinstance(value, dict):
        yield "", value
    elif not isinstance(value, list):
        raise InvalidFile(f"{found.name} holds only a {type(value).__name__}. {EXPECTED}")
    elif not value:
        raise InvalidFile(f"{found.name} is an empty list. {EXPECTED}")
    elif all(map(_is_message, value)):
        yield "", value
    else:
        yield from ((f"conversation {n}", item) for n, item in enumerate(value, 1))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and bool({"role", "speaker"} & value.keys())


def _is_conversation(value: dict[str, Any]) -> bool:
    return bool({"turns", *FORMATS} & value.keys())


# ---------------------------------------------------------------- values -> sessions


def _take(where: str, value: Any, found: _Found) -> None:
    place = f"{found.name}, {where}" if where else found.name
    try:
        for each in _sessions(value, found):
            if isinstance(each, dict) and each.get("turns", each.get("messages")) == []:
                found.skipped["blank conversation"] += 1
            else:
                _keep(place, _session(each, found), found)
    except InputError as error:
        found.problems.append(f"{place}: {error}")


def _sessions(value: Any, found: _Found) -> Iterator[Any]:
    for key, (kind, reader) in FORMATS.items():
        if isinstance(value, dict) and isinstance(value.get(key), kind):
            return reader(value, found.skipped)
    return iter([value])


def _session(value: Any, found: _Found) -> Session:
    if isinstance(value, dict) and "note" in value:
        latest = max((session.at for session in found.sessions.values()), default=None)
        at = value["at"] or found.at or latest
        if at is None:
            raise InputError(
                "the memory does not say since when it holds: pass at=... (the command: --at)."
            )
        at = as_time(at, found.zone)
        given = {name: value.get(name) for name in ("key", "value", "labels")}
        return as_note(value["note"], **given, at=at, until=None, now=at)
    if isinstance(value, dict):
        value = _local(value, found.zone)
        if value.get("turns"):
            value["turns"] = [_local(turn, found.zone) for turn in value["turns"]]
        if isinstance(title := value.get("title"), str) and title.strip():
            value["labels"] = {"title": title.strip()[:_LONGEST_TITLE], **value.get("labels", {})}
    return as_session(value, otherwise=found.at)


def _local(value: Any, zone: tzinfo | None) -> Any:
    """With UTC times as local times of the zone."""
    if not isinstance(value, dict):
        return value
    times = {key: value[key] for key in TIME_KEYS if zone and value.get(key) is not None}
    return value | {key: as_time(time, zone) for key, time in times.items()}


def _keep(place: str, session: Session, found: _Found) -> None:
    """Keeps a repeated session once. A different session with the same id gets another id."""
    if session.is_note and session.id in found.sessions:
        return
    name, number = session.id, 1
    while (known := found.sessions.get(name)) is not None:
        if known.digest == session.digest:
            found.notes.append(f"{place}: the same session again ({session.id}), read once.")
            return
        number += 1
        name = f"{session.id}~{number}"
    if name != session.id:
        found.notes.append(f"{place}: the id {session.id} is taken, kept as {name}.")
        session = session.model_copy(update={"id": name})
    found.sessions[name] = session
