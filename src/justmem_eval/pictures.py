"""Bars as SVG, in a light and a dark version. No script and no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10

from justmem.domain import Value

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
