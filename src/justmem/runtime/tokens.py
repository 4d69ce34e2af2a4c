"""Counts tokens offline, with the o200k_base encoding."""

from __future__ import annotations

from functools import cache
from typing import Any

from justmem.domain import Session

# The tokenizer refuses a million characters at once; a token lost at a seam does not matter.
_PIECE = 100_000


@cache
def _encoding() -> Any:
    import bpe_openai  # loaded when first needed: `import justmem` stays light

    return bpe_openai.get_encoding("o200k_base")


def count(text: str) -> int:
    encode = _encoding().encode_ordinary
    return sum(len(encode(text[i : i + _PIECE])) for i in range(0, len(text), _PIECE))


def count_session(session: Session) -> int:
    """The tokens of a session's turns in a prompt."""
    return count("\n".join(f"{t.speaker}: {t.text}" for t in session.turns if not t.forgotten))
