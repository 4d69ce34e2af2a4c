"""A question as it may be used: checked, cleaned and redacted."""

from __future__ import annotations

from justmem.errors import InvalidQuestion
from justmem.text import SEGMENT, clean
from justmem.validation import as_text

_LONGEST_QUESTION = 100_000  # characters
_LONGEST_NAME = 200

LONG = (
    f"the question is long: memory was searched for the {SEGMENT // 2:,} characters at each of "
    "its ends"
)


def as_question(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidQuestion("The question is empty: ask something, or pass the remark as text.")
    if len(value) > _LONGEST_QUESTION:
        raise InvalidQuestion(
            f"The question has {len(value)} characters, more than {_LONGEST_QUESTION}: "
            "`remember` long material first, then ask about it."
        )
    return clean(value).strip()


def as_speaker(value: object) -> str | None:
    """One line, as in a session."""
    name = " ".join(as_text(value, "The speaker").split()) if value is not None else ""
    if len(name) > _LONGEST_NAME:
        raise InvalidQuestion(f"The speaker's name is longer than {_LONGEST_NAME} characters.")
    return name or None
