"""Output to the terminal: remembered text made harmless, JSON made pure."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_SEQUENCES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # operating system commands: titles, links, clipboard
    r"|[\x1b\x9b]\[?[0-?]*[ -/]*[@-~]"  # colours, cursor movement
)
# C0 except newline, C1, and the characters that change the direction of text
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]")
_UNSHOWN = re.compile(rf"{_CONTROL.pattern}|[\ud800-\udfff]")  # and surrogates
_FILL = re.compile(r" +$", re.MULTILINE)
_UNWRAPPED = 100_000  # columns: longer than any line


def plain(text: object, *, one_line: bool = False) -> str:
    """The text without anything that a terminal would obey."""
    shown = str(text).replace("\t", " ").replace("\r\n", "\n")
    shown = _CONTROL.sub("", _SEQUENCES.sub("", shown))
    shown = shown.encode("utf-8", "replace").decode()
    return " ".join(shown.split()) if one_line else shown


def words(text: object, style: str = "", *, one_line: bool = False) -> Text:
    """The same as rich text. It is never read as markup."""
    from rich.text import Text

    return Text(plain(text, one_line=one_line), style=style)


def out() -> Console:
    """The console for data. Piped output is not wrapped, unless COLUMNS is set."""
    return _console(stderr=False)


def err() -> Console:
    """The console for messages about the data."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.width = shutil.get_terminal_size((_UNWRAPPED, 24)).columns
        made.file = _Trimmed(made.file)  # type: ignore[assignment]
    return made


class _Trimmed:
    """Removes the spaces with which rich fills the lines of a table."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(_FILL.sub("", text)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def amount(count: int, noun: str) -> str:
    """`1 card`, `1,200 cards`, `3 entries`."""
    several = f"{noun[:-1]}ies" if noun.endswith(("ry", "ly")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def say(text: object, style: str = "") -> None:
    err().print(words(text, style), soft_wrap=True)


def show_download() -> Callable[[str, int, int], None]:
    """Prints the progress of a download: at the start and at each tenth."""
    shown: dict[str, int] = {}

    def report(name: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 0
        if shown.get(name, -1) < tenth:
            verb = "Fetching" if name not in shown else "        "
            shown[name] = tenth
            say(f"{verb} {name}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", "dim")

    return report


def print_json(value: Any) -> None:
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    text = json.dumps(value, indent=2, ensure_ascii=not encoding.startswith("utf"))
    text = _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(text + "\n")


def show(value: Any, json: bool, render: Callable[[Any], Any]) -> None:
    """Prints a result as JSON, or as what `render` makes of it: a text, a table, ..."""
    if json:
        print_json(_as_data(value))
        return
    shown = render(value)
    out().print(words(shown) if isinstance(shown, str) else shown, soft_wrap=isinstance(shown, str))


def show_list(values: Sequence[Any], json: bool, render: Callable[[Any], Any], noun: str) -> None:
    """The same for a list, with the number of its items below."""
    if values or json:
        show(values, json, render)
    if not json:
        say(amount(len(values), noun), "dim")


def _as_data(value: Any) -> Any:
    from justmem.domain import dump

    if isinstance(value, list | tuple):
        return [_as_data(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return dump(value) if hasattr(value, "model_dump") else value
