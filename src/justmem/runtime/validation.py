"""Text and arguments: what every store, model and terminal can encode, and checks of both.

An error says in a sentence what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TypeVar

from justmem.errors import InputError, InvalidQuestion, InvalidSetting, NotInMemory

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


T = TypeVar("T", bound=str)

_LONGEST_ID = 1000  # characters: all our ids are shorter
_SHOWN = 60
_MOST = 2**63 - 1  # the largest integer of both stores


def describe(value: object) -> str:
    """A value for an error message: its beginning, or its type. Some values cannot be written out:
    a number may be too long, a list nested too deeply."""
    if isinstance(value, str):
        return repr(value[:_SHOWN] + "…" if len(value) > _SHOWN else value)
    if isinstance(value, float | date | None) or (isinstance(value, int) and abs(value) <= _MOST):
        return str(value)
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def as_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{what} must be a text, not {describe(value)}.")
    return clean(value)


def as_id(value: object, what: str) -> str:
    """The id of a card or a session. An id that nothing can have raises NotInMemory."""
    id = as_text(value, f"The id of a {what}")
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"The id of a {what} cannot hold a NUL character: {describe(value)}.")
    if len(id) > _LONGEST_ID:
        raise NotInMemory(f"There is no {what} {describe(id)} in this space.")
    return id


def as_choice(value: object, what: str, choices: Sequence[T]) -> T:
    for choice in choices:
        if choice == value:
            return choice
    raise InputError(f"{describe(value)} is not a {what}: choose one of {', '.join(choices)}.")


def as_count(value: object, what: str, *, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(
            f"{what} must be a whole number of at least {least}, not {describe(value)}."
        )
    return min(value, _MOST)


def _is_name(text: str) -> bool:
    """Whether a file system accepts it as a name."""
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:
        return False
    longest = max(map(len, raw.replace(b"\\", b"/").split(b"/")), default=0)
    return b"\0" not in raw and longest <= 255 and len(raw) < 4096


def as_flag(value: object, what: str) -> bool:
    """Only True or False: the text "no" would count as true."""
    if not isinstance(value, bool):
        raise InputError(f"{what} must be True or False, not {describe(value)}.")
    return value


def check_callable(value: object, what: str) -> None:
    if value is not None and not callable(value):
        raise InputError(f"{what} must be callable, not {describe(value)}.")


def as_path(value: object) -> Path:
    """A leading ~ is the home folder."""
    if not isinstance(value, str | os.PathLike):
        raise InvalidSetting(f"A file name must be a text or a path, not {describe(value)}.")
    if not _is_name(str(value)):
        raise InvalidSetting(f"{describe(str(value))} cannot be the name of a file or folder.")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise InvalidSetting(
            f"{describe(str(value))} begins with ~ but names no user of this machine: write the "
            "whole path."
        ) from None


# ---------------------------------------------------------------- questions

_LONGEST_QUESTION = 100_000  # characters
_LONGEST_NAME = 200

LONG_QUESTION = (  # for the receipt
    f"the question is long: memory was searched for the {SEGMENT // 2:,} characters at each of "
    "its ends"
)


def as_question(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidQuestion("The question is empty: pass a question or a remark.")
    if len(value) > _LONGEST_QUESTION:
        raise InvalidQuestion(
            f"The question has {len(value):,} characters. At most {_LONGEST_QUESTION:,} are "
            "allowed. Store a long text with `remember`, then ask about it."
        )
    return clean(value).strip()


def as_speaker(value: object) -> str | None:
    """One line, as in a session."""
    name = " ".join(as_text(value, "The speaker").split()) if value is not None else ""
    if len(name) > _LONGEST_NAME:
        raise InvalidQuestion(f"The speaker's name is longer than {_LONGEST_NAME} characters.")
    return name or None
