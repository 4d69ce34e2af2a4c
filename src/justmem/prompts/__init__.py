"""The static text of every prompt, and the fence around what comes from a conversation."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources


@cache
def load(name: str) -> str:
    """The prompt `name`, such as "extract" or "operations/order"."""
    return resources.files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()


# Every tag that a prompt is fenced with, here and in the judge's.
TAGS = (
    *("session", "memory", "source", "question", "asker"),
    *("answer", "response", "cue", "category"),
)
# What stands between < and the name does not matter: models read over spaces and invisible signs.
_TAG = re.compile(rf"<(?=[^\w<>]{{0,20}}(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)


def fence(tag: str, text: str) -> str:
    """`text` between <tag> and </tag>, unable to close the fence from inside or to open another."""
    assert tag in TAGS, tag
    return f"<{tag}>\n{_TAG.sub('‹', text)}\n</{tag}>"


def one_line(text: str) -> str:
    """Line breaks would let a remembered text pass for a line of the prompt."""
    return " ".join(text.split())
