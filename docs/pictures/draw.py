"""Draws the three pictures of the README, each for light and dark pages.

Run `python docs/pictures/draw.py`. The second and the third show figures of docs/figures.json.
`python docs/pictures/draw.py FILE.json` draws the third from another file, beside that file.
"""

from __future__ import annotations

import json
import sys
from math import log10
from pathlib import Path

from justmem_eval.sidebyside import OWN, TITLES

FOLDER = Path(__file__).parent
FIGURES = FOLDER.parent / "figures.json"
# background, text, lines, and the colours of LOOKUP, COMPOSE and REPLAY
THEMES = {
    "light": ("#ffffff", "#1f2328", "#8c959f", "#0969da", "#8250df", "#1a7f37"),
    "dark": ("#0d1117", "#e6edf3", "#6e7681", "#4493f8", "#ab7df8", "#3fb950"),
}
WIDTH, HEIGHT = 640, 320
LEFT, TOP, RIGHT, BOTTOM = 80, 24, 616, 264  # the frame of a plot
RUNS = (  # what is measured, its label, and where the label stands
    ("locomo-rules-rules-reranker_none", "no model", "end"),
    ("locomo-rules-recorded-reranker_none", "a model plans", "start"),
    ("locomo-recorded-recorded-reranker_none", "a model plans and makes the cards", "end"),
)
TOKENS, RECALL = (0, 1000), (70, 100)  # the axes
COMPARED = (  # title, and the figures whose sum is shown
    ("tokens to build (log scale)", ("tokens.construction",)),
    ("tokens a question", ("tokens.planning", "tokens.evidence")),
    ("turns found, ten pieces, %", ("by_words.turn.ten.fraction",)),
)
NAMES, PANEL, LINE = 130, 244, 30  # widths of names and panels, height of a line


BOLD = ' font-weight="bold"'


class Drawing:
    def __init__(self, title: str, theme: str, wide: int = WIDTH, high: int = HEIGHT) -> None:
        self.back, self.ink, self.line, *self.accents = THEMES[theme]
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" '
            'font-family="system-ui, sans-serif" font-size="14">',
            f"<title>{title}</title>",
            f'<rect width="{wide}" height="{high}" fill="{self.back}"/>',
        ]

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "middle", more: str = ""
    ) -> None:
        place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
        self._parts.append(f'<text {place} fill="{self.ink}"{more}>{words}</text>')

    def axes(self, across: str, up: str) -> None:
        corner = f"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"
        self._parts.append(f'<path d="{corner}" fill="none" stroke="{self.line}"/>')
        self.text((LEFT + RIGHT) / 2, HEIGHT - 12, across)
        middle = (TOP + BOTTOM) / 2
        self.text(20, middle, up, more=f' transform="rotate(-90 20 {middle:g})"')

    def box(self, x: float, y: float, wide: float, high: float, colour: str) -> None:
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:.4g}" height="{high:g}" rx="8" '
            f'fill="{colour}" fill-opacity="0.15" stroke="{colour}"/>'
        )

    def dot(self, x: float, y: float, colour: str) -> None:
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="{colour}"/>')

    def grid(self, y: float) -> None:
        self._parts.append(
            f'<path d="M{LEFT} {y:g}H{RIGHT}" stroke="{self.line}" stroke-opacity="0.3"/>'
        )

    def __str__(self) -> str:
        return "\n".join([*self._parts, "</svg>"]) + "\n"


def plane(theme: str) -> str:
    """Breadth and fidelity, with the three kinds of access."""
    drawn = Drawing("Access to memory: how broadly to search, how closely to read", theme)
    drawn.axes("breadth: how broadly to search", "fidelity: how closely to read")
    lookup, compose, replay = drawn.accents
    boxes = (
        (LEFT + 24, 154, 236, lookup, "LOOKUP", "a few cards, one fact"),
        (LEFT + 284, 154, 236, compose, "COMPOSE", "cards from many sessions"),
        (LEFT + 24, 40, 496, replay, "REPLAY", "cards, and the original words behind them"),
    )
    for x, y, wide, colour, name, about in boxes:
        drawn.box(x, y, wide, 94, colour)
        drawn.text(x + wide / 2, y + 42, name, more=BOLD)
        drawn.text(x + wide / 2, y + 64, about)
    drawn.text(LEFT + 142, BOTTOM + 20, "one session")
    drawn.text(LEFT + 402, BOTTOM + 20, "several sessions")
    return str(drawn)


def recall(theme: str) -> str:
    """Recall against the tokens that an answer reads, on LoCoMo."""
    found = json.loads(FIGURES.read_text("utf-8"))
    drawn = Drawing("Recall against tokens read, on LoCoMo", theme)
    drawn.axes("tokens read for a question", "evidence turns found, %")
    for percent in range(RECALL[0], RECALL[1] + 1, 10):
        drawn.grid(_y(percent))
        drawn.text(LEFT - 8, _y(percent) + 5, str(percent), anchor="end")
    for tokens in range(TOKENS[0], TOKENS[1] + 1, 250):
        drawn.text(_x(tokens), BOTTOM + 20, f"{tokens:,}")
    for (run, label, anchor), colour in zip(RUNS, drawn.accents, strict=True):
        x = _x(found[f"{run}.tokens.evidence"]["value"])
        y = _y(found[f"{run}.turn.read.fraction"]["value"])
        drawn.dot(x, y, colour)
        drawn.text(x + (12 if anchor == "start" else -12), y + 5, label, anchor=anchor)
    return str(drawn)


def compare(theme: str, figures: Path = FIGURES) -> str:
    """JustMem and other systems on the same conversation, ours first."""
    found: dict[str, dict[str, float]] = {}
    for key, figure in json.loads(figures.read_text("utf-8")).items():
        name, _, measure = key.partition(".")
        if name.startswith("peers-"):
            found.setdefault(name.rpartition("-")[2], {})[measure] = figure["value"]
    systems = sorted(found, key=lambda name: (name not in OWN, list(TITLES).index(name)))
    high = 58 + LINE * len(systems) + 12
    drawn = Drawing("The same conversation in each system", theme, NAMES + 3 * PANEL, high)
    drawn.text(8, 20, "The same conversation in each system", anchor="start", more=BOLD)
    for place, system in enumerate(systems):
        drawn.text(NAMES - 10, 73 + place * LINE, TITLES[system], anchor="end")
    for panel, (title, names) in enumerate(COMPARED):
        x = NAMES + panel * PANEL
        drawn.text(x, 44, title, anchor="start")
        values = [sum(found[system][name] for name in names) for system in systems]
        top = 100.0 if title.endswith("%") else max(*values, 1.0)
        for place, (system, value) in enumerate(zip(systems, values, strict=True)):
            y, share = 58 + place * LINE, value / top
            if "log" in title:
                share = log10(1 + value) / log10(1 + top)
            length = (PANEL - 84) * share
            drawn.box(x, y + 2, length, 18, drawn.accents[0] if system in OWN else drawn.line)
            shown = f"{value:,.0f}" if top > 100 else f"{value:.1f}"
            drawn.text(x + length + 6, y + 15, shown, anchor="start")
    return str(drawn)


def _x(tokens: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * (tokens - TOKENS[0]) / (TOKENS[1] - TOKENS[0]), 1)


def _y(percent: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * (percent - RECALL[0]) / (RECALL[1] - RECALL[0]), 1)


def pictures() -> dict[str, str]:
    """By file name."""
    made = {"plane": plane, "recall": recall, "compare": compare}
    return {f"{name}-{theme}.svg": draw(theme) for name, draw in made.items() for theme in THEMES}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        given = Path(sys.argv[1])
        for theme in THEMES:
            given.with_name(f"{given.stem}-{theme}.svg").write_text(compare(theme, given), "utf-8")
    else:
        for file_name, picture in pictures().items():
            (FOLDER / file_name).write_text(picture, "utf-8")
