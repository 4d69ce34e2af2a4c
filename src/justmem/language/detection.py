"""Detects the language of a text, and whether it is code."""

from __future__ import annotations

import re
from typing import Literal

from justmem.language.data import english

Detected = Literal["en", "other", "code"]

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LOOKED_AT = 4000  # characters: enough to detect a language
_SYMBOLS = re.compile(r"[{}\[\]()<>=;|\\/_*#$%&@^~`+]")
_CODE_LINE = re.compile(
    r"^\s*(?:def |class |import |from \w+ import|#include|function |const |let |var |return\b"
    r"|for \(|if \(|SELECT |INSERT |</?\w+[ >]|[{}]\)?;?$|\$ |>>> )|[;{]\s*$"
    r"|^\s*(?:for|if|while|with|else|try|elif)\b.*:\s*$|^\s*[\w.]+(?:\[\w+\])? [-+*/]?= \S"
    r"|^\s*[\w.]+\([^()]*\);?\s*$"
    r"|^\W*\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|^\W*\d\d:\d\d:\d\d\b|\b(?:ERROR|WARN|INFO|DEBUG)\b[\s:\]]|^Traceback|^\s+at \w|^\s+File \""
)


def detect(text: str) -> Detected:
    """English unless another language has more of its own words in the text."""
    head = text[:_LOOKED_AT]
    if is_code(head):
        return "code"
    words = [word.lower().replace("’", "'") for word in _WORD.findall(head)]
    if not words:
        return "en" if head.isascii() else "other"
    lists = english()
    ours = sum(word in lists.common_words for word in words)
    theirs = max(sum(word in known for word in words) for known in lists.other_languages.values())
    foreign = sum(not word.isascii() for word in words)
    return "other" if theirs > ours or foreign > max(ours, len(words) // 4) else "en"


def is_code(text: str) -> bool:
    """Whether most lines are code, a log or a table."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return False
    odd = sum(bool(_CODE_LINE.search(line)) or _mostly_symbols(line) for line in lines)
    return 2 * odd > len(lines)


def _mostly_symbols(line: str) -> bool:
    return len(line) > 12 and 6 * len(_SYMBOLS.findall(line)) > len(line)
