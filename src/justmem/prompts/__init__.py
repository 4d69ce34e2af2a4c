"""The static text of every prompt, and the fence around what comes from a conversation."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources


@cache
def load(name: str) -> str:
    """The prompt `name`, such as "extract" or "operations/order"."""
    return resources.files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()


def fence(tag: str, text: str) -> str:
    """`text` between <tag> and </tag>, unable to close the fence from inside."""
    inside = re.sub(rf"<(?=\s*/?\s*{tag}\b)", "‹", text, flags=re.IGNORECASE)
    return f"<{tag}>\n{inside}\n</{tag}>"


def one_line(text: str) -> str:
    """Line breaks would let a remembered text pass for a line of the prompt."""
    return " ".join(text.split())
