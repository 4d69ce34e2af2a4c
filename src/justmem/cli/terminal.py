"""Output to the terminal: remembered text made harmless, JSON made pure."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

JSON: ContextVar[bool] = ContextVar("JSON", default=False)  # whether results are printed as JSON
_SEQUENCES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # operating system commands: titles, links, clipboard
    r"|[\x1b\x9b]\[?[0-?]*[ -/]*[@-~]"  # colours, cursor movement
)
# C0 except newline, C1, and the characters that change the direction of text
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]")
_UNSHOWN = re.compile(rf"{_CONTROL.pattern}|[\ud800-\udfff]")  # and surrogates
_FILL = re.compile(r" +$", re.MULTILINE)  # rich fills the lines of a table
_UNWRAPPED = 100_000  # columns: longer than any line


def plain(text: object, *, one_line: bool = False) -> str:
    """The text without anything that a terminal would obey."""
    shown = str(text).replace("\t", " ").replace("\r\n", "\n")
    shown = _CONTROL.sub("", _SEQUENCES.sub("", shown))
    shown = shown.encode("utf-8", "replace").decode()
    return " ".join(shown.split()) if one_line else shown


def words(text: object, style: str = "") -> Text:
    """The text for rich. It is never read as markup."""
    from rich.text import Text

    return Text(plain(text), style=style)


def line(*parts: object | tuple[object, str]) -> Text:
    """One line of texts and of (text, style)."""
    from rich.text import Text

    pairs = [part if isinstance(part, tuple) else (part, "") for part in parts]
    return Text.assemble(*((plain(text).replace("\n", " "), style) for text, style in pairs))


def console(*, stderr: bool = False) -> Console:
    """Piped output is not wrapped, unless COLUMNS is set."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.width = shutil.get_terminal_size((_UNWRAPPED, 24)).columns
    return made


def amount(count: int, noun: str) -> str:
    """`1 card`, `1,200 cards`, `3 entries`."""
    several = f"{noun[:-1]}ies" if noun.endswith(("ry", "ly")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def say(text: object, colour: str | None = None) -> None:
    """A message about the data, on standard error."""
    typer.secho(plain(text), fg=colour, err=True)


def show_download(name: str, size: int) -> None:
    say(f"Downloading {name}: {size / 1e6:,.0f} MB")


def show(value: Any, render: Callable[[Any], Any] = str) -> None:
    """Prints a result as JSON, or as what `render` makes of it: a text, a table or a list of
    both."""
    if JSON.get():
        _print_json(value)
        return
    shown = render(value)
    if isinstance(shown, str):
        typer.echo(plain(shown))
    else:
        show_parts(shown if isinstance(shown, list) else [shown])


def show_parts(parts: list[Any]) -> None:
    screen = console()
    with screen.capture() as drawn:
        screen.print(*parts, sep="\n")
    typer.echo(_FILL.sub("", drawn.get()), nl=False)


def show_list(values: Sequence[Any], render: Callable[[Any], Any], noun: str) -> None:
    """The same for a list, with the number of its items below."""
    if values or JSON.get():
        show(values, render)
    if not JSON.get():
        say(amount(len(values), noun))


def _print_json(value: Any) -> None:
    from pydantic_core import to_jsonable_python

    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    data = to_jsonable_python(value)
    text = json.dumps(data, indent=2, ensure_ascii=not encoding.startswith("utf"))
    text = _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(text + "\n")
