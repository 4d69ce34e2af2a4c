"""A chat that WhatsApp exported as text: one session for each day."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from justmem.errors import InvalidFile

# `[20.05.24, 14:30:15] Ana: Hi` on iOS, `5/20/24, 2:30 PM - Ana: Hi` on Android.
_LINE = re.compile(
    r"\[?(\d{1,4})[./-](\d{1,2})[./-](\d{1,4}),? (\d{1,2})[:.](\d{2})(?:[:.]\d{2})?"
    r"(?: ?([ap])\.?m\.?)?(?:\]| -) (.*)",
    re.IGNORECASE,
)
_SAID = re.compile(r"([^:]{1,100}): (.*)", re.DOTALL)
_MEDIA = re.compile(r"<(?:[\w ]+ omitted|attached: [^>]+)>|[\w ]+ omitted|.+ \(file attached\)")
_EDITED = re.compile(r" ?<This message was edited>$")
# iOS names a sender for it.
_ENCRYPTED = re.compile(r"Messages and calls are end-to-end encrypted|Messages are end-to-end enc")
_DELETED = re.compile(r"(?:You deleted this message|This message was deleted)\.?")
_MARKS = str.maketrans({"\u200e": None, "\u200f": None, "\u202f": " ", "\u00a0": " "})


def fits(text: str) -> bool:
    return _LINE.match(text.translate(_MARKS).lstrip()) is not None


def read(text: str, skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    messages: list[tuple[re.Match[str], list[str]]] = []
    for line in text.translate(_MARKS).strip().splitlines():
        if start := _LINE.match(line):
            messages.append((start, [start[7]]))
        else:
            messages[-1][1].append(line)
    # The first message is the same when the chat is exported again, so the ids are too.
    chat = hashlib.blake2b(messages[0][0][0].encode(), digest_size=4).hexdigest()
    month_first = _month_first([start for start, _ in messages])
    days: dict[str, list[dict[str, Any]]] = {}
    for start, lines in messages:
        said = _SAID.fullmatch(_EDITED.sub("", "\n".join(lines).strip()))
        if said is None or _DELETED.fullmatch(said[2]) or _ENCRYPTED.match(said[2]):
            skipped["system message"] += 1
        elif _MEDIA.fullmatch(said[2]):
            skipped["media file"] += 1
        else:
            at = _time(start, month_first)
            turn = {"speaker": said[1], "text": said[2], "at": at}
            days.setdefault(f"{at:%Y-%m-%d}", []).append(turn)
    for day, turns in days.items():
        yield {"id": f"whatsapp-{chat}-{day}", "turns": turns}


def _month_first(starts: list[re.Match[str]]) -> bool:
    """If the dates fit both orders, a clock with am and pm shows that the month is first."""
    if any(int(start[1]) > 12 for start in starts):
        return False
    return any(int(start[2]) > 12 or start[6] for start in starts)


def _time(start: re.Match[str], month_first: bool) -> datetime:
    first, second, third, hour, minute = (int(part) for part in start.groups()[:5])
    if first > 31:
        year, month, day = first, second, third
    else:
        month, day = (first, second) if month_first else (second, first)
        year = third if third > 99 else 2000 + third
    if half := start[6]:
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    try:
        return datetime(year, month, day, hour, minute)
    except ValueError:
        raise InvalidFile(f"This is not a date: {start[0][:40]!r}.") from None
