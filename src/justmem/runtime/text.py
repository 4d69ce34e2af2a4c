"""Text of any kind: what every store, model and terminal can encode, and cut to a length."""

from __future__ import annotations

SEGMENT = 4000  # characters: the longest text that a pattern of the rules reads at once


def both_ends(text: str, most: int = SEGMENT) -> str:
    """The beginning and the end of a text that is longer than `most`."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def clean(text: str) -> str:
    """Text that every store, model and terminal can encode: halves of surrogate pairs are
    joined or replaced, NUL characters are dropped."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "")
