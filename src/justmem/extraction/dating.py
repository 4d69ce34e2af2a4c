"""Relative dates in a fact made absolute: outside its conversation "yesterday" means nothing."""

from __future__ import annotations

import re
from datetime import datetime

from justmem.domain import UNKNOWN_DATE, EventDate
from justmem.language.en import dates

_PREPOSITION = re.compile(
    r"\b(?:in|on|since|by|until|till|during|before|after|over|around|from|at|for|of|to|than)$", re.I
)
_NEAR = 40  # characters: what stands further away decides nothing
_OWN = re.compile(r"(in|on|since|by|until|till|during|before|after|over|around|from|at)\s", re.I)
_PART = re.compile(r"\s+(morning|afternoon|evening|night)\b", re.IGNORECASE)
_ARTICLE = re.compile(r"\bthe$", re.IGNORECASE)
_VAGUE = re.compile(r"recently|the other|few|several|some|couple|past", re.IGNORECASE)


def absolute(fact: str, at: datetime, future: bool | None) -> tuple[str, EventDate]:
    """The fact with its dates written out, and the first of them."""
    found = dates.find(fact, at, future=future)
    pieces: list[str] = []
    done = 0
    for one in found:
        part = _PART.match(fact, one.end)
        end = part.end() if part and one.date.precision == "day" else one.end
        if re.search(r"\d{4}", one.text) or fact[end : end + 2] in ("'s", "’s"):
            continue  # already absolute, or "tomorrow's opening"
        if one.text.lower() != "recently":
            pieces += [fact[done : one.start], _written(one, fact, part[1] if part else "")]
            done = end
    return "".join([*pieces, fact[done:]]), found[0].date if found else UNKNOWN_DATE


def _written(one: dates.Found, text: str, part: str) -> str:
    """`part`: of the day, as in "Friday evening"."""
    plain = dates.say(one.date)
    if part and one.date.precision == "day":
        plain = f"the {part.lower()} of {plain}"
    if _VAGUE.search(one.text) or (one.date.precision == "range" and not plain.startswith("the ")):
        return f"{one.text} ({plain})"
    own = _OWN.match(one.text)
    if own:
        return f"{own[1].lower()} {plain}"
    before = text[max(0, one.start - _NEAR) : one.start].rstrip()
    if _ARTICLE.search(before):
        named = plain.startswith("the ")
        return plain.removeprefix("the ") if named else f"{one.text} ({plain})"
    after = text[one.end : one.end + _NEAR]
    is_subject = re.match(r"\s+(?:was|is|were|will|has|had)\b", after)
    if _PREPOSITION.search(before) or is_subject:
        return plain
    on = one.date.precision == "day" or plain.startswith("the weekend")
    return f"{'on' if on else 'in'} {plain}"
