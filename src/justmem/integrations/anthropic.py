"""Anthropic memory tool: each file under /memories is a note.

The replies are those of the SDK's file-system tool. A directory exists while it contains a file.
"""

from __future__ import annotations

import posixpath
from typing import Any

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool

from justmem.integrations.safe import SafeMemory, wait
from justmem.memory import AsyncMemory

_ROOT = "/memories"
_LONGEST = 100_000  # characters that recall can find; the file itself may be longer
_DEPTH = 2  # levels that a listing shows


class AsyncJustMemMemoryTool(BetaAsyncAbstractMemoryTool):
    """For AsyncAnthropic. Errors of memory are raised. The SDK's tool runner logs them, reports
    them to the model and continues."""

    def __init__(self, memory: SafeMemory, **options: Any) -> None:
        super().__init__(**options)
        self._memory = memory

    async def view(self, command: Any) -> str:
        path = _path(command.path)
        async with self._memory.using() as memory:
            files = await _files(memory)
        if path in files:
            return _numbered(command.path, files[path], command.view_range)
        if not _is_directory(path, files):
            raise _missing(command.path)
        return _listing(command.path, path, files)

    async def create(self, command: Any) -> str:
        path = _path(command.path)
        async with self._memory.using() as memory:
            files = await _files(memory)
            if path in files or _is_directory(path, files):
                raise ToolError(f"File {command.path} already exists")
            _check_parents(path, files)
            await _write(memory, path, command.file_text)
        return f"File created successfully at: {command.path}"

    async def str_replace(self, command: Any) -> str:
        path, old = _path(command.path), command.old_str
        async with self._memory.using() as memory:
            text = _text(command.path, path, await _files(memory))
            places = [at for at in range(len(text) + 1) if text.startswith(old, at)]
            if not places:
                raise ToolError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in "
                    f"{command.path}."
                )
            first = text[: places[0]].count("\n")
            if text.count(old) > 1:
                lines = ", ".join(str(text[:at].count("\n") + 1) for at in places)
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in "
                    f"lines: {lines}. Please ensure it is unique"
                )
            new = text.replace(old, command.new_str)
            await _write(memory, path, new)
        begin = max(0, first - 2)
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line "
            f"numbers):\n{_lines(new.split(chr(10))[begin : first + 3], begin + 1)}"
        )

    async def insert(self, command: Any) -> str:
        path = _path(command.path)
        async with self._memory.using() as memory:
            lines = _text(command.path, path, await _files(memory)).split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. It should be within "
                    f"the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            text = "\n".join(lines)
            await _write(memory, path, text if text.endswith("\n") else f"{text}\n")
        return f"The file {command.path} has been edited."

    async def delete(self, command: Any) -> str:
        path = _path(command.path)
        if path == _ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        async with self._memory.using() as memory:
            gone = _inside(path, await _files(memory))
            if not gone:
                raise ToolError(f"The path {command.path} does not exist")
            for name in gone:
                await memory.forget(key=name)
        return f"Successfully deleted {command.path}"

    async def rename(self, command: Any) -> str:
        old, new = _path(command.old_path), _path(command.new_path)
        if old == _ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        async with self._memory.using() as memory:
            files = await _files(memory)
            if new in files or _is_directory(new, files):
                raise ToolError(f"The destination {command.new_path} already exists")
            moved = _inside(old, files)
            if not moved:
                raise ToolError(f"The path {command.old_path} does not exist")
            _check_parents(new, files)
            if new.startswith(f"{old}/"):
                raise ToolError(f"The path {command.old_path} cannot be moved into itself")
            for name in moved:
                await _write(memory, new + name.removeprefix(old), files[name])
                await memory.forget(key=name)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def clear_all_memory(self) -> str:
        async with self._memory.using() as memory:
            for name in await _files(memory):
                await memory.forget(key=name)
        return "All memory cleared"


def _synchronous(name: str) -> Any:
    def method(self: JustMemMemoryTool, command: Any) -> str:
        return str(wait(getattr(self._tool, name)(command)))

    return method


class JustMemMemoryTool(BetaAbstractMemoryTool):
    """For Anthropic, the synchronous client."""

    def __init__(self, memory: SafeMemory, **options: Any) -> None:
        super().__init__(**options)
        self._tool = AsyncJustMemMemoryTool(memory)

    view = _synchronous("view")
    create = _synchronous("create")
    str_replace = _synchronous("str_replace")
    insert = _synchronous("insert")
    delete = _synchronous("delete")
    rename = _synchronous("rename")

    def clear_all_memory(self) -> str:
        return wait(self._tool.clear_all_memory())


# ---------------------------------------------------------------- files and notes

Files = dict[str, str]  # path -> text; the path is the key of the note


async def _files(memory: AsyncMemory) -> Files:
    return {note.key: str(note.value) for note in await memory.notes(f"{_ROOT}/")}


async def _write(memory: AsyncMemory, path: str, text: str) -> None:
    """The value is the exact text. The card is what recall finds."""
    await memory.note(text[:_LONGEST] if text.strip() else path, key=path, value=text)


def _path(given: str) -> str:
    if not given.startswith(_ROOT):
        raise ToolError(f"Path must start with /memories, got: {given}")
    inner = posixpath.normpath(given.removeprefix(_ROOT).lstrip("/") or ".")
    if inner.split("/")[0] == "..":
        raise ToolError(f"Path {given} would escape /memories directory")
    return _ROOT if inner == "." else f"{_ROOT}/{inner}"


def _inside(path: str, files: Files) -> list[str]:
    """The file at a path, or all files of a directory."""
    return [name for name in files if name == path or name.startswith(f"{path}/")]


def _is_directory(path: str, files: Files) -> bool:
    return path == _ROOT or any(name.startswith(f"{path}/") for name in files)


def _check_parents(path: str, files: Files) -> None:
    for name in files:
        if path.startswith(f"{name}/"):
            raise ToolError(f"{name} is a file, not a directory")


def _text(given: str, path: str, files: Files) -> str:
    if path in files:
        return files[path]
    if _is_directory(path, files):
        raise ToolError(f"The path {given} is not a file.")
    raise _missing(given)


def _missing(given: str) -> ToolError:
    return ToolError(f"The path {given} does not exist. Please provide a valid path.")


# ---------------------------------------------------------------- replies


def _listing(given: str, path: str, files: Files) -> str:
    sizes: dict[tuple[str, ...], str] = {}
    for name in _inside(path, files):
        parts = tuple(name.removeprefix(f"{path}/").split("/"))
        visible = next((n for n, part in enumerate(parts) if part.startswith(".")), len(parts))
        for depth in range(1, min(visible, _DEPTH) + 1):
            whole = depth == len(parts)
            sizes[parts[:depth]] = _size(len(files[name].encode())) if whole else ""
    lines = [f"4K\t{given}"]
    for parts, size in sorted(sizes.items()):
        shown = "/".join(parts)
        lines.append(f"{size}\t{given}/{shown}" if size else f"4K\t{given}/{shown}/")
    head = f"Here're the files and directories up to 2 levels deep in {given}, "
    return f"{head}excluding hidden items:\n" + "\n".join(lines)


def _size(count: float) -> str:
    unit = "B"
    for larger in "KM":
        if count >= 1024:
            count, unit = count / 1024, larger
    return f"{count:.0f}{unit}" if count == int(count) else f"{count:.1f}{unit}"


def _numbered(given: str, text: str, span: list[int] | None) -> str:
    lines, start = text.split("\n"), 0
    if span and len(span) == 2:
        start = max(1, span[0]) - 1
        lines = lines[start : len(lines) if span[1] == -1 else span[1]]
    return f"Here's the content of {given} with line numbers:\n{_lines(lines, start + 1)}"


def _lines(lines: list[str], start: int) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, start))
