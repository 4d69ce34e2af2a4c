"""Counting tokens without a provider: o200k_base, offline."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _encoding() -> Any:
    import bpe_openai  # loaded when first needed: `import justmem` stays light

    return bpe_openai.get_encoding("o200k_base")


def count(text: str) -> int:
    return int(_encoding().count(text))
