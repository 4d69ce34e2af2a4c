"""Published figures: the evaluation writes them to a file, the documents take them from it.

    docs/figures.json   name -> value, n, command, date, version
    in a document       <!-- figure: NAME -->86.2

A number after such a mark is the file's, rounded to as many places as are written. `bars` draws a
picture: bars as SVG, in a light and a dark version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from html import escape
from math import log10
from pathlib import Path

from pydantic import TypeAdapter

import justmem
from justmem.domain import Value
from justmem.errors import InvalidFile
from justmem_eval.metrics import Figures
from justmem_eval.records import write_json
from justmem_eval.results import Measured

# Figures that a document may need.
_PUBLISHED = (
    "turn.ten.fraction",
    "turn.read.fraction",
    "turn.spanning.fraction",
    "session.ten.fraction",
    "session.read.fraction",
    "sessions_at_5.any",
    "sessions_at_5.all",
    "source_hit",
    "answers.rests",
    "answers.misled",
    "answers.words",
    "costs.cards_read",
    "costs.turns_at_10",
    "costs.turns_claimed",
    "costs.nothing_read",
    "tokens.evidence",
)
# Beside these, of a system in a process of its own.
_OF_PROCESS = (
    "by_words.turn.ten.fraction",
    "by_words.session.ten.fraction",
    "calls.construction",
    "calls.planning",
    "tokens.construction",
    "tokens.planning",
    "process.build_cpu_s",
    "process.ask_cpu_ms",
    "process.disk_kb",
    "process.peak_mb",
)
_MARKED = re.compile(r"(<!-- figure: (?P<name>\S+) -->\**)(?P<number>\d[\d,]*(?:\.\d+)?)")


class Published(Value):
    value: float
    n: int
    command: str
    date: date
    version: str


def read(path: Path) -> dict[str, Published]:
    if not path.exists():
        return {}
    try:
        return TypeAdapter(dict[str, Published]).validate_json(path.read_bytes())
    except ValueError as error:
        raise InvalidFile(f"{path} is not a file of figures ({error}).") from error


def write(path: Path, name: str, found: Figures, command: str) -> None:
    """Adds the figures of one run, or replaces those it had under the same name."""
    kept = {key: each for key, each in read(path).items() if not key.startswith(f"{name}.")}
    today = datetime.now(UTC).date()
    for key, each in found.items():
        if each.value is not None:
            kept[f"{name}.{key}"] = Published(
                value=round(each.value, 4),
                n=each.n,
                command=command,
                date=today,
                version=justmem.__version__,
            )
    write_json(path, {key: json.loads(kept[key].model_dump_json()) for key in sorted(kept)})


def of_run(found: Measured) -> Figures:
    names = (*_PUBLISHED, *(_OF_PROCESS if found["process.peak_mb"].n else ()))
    return {name: found[name] for name in names}


def filled(text: str, figures: Mapping[str, Published]) -> str:
    """The text with each marked number as the file has it."""

    def one(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in figures:
            raise InvalidFile(f"A document shows the figure {name}, which no run has written.")
        places = len(match["number"].partition(".")[2])
        return f"{match[1]}{figures[name].value:,.{places}f}"

    return _MARKED.sub(one, text)


# ---------------------------------------------------------------- as a picture

_WIDTH, _LEFT, _LINE, _TOP = 860, 130, 30, 58
THEMES = {
    "light": {"text": "#1f2328", "faint": "#656d76", "ours": "#0969da", "theirs": "#afb8c1"},
    "dark": {"text": "#e6edf3", "faint": "#8d96a0", "ours": "#4493f8", "theirs": "#57606a"},
}


class Bar(Value):
    name: str
    values: tuple[float | None, ...]  # one for each panel
    ours: bool = False


class Panel(Value):
    title: str
    logarithmic: bool = False
    most: float | None = None  # the right end; None: the largest value


def bars(title: str, panels: Sequence[Panel], rows: Sequence[Bar], theme: str) -> str:
    """A row for each system, a panel for each measure. Every bar has its value beside it."""
    colours = THEMES[theme]
    height = _TOP + _LINE * len(rows) + 12
    room = (_WIDTH - _LEFT) / len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13"><title>{escape(title)}</title>'
    ]
    for number, panel in enumerate(panels):
        x = _LEFT + number * room
        parts.append(_text(x, 38, panel.title, colours["faint"]))
        values = [row.values[number] for row in rows]
        top = panel.most or max((v for v in values if v is not None), default=1.0) or 1.0
        for place, row in enumerate(rows):
            y = _TOP + place * _LINE
            value = row.values[number]
            if not number:
                parts.append(_text(_LEFT - 10, y + 15, row.name, colours["text"], "end"))
            if value is None:
                parts.append(_text(x, y + 15, "-", colours["faint"]))
                continue
            length = (room - 84) * _share(value, top, logarithmic=panel.logarithmic)
            fill = colours["ours" if row.ours else "theirs"]
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 2}" width="{length:.1f}" height="18" rx="3" '
                f'fill="{fill}"/>'
            )
            shown = f"{value:,.0f}" if top > 100 else f"{value:.1f}"
            parts.append(_text(x + length + 6, y + 15, shown, colours["text"]))
    parts.append(_text(0, 16, title, colours["text"], weight="600"))
    return "".join([*parts, "</svg>\n"])


def _share(value: float, top: float, *, logarithmic: bool) -> float:
    if logarithmic:
        return log10(1 + value) / log10(1 + top)
    return min(1.0, value / top)


def _text(
    x: float, y: float, text: str, fill: str, anchor: str = "start", weight: str = "400"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
