"""From a reply to the stretch of it that is asked for.

What assistants write has a shape: headings, lists, tables, code. The line that shares most words
with a question is often the one above what it asks for ("Here are three desserts:"), so a heading
brings what stands under it, an item all of itself, and a piece of code is never cut. "The third
dessert" is counted off.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from justmem.answering.citing import best_stretch
from justmem.words import content

_LONGEST = 1500  # characters; what is longer is cut after a line
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"(?P<indent>\s*)(?:[-*•+]|(?P<number>\d{1,2})[.)]|[a-h][.)])\s+\S")
_HEADING = re.compile(r"\s*(?:(?P<marks>#{1,6})\s|\*\*[^*]{2,80}\*\*:?\s*$|__[^_]{2,80}__:?\s*$)")
_INTRO = re.compile(r".*:[*_]*\s*$")


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int  # without the line's end
    text: str
    kind: str  # "code", "fence", "table", "item", "heading", "intro", "text" or "" where blank
    depth: int = 0  # of an item its indent, of a heading how far below the first kind it is


def stretch_asked_for(question: str, text: str, *, whole_list: bool = False) -> tuple[int, int]:
    """Offsets into `text`; with `whole_list` all of a list that one item of it is found in."""
    lines = _lines(text)
    counted = _counted_off(question, lines)
    if counted is not None:
        return _offsets(text, lines, *counted)
    start, end = best_stretch(question, text)
    touched = [n for n, line in enumerate(lines) if line.start < end and line.end > start]
    if not touched or (start, end) == (0, len(text)):
        return start, end
    first, _ = _around(lines, touched[0], whole_list=whole_list)
    _, last = _around(lines, touched[-1], whole_list=whole_list)
    if first == last and lines[first].kind == "text":
        return start, end
    return _offsets(text, lines, first, last)


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    start, fenced = 0, False
    for raw in text.splitlines(keepends=True):
        said = raw.rstrip()
        kind, depth = "text", 0
        item, heading = _ITEM.match(said), _HEADING.match(said)
        if _FENCE.match(said):
            kind, fenced = "fence", not fenced
        elif fenced:
            kind = "code"
        elif not said:
            kind = ""
        elif said.lstrip().startswith("|"):
            kind = "table"
        elif heading:
            kind, depth = "heading", len(heading["marks"] or "") or 7
        elif item:
            kind, depth = "item", len(item["indent"])
        elif _INTRO.match(said):
            kind = "intro"
        lines.append(_Line(start, start + len(said), said, kind, depth))
        start += len(raw)
    return lines


def _around(lines: Sequence[_Line], at: int, *, whole_list: bool) -> tuple[int, int]:
    """The first and last line of what the line at `at` belongs to, or brings."""
    kind = lines[at].kind
    if kind in ("code", "fence", "table"):
        same = ("table",) if kind == "table" else ("code", "fence")
        return _while(lines, at, -1, same), _while(lines, at, 1, same)
    if kind == "heading":
        return at, _section_end(lines, at)
    if kind == "item" and whole_list:
        first = _while(lines, at, -1, ("item", "", "text"), lines[at].depth)
        return first, _list_end(lines, at)
    if kind == "item":
        return at, _item_end(lines, at)
    below = next((n for n in range(at + 1, len(lines)) if lines[n].kind), None)
    if below is not None and lines[below].kind in ("item", "table", "fence"):
        return at, _block_end(lines, below)
    if below is not None and kind == "intro":
        return at, _block_end(lines, below)
    return at, at


def _while(
    lines: Sequence[_Line], at: int, step: int, kinds: Sequence[str], depth: int | None = None
) -> int:
    """How far lines of these kinds go; with a depth, text must be indented to belong to items."""
    last = at
    place = at + step
    while 0 <= place < len(lines) and lines[place].kind in kinds:
        line = lines[place]
        if depth is not None and line.kind == "text" and not line.text.startswith(" "):
            break
        if line.kind and (depth is None or line.kind != "text" or step > 0):
            last = place
        place += step
    return last


def _section_end(lines: Sequence[_Line], at: int) -> int:
    depth = lines[at].depth
    last = at
    for place in range(at + 1, len(lines)):
        if lines[place].kind == "heading" and lines[place].depth <= depth:
            break
        if lines[place].kind:
            last = place
    return last


def _item_end(lines: Sequence[_Line], at: int) -> int:
    """With what is indented under it."""
    last = at
    for place in range(at + 1, len(lines)):
        line = lines[place]
        deeper = line.text.startswith(" ") and line.kind != "item"
        if line.kind and not (deeper or (line.kind == "item" and line.depth > lines[at].depth)):
            break
        if line.kind:
            last = place
    return last


def _list_end(lines: Sequence[_Line], at: int) -> int:
    return _while(lines, at, 1, ("item", "", "text"), lines[at].depth)


def _block_end(lines: Sequence[_Line], at: int) -> int:
    kind = lines[at].kind
    if kind == "item":
        return _list_end(lines, at)
    if kind == "table":
        return _while(lines, at, 1, ("table",))
    if kind == "fence":
        closing = (n for n in range(at + 1, len(lines)) if lines[n].kind == "fence")
        return next(closing, len(lines) - 1)
    return _while(lines, at, 1, ("text", "intro"))


def _offsets(text: str, lines: Sequence[_Line], first: int, last: int) -> tuple[int, int]:
    start = lines[first].start + len(lines[first].text) - len(lines[first].text.lstrip())
    while last > first and lines[last].end - start > _LONGEST:
        last -= 1
    return start, max(lines[last].end, min(start + 1, len(text)))


# ---------------------------------------------------------------- "the third", "day 5"

_IN_ORDER = """first second third fourth fifth sixth seventh eighth ninth tenth"""
_ORDINALS = tuple(_IN_ORDER.split())
# Lower case: "the Fifth Album" is a name. Not "the last time", nor "our first conversation".
_ORDINAL = re.compile(
    r"\b(?P<word>first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|final"
    r"|(?P<digits>\d{1,2})(?:st|nd|rd|th))\s+(?!time|week|month|year|night|day|weekend|summer|winter"
    r"|spring|chat|conversation|session|discussion|century|january|february|march|april|may\b|june"
    r"|july|august|september|october|november|december|of\b|and\b)"
    r"(?:one|[a-z]+)\b"
)
_LABEL = re.compile(
    r"\b(?P<label>day|week|step|item|number|chapter|part|phase|stage|point|option|tip|exercise"
    r"|question|rule|month|lesson|round|section|act|scene|level) #?(?P<number>\d{1,2})\b",
    re.IGNORECASE,
)


def _counted_off(question: str, lines: Sequence[_Line]) -> tuple[int, int] | None:
    label = _LABEL.search(question)
    if label:
        begins = re.compile(
            rf"[\s#*|_\-•]*(?:{label['label']}\s*#?\s*)?{label['number']}\b(?![.,]\d)",
            re.IGNORECASE,
        )
        named = [n for n, line in enumerate(lines) if begins.match(line.text)]
        if named:
            row = lines[named[0]].kind == "table"
            return (named[0], named[0]) if row else _around(lines, named[0], whole_list=False)
    ordinal = _ORDINAL.search(question)
    if ordinal is None:
        return None
    items = _best_list(question, lines)
    if ordinal["word"] in ("last", "final"):
        number = len(items)
    else:
        number = int(ordinal["digits"] or _ORDINALS.index(ordinal["word"]) + 1)
    if not 1 <= number <= len(items) or len(items) < 2:
        return None
    return items[number - 1], _item_end(lines, items[number - 1])


def _best_list(question: str, lines: Sequence[_Line]) -> list[int]:
    """The items, of one depth, of the list that says most of what is asked, what stands above it
    included."""
    wanted = set(content(question))
    lists: list[tuple[float, int, list[int]]] = []
    place = 0
    while place < len(lines):
        if lines[place].kind != "item":
            place += 1
            continue
        end = _list_end(lines, place)
        depth = lines[place].depth
        items = [
            n for n in range(place, end + 1) if lines[n].kind == "item" and lines[n].depth <= depth
        ]
        above = [line.text for line in lines[:place] if line.kind not in ("", "item")][-3:]
        said = set(content(" ".join([*above, *(lines[n].text for n in range(place, end + 1))])))
        lists.append((len(wanted & said), -place, items))
        place = end + 1
    return max(lists)[2] if lists else []
