"""The static text of every prompt, and the fence around what comes from a conversation.

evidence         evidence as the text of a prompt
parse            reads a model's reply, also if it is damaged
*.md             the instructions; operations/ has those of each operation
"""

from __future__ import annotations

import secrets
from functools import cache
from importlib import resources


@cache
def load(name: str) -> str:
    """The prompt `name`, such as "extract" or "operations/order"."""
    return resources.files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()


def new_mark() -> str:
    """The number in the tags of one prompt. Whoever wrote the text cannot know it, so the text
    cannot close its fence. It takes three tokens, whatever its digits are."""
    return f"{secrets.randbelow(10**9):09d}"


def fence(tag: str, text: str, mark: str) -> str:
    """`text` between <tag-mark> and </tag-mark>. `mark` comes from `new_mark`, one a prompt."""
    named = f"{tag}-{mark}" if mark else tag
    return f"<{named}>\n{text}\n</{named}>"


def one_line(text: str) -> str:
    """Line breaks would let a remembered text pass for a line of the prompt."""
    return " ".join(text.split())
