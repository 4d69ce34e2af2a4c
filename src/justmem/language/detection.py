"""Detects the language of a text, and whether it is code. `detection.toml` has the words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

CODE = "code"
UNKNOWN = "unknown"

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LOOKED_AT = 4000  # characters: enough to detect a language
_DEFAULT = "en"  # of a text with few or no known words
_SYMBOLS = re.compile(r"[{}\[\]()<>=;|\\/_*#$%&@^~`+]")
_CODE_LINE = re.compile(
    r"^\s*(?:def |class |import |from \w+ import|#include|function |const |let |var |return\b"
    r"|for \(|if \(|SELECT |INSERT |</?\w+[ >]|[{}]\)?;?$|\$ |>>> )|[;{]\s*$"
    r"|^\s*(?:for|if|while|with|else|try|elif)\b.*:\s*$|^\s*[\w.]+(?:\[\w+\])? [-+*/]?= \S"
    r"|^\s*[\w.]+\([^()]*\);?\s*$"
    r"|^\W*\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|^\W*\d\d:\d\d:\d\d\b|\b(?:ERROR|WARN|INFO|DEBUG)\b[\s:\]]|^Traceback|^\s+at \w|^\s+File \""
)


@cache
def _common_words() -> Mapping[str, frozenset[str]]:
    """The frequent words of each language, by its code."""
    table = tomllib.loads(files(__package__).joinpath("detection.toml").read_text("utf-8"))
    return {code: frozenset(words.split()) for code, words in table.items()}


def detect(text: str) -> str:
    """The code of the language with most of its frequent words in the text, such as "en"; CODE;
    or UNKNOWN for a text in another script."""
    head = text[:_LOOKED_AT]
    if is_code(head):
        return CODE
    words = [word.lower().replace("’", "'") for word in _WORD.findall(head)]
    if not words:
        return _DEFAULT if head.isascii() else UNKNOWN
    counts = {code: sum(word in known for word in words) for code, known in _common_words().items()}
    best = max(counts, key=lambda code: (counts[code], code == _DEFAULT))
    foreign = sum(not word.isascii() for word in words)
    if best == _DEFAULT and foreign > max(counts[best], len(words) // 4):
        return UNKNOWN
    return best


def frequent_words(text: str) -> frozenset[str]:
    """The frequent words of the language that the text is in."""
    return _common_words().get(detect(text), frozenset())


def is_code(text: str) -> bool:
    """Whether most lines are code, a log or a table."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return False
    odd = sum(bool(_CODE_LINE.search(line)) or _mostly_symbols(line) for line in lines)
    return 2 * odd > len(lines)


def _mostly_symbols(line: str) -> bool:
    return len(line) > 12 and 6 * len(_SYMBOLS.findall(line)) > len(line)
