"""Counting tokens without a provider (o200k_base, offline), and keeping calls within a limit."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import Any

from justmem.domain import Session
from justmem.errors import BudgetExceeded
from justmem.ports import Prompt

# The tokenizer refuses a million characters at once; a token lost at a seam does not matter.
_PIECE = 100_000

# What a chat format adds around two messages, generously.
_ENVELOPE = 24


@cache
def _encoding() -> Any:
    import bpe_openai  # loaded when first needed: `import justmem` stays light

    return bpe_openai.get_encoding("o200k_base")


def count(text: str) -> int:
    encode = _encoding().encode_ordinary
    return sum(len(encode(text[i : i + _PIECE])) for i in range(0, len(text), _PIECE))


def said(session: Session) -> int:
    """What the turns of a session would take in a prompt."""
    return count("\n".join(f"{t.speaker}: {t.text}" for t in session.turns if not t.forgotten))


def prompt_tokens(prompt: Prompt) -> int:
    """An upper estimate of what a prompt costs: some providers bill the schema as input."""
    return _ENVELOPE + sum(map(count, (prompt.system, prompt.user, json.dumps(prompt.schema))))


def fit(prompt: Prompt, limit: int | None, *, least: int) -> Prompt:
    """The prompt with its reply shortened so that the call cannot pass `limit`.
    BudgetExceeded if fewer than `least` tokens would be left for the reply."""
    if limit is None:
        return prompt
    room = limit - prompt_tokens(prompt)
    if room < min(least, prompt.max_tokens):
        raise BudgetExceeded(
            f"The {prompt.stage} call was not made: it needs about "
            f"{prompt_tokens(prompt) + least} tokens and {max(limit, 0)} are left of the limit. "
            "Raise the limit in Budget, or give it less to read."
        )
    return dataclasses.replace(prompt, max_tokens=min(prompt.max_tokens, room), limit=limit)
