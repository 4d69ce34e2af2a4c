"""Plots as inline SVG. No script, no network, readable in light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

from justmem.domain import Value

_LETTER = 6.4  # pixels a letter takes, about
COLOURS = ("#2f6fb0", "#c2571a", "#3b8a4f", "#8a4fa3", "#a33a4f", "#6b7280", "#b08a1a")


class Point(Value):
    name: str
    x: float
    y: float
    ours: bool = False


def scatter(points: Sequence[Point], x_title: str, y_title: str) -> str:
    """Logarithmic in x: token budgets differ by a hundredfold."""
    if not points:
        return ""
    width, height, left, bottom = 760, 420, 56, 46
    xs = [log10(max(p.x, 0.01)) for p in points]
    low_x, high_x = min(xs) - 0.15, max(xs) + 0.15
    low_y = max(0.0, min(p.y for p in points) - 6)
    high_y = min(100.0, max(p.y for p in points) + 6)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - low_x) / (high_x - low_x)
        up = (y - low_y) / (high_y - low_y)
        return left + across * (width - left - 16), height - bottom - up * (height - bottom - 16)

    parts = [_open(width, height)]
    for tick in _log_ticks(low_x, high_x):
        x, y = place(log10(tick), low_y)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="16" x2="{x:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(x, y + 16, f"{tick:g}", "middle"))
    for tick_y in _ticks(low_y, high_y):
        x, y = place(low_x, tick_y)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" y1="{y:.1f}" x2="{width - 16}" y2="{y:.1f}"/>'
        )
        parts.append(_text(x - 6, y + 4, f"{tick_y:g}", "end"))
    taken: list[Box] = []
    for point, log_x in zip(points, xs, strict=True):
        x, y = place(log_x, point.y)
        shape = "ours" if point.ours else "theirs"
        title = f"<title>{escape(point.name)}: {point.y:.2f} at {point.x:.2f}K</title>"
        parts.append(f'<circle class="{shape}" cx="{x:.1f}" cy="{y:.1f}" r="5">{title}</circle>')
        room = _LETTER * len(point.name)
        if x + 9 + room > width:  # at the right edge a label stands before its point
            at = _free(x - 9 - room, y + 4, room, taken)
            parts.append(_text(x - 9, at[1], point.name, "end", "label"))
        else:
            at = _free(x + 9, y + 4, room, taken)
            parts.append(_text(*at, point.name, "start", "label"))
    parts.append(_text(width / 2, height - 8, x_title, "middle", "axis"))
    parts.append(
        f'<text class="axis" text-anchor="middle" transform="translate(14 {height / 2 - 16}) '
        f'rotate(-90)">{escape(y_title)}</text></svg>'
    )
    return "".join(parts)


Box = tuple[float, float, float]  # left, baseline, width


def _free(x: float, y: float, room: float, taken: list[Box]) -> tuple[float, float]:
    """A label moves down until no other stands there."""
    while any(abs(y - b) < 13 and x < a + w and a < x + room for a, b, w in taken):
        y += 13
    taken.append((x, y, room))
    return x, y


def bars(groups: Mapping[str, Mapping[str, float | None]], unit: str = "%") -> str:
    """Horizontal bars: for each group a bar of each series, drawn to the same scale."""
    series = list(dict.fromkeys(name for values in groups.values() for name in values))
    values = [v for row in groups.values() for v in row.values() if v is not None]
    if not values:
        return ""
    top = 100.0 if unit == "%" else max(values) or 1.0
    left = 20 + int(_LETTER * max(map(len, groups)))
    line, gap, width = 16, 14, 760
    room = width - left - 70
    parts: list[str] = []
    y = 10.0
    for group, row in groups.items():
        middle = y + len(row) * line / 2 + 4
        parts.append(_text(left - 10, middle, group, "end", "label"))
        for name, value in row.items():
            length = room * (value or 0.0) / top
            colour = COLOURS[series.index(name) % len(COLOURS)]
            told = "–" if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
            parts.append(
                f'<rect x="{left}" y="{y:.1f}" width="{length:.1f}" height="{line - 4}" rx="2" '
                f'fill="{colour}"><title>{escape(name)}: {told} {escape(unit)}</title></rect>'
            )
            parts.append(_text(left + length + 6, y + line - 6, told, "start"))
            y += line
        y += gap
    drawn = _open(width, int(y)) + "".join(parts) + "</svg>"
    return _legend(series) + drawn if len(series) > 1 else drawn


def _legend(series: Sequence[str]) -> str:
    keys = "".join(
        f'<span><i style="background:{COLOURS[n % len(COLOURS)]}"></i>{escape(name)}</span>'
        for n, name in enumerate(series)
    )
    return f'<p class="legend">{keys}</p>'


def _open(width: int, height: int) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _ticks(low: float, high: float) -> list[float]:
    step = next((s for s in (1, 2, 5, 10, 20) if (high - low) / s <= 7), 20)
    first = int(low // step + 1) * step
    return [float(t) for t in range(first, int(high) + 1, step)]


def _log_ticks(low: float, high: float) -> list[float]:
    every = [m * 10.0**e for e in range(-2, 5) for m in (1, 2, 5)]
    return [tick for tick in every if low <= log10(tick) <= high]
