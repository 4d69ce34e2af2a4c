"""A chat that WhatsApp exported as text: one session for each day."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from justmem.errors import InvalidFile

# `[20.05.24, 14:30:15] Ana: Hi` on iOS, `5/20/24, 2:30 PM - Ana: Hi` on Android. Languages differ
# in what stands between the day and the time, and in the name of the half of the day.
_LINE = re.compile(
    r"\[?(\d{1,4})[./年년-] ?(\d{1,2})[./月월-] ?(\d{1,4})"
    r"(?P<between>[^\d\n]{1,8})(\d{1,2})[:.](\d{2})"
    r"(?:[:.]\d{2})?(?P<half>[^\d\n\]-]{0,8}?)(?:\]| [-–]) (?P<said>.*)"
)
_HALF = re.compile(
    r"(?P<morning>\ba\.? ?m\b|上午|午前|오전|vorm)|\bp\.? ?m\b|下午|午後|오후|nachm",
    re.IGNORECASE,
)
# A colon inside quotes belongs to the name of a group in a notice.
_SAID = re.compile(r"((?:[^:\"]|\"[^:\"]*\"){1,100}): (.*)", re.DOTALL)
_EDITED = "<This message was edited>"
_NOTICE = re.compile(
    r"\u200e?(?:Messages and calls are end-to-end encrypted|Messages are end-to-end enc"
    r"|(?:You deleted this message|This message was deleted)\.?$)"
)
# `<Media omitted>` in any language, and what iOS marks with U+200E because nobody typed it.
_MEDIA = re.compile(r"<[^<>\n]+>|\u200e.*|[\w ]+ omitted|.+ \(file attached\)")
_MARKS = str.maketrans({"\u200f": None, "\u202f": " ", "\u00a0": " "})


def fits(text: str) -> bool:
    return _LINE.match(_readable(text)) is not None


def read(text: str, skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    messages: list[tuple[re.Match[str], list[str]]] = []
    for line in _readable(text).splitlines():
        if start := _LINE.match(line.removeprefix("\u200e")):
            messages.append((start, [start["said"]]))
        else:
            messages[-1][1].append(line)
    # The first message is the same when the chat is exported again, so the ids are too.
    chat = hashlib.blake2b(messages[0][0][0].encode(), digest_size=4).hexdigest()
    month_first = _month_first([start for start, _ in messages])
    days: dict[str, list[dict[str, Any]]] = {}
    for start, lines in messages:
        said = _SAID.fullmatch("\n".join(lines).strip().removesuffix(_EDITED).rstrip(" \u200e"))
        if said is None or _NOTICE.match(said[2]):
            skipped["system message"] += 1
        elif _MEDIA.fullmatch(said[2]):
            skipped["media file"] += 1
        else:
            at = _time(start, month_first)
            turn = {"speaker": said[1], "text": said[2].replace("\u200e", ""), "at": at}
            days.setdefault(f"{at:%Y-%m-%d}", []).append(turn)
    for day, turns in days.items():
        yield {"id": f"whatsapp-{chat}-{day}", "turns": turns}


def _readable(text: str) -> str:
    return text.translate(_MARKS).strip().removeprefix("\u200e")


def _month_first(starts: list[re.Match[str]]) -> bool:
    """If the dates fit both orders: only American English writes AM and PM in capitals, and it puts
    the month first."""
    if any(int(start[1]) > 12 for start in starts):
        return False
    return any(int(start[2]) > 12 or start["half"].isupper() for start in starts)


def _time(start: re.Match[str], month_first: bool) -> datetime:
    first, second, third, hour, minute = (int(start[group]) for group in (1, 2, 3, 5, 6))
    if first > 31:
        year, month, day = first, second, third
    else:
        month, day = (first, second) if month_first else (second, first)
        year = third if third > 99 else 2000 + third
    if half := _HALF.search(start["between"] + start["half"]):
        hour = hour % 12 + (0 if half["morning"] else 12)
    try:
        return datetime(year, month, day, hour, minute)
    except ValueError:
        raise InvalidFile(f"This is not a date: {start[0][:40]!r}.") from None
