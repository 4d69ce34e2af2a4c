"""Markdown and plain text: a chat if lines name their speakers, otherwise the user's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_FRONT = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
_FIELD = re.compile(r"^(date|title): *[\"']?(.+?)[\"']? *$", re.MULTILINE)
# `Ana: Hi`, `**Ana:** Hi` or `## Ana`
_SPEAKER = re.compile(
    r"^(?:#{1,6} +(?P<head>\w[\w .'-]{0,40}?):? *$|(?:\*\*)?(?P<name>\w[\w .'-]{0,40}?)"
    r"(?::\*\*|\*\*:|:)(?=\s)) *",
    re.MULTILINE,
)
_TITLE = re.compile(r"#{1,6} +(.+)\s+")
_ROLES = {
    "user": ("user", "human", "you", "me", "prompt"),
    "assistant": ("assistant", "ai", "bot", "chatgpt", "claude", "gemini", "copilot", "response"),
}


def read(text: str) -> Iterator[dict[str, Any]]:
    session: dict[str, Any] = {}
    text = text.replace("\r\n", "\n").strip()
    if front := _FRONT.match(text):
        session = {{"date": "at"}.get(key, key): value for key, value in _FIELD.findall(front[1])}
        text = text[front.end() :]
    turns = list(_turns(text))
    # A heading before the first speaker is the title of the chat.
    if (title := _TITLE.match(text)) and len(chat := list(_turns(text[title.end() :]))) > len(
        turns
    ):
        session, turns = {"title": title[1]} | session, chat
    yield session | {"turns": turns}


def _turns(text: str) -> Iterator[dict[str, Any]]:
    lines = list(_SPEAKER.finditer(text))
    # If roles are named, other headings and words before a colon are part of the text.
    starts = [line for line in lines if _role(line)] or [line for line in lines if line["name"]]
    names = {line["name"] for line in starts}
    chat = starts and not text[: starts[0].start()].strip()
    if not chat or not (_role(starts[0]) or len(names) < len(starts)):
        yield {"role": "user", "text": text}
        return
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=True):
        who = {"role": role} if (role := _role(start)) else {"speaker": start["name"]}
        yield who | {"text": text[start.end() : end].strip()}


def _role(line: re.Match[str]) -> str | None:
    name = (line["head"] or line["name"]).casefold().removesuffix(" said")
    return next((role for role, names in _ROLES.items() if name in names), None)
