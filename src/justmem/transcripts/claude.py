"""One conversation of a Claude export.

`chat_messages` lists them in order of time, branches included; where messages name their
parents, the branch that ends in the current (or else the last) message is the one that was
read. Attachments are named, their content stays out: a pasted document is not conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def conversation(value: dict[str, Any]) -> dict[str, Any]:
    """The session as a dict; its turns may be none."""
    turns = [turn for message in _branch(value) if (turn := _turn(message))]
    return {"id": value.get("uuid"), "at": value.get("created_at"), "turns": turns}


def _branch(value: dict[str, Any]) -> list[dict[str, Any]]:
    messages = [message for message in value["chat_messages"] if isinstance(message, dict)]
    by_id = {message.get("uuid"): message for message in messages}
    if not messages or not all("parent_message_uuid" in message for message in messages):
        return messages
    key = value.get("current_leaf_message_uuid")
    key = key if key in by_id else messages[-1].get("uuid")
    path: dict[Any, dict[str, Any]] = {}
    while key in by_id and key not in path:
        path[key] = by_id[key]
        key = by_id[key]["parent_message_uuid"]
    return list(reversed(path.values()))


def _turn(message: dict[str, Any]) -> dict[str, Any] | None:
    role = _ROLES.get(str(message.get("sender")))
    text = "\n".join([*_said(message), *_attached(message)]).strip()
    if role is None or not text:
        return None
    return {"role": role, "text": text, "at": message.get("created_at")}


def _said(message: dict[str, Any]) -> list[str]:
    """The text parts of `content`; `text` also holds stand-ins for parts that are no text, and
    is the only field in older exports."""
    content = message.get("content")
    said = [
        part["text"]
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    ]
    text = message.get("text")
    return said if said or content or not isinstance(text, str) else [text]


def _attached(message: dict[str, Any]) -> Iterator[str]:
    for key in ("attachments", "files"):
        files = message.get(key)
        for file in files if isinstance(files, list) else ():
            if isinstance(file, dict):
                yield f"[file: {file.get('file_name') or 'pasted text'}]"
