"""Anthropic memory tool: each file under /memories is a note.

The replies are those of the SDK's file-system tool. A directory exists while it contains a file.
"""

from __future__ import annotations

import posixpath
from typing import Any

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool

from justmem.integrations.safe import SafeMemory, wait

_ROOT = "/memories"
_LONGEST = 100_000  # characters that recall can find; the file itself may be longer
_DEPTH = 2  # levels that a listing shows


class AsyncJustMemMemoryTool(BetaAsyncAbstractMemoryTool):
    """For AsyncAnthropic. Errors of memory are raised. The SDK's tool runner logs them, reports
    them to the model and continues."""

    def __init__(self, memory: SafeMemory, **options: Any) -> None:
        super().__init__(**options)
        self._memory = memory

    async def execute(self, command: Any) -> str:
        async with self._memory.using() as memory:
            known = {note.key: str(note.value) for note in await memory.notes(f"{_ROOT}/")}
            files = _Files(known)
            reply: str = getattr(files, command.command)(command)
            for path, text in files.items() - known.items():
                # The value is the exact text. The card is what recall finds.
                await memory.note(text[:_LONGEST].strip() or path, key=path, value=text)
            for path in known.keys() - files.keys():
                await memory.forget(key=path)
        return reply

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        async with self._memory.using() as memory:
            for note in await memory.notes(f"{_ROOT}/"):
                await memory.forget(key=note.key)
        return "All memory cleared"


class JustMemMemoryTool(BetaAbstractMemoryTool):
    """For Anthropic, the synchronous client."""

    def __init__(self, memory: SafeMemory, **options: Any) -> None:
        super().__init__(**options)
        self._tool = AsyncJustMemMemoryTool(memory)

    def execute(self, command: Any) -> str:
        return wait(self._tool.execute(command))

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        return wait(self._tool.clear_all_memory())


class _Files(dict[str, str]):
    """Path -> text, with a method for each command. A method changes the files and replies."""

    def view(self, command: Any) -> str:
        path = _path(command.path)
        if path not in self and self._is_directory(path):
            return self._listing(command.path, path)
        lines, start = self._text(command.path).split("\n"), 0
        if command.view_range:
            start, end = command.view_range
            start = max(1, start) - 1
            lines = lines[start : None if end == -1 else end]
        head = f"Here's the content of {command.path} with line numbers:"
        return f"{head}\n{_numbered(lines, start + 1)}"

    def create(self, command: Any) -> str:
        self._check_new(_path(command.path), f"File {command.path} already exists")
        self[_path(command.path)] = command.file_text
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: Any) -> str:
        text, old = self._text(command.path), command.old_str
        places = [at for at in range(len(text) + 1) if text.startswith(old, at)]
        if not places:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in "
                f"{command.path}."
            )
        if text.count(old) > 1:
            numbers = ", ".join(str(text[:at].count("\n") + 1) for at in places)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in "
                f"lines: {numbers}. Please ensure it is unique"
            )
        self[_path(command.path)] = new = text.replace(old, command.new_str)
        line = text[: places[0]].count("\n")
        begin = max(0, line - 2)
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line "
            f"numbers):\n{_numbered(new.split(chr(10))[begin : line + 3], begin + 1)}"
        )

    def insert(self, command: Any) -> str:
        lines = self._text(command.path).removesuffix("\n").split("\n")
        if lines == [""]:
            lines = []
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. It should be within "
                f"the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        self[_path(command.path)] = "\n".join(lines).removesuffix("\n") + "\n"
        return f"The file {command.path} has been edited."

    def delete(self, command: Any) -> str:
        for name in self._inside(command.path, "delete"):
            del self[name]
        return f"Successfully deleted {command.path}"

    def rename(self, command: Any) -> str:
        old, new = _path(command.old_path), _path(command.new_path)
        moved = self._inside(command.old_path, "rename")
        self._check_new(new, f"The destination {command.new_path} already exists")
        if new.startswith(f"{old}/"):
            raise ToolError(f"The path {command.old_path} cannot be moved into itself")
        for name in moved:
            self[new + name.removeprefix(old)] = self.pop(name)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    # ------------------------------------------------------------ paths

    def _is_directory(self, path: str) -> bool:
        return path == _ROOT or any(name.startswith(f"{path}/") for name in self)

    def _text(self, given: str) -> str:
        path = _path(given)
        if path not in self:
            if self._is_directory(path):
                raise ToolError(f"The path {given} is not a file.")
            raise ToolError(f"The path {given} does not exist. Please provide a valid path.")
        return self[path]

    def _inside(self, given: str, verb: str) -> list[str]:
        """The file at a path, or all files of a directory."""
        path = _path(given)
        if path == _ROOT:
            raise ToolError(f"Cannot {verb} the /memories directory itself")
        found = [name for name in self if f"{name}/".startswith(f"{path}/")]
        if not found:
            raise ToolError(f"The path {given} does not exist")
        return found

    def _check_new(self, path: str, taken: str) -> None:
        if path in self or self._is_directory(path):
            raise ToolError(taken)
        for name in self:
            if path.startswith(f"{name}/"):
                raise ToolError(f"{name} is a file, not a directory")

    def _listing(self, given: str, path: str) -> str:
        sizes: dict[tuple[str, ...], str] = {}  # of files; empty for directories
        for name in self:
            if name.startswith(f"{path}/"):
                parts = tuple(name.removeprefix(f"{path}/").split("/"))
                for depth in range(1, min(len(parts), _DEPTH) + 1):
                    if parts[depth - 1].startswith("."):
                        break
                    is_file = depth == len(parts)
                    sizes[parts[:depth]] = _size(len(self[name].encode())) if is_file else ""
        lines = [f"4K\t{given}"]
        for parts, size in sorted(sizes.items()):
            shown = f"{given}/{'/'.join(parts)}"
            lines.append(f"{size}\t{shown}" if size else f"4K\t{shown}/")
        head = f"Here're the files and directories up to 2 levels deep in {given}, "
        return f"{head}excluding hidden items:\n" + "\n".join(lines)


def _path(given: str) -> str:
    if not given.startswith(_ROOT):
        raise ToolError(f"Path must start with /memories, got: {given}")
    inner = posixpath.normpath(given.removeprefix(_ROOT).lstrip("/") or ".")
    if inner.split("/")[0] == "..":
        raise ToolError(f"Path {given} would escape /memories directory")
    return _ROOT if inner == "." else f"{_ROOT}/{inner}"


def _size(count: float) -> str:
    unit = "B"
    for larger in "KM":
        if count >= 1024:
            count, unit = count / 1024, larger
    return f"{count:.0f}{unit}" if count == int(count) else f"{count:.1f}{unit}"


def _numbered(lines: list[str], start: int) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, start))
