"""One conversation of a ChatGPT export.

Its `mapping` is a tree: every edit and every regenerated reply is a branch, and `current_node`
is the end of the branch the person last saw. Kept is what was on the screen: the messages of
both sides, without the system's, the tools' and the model's thoughts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_UNSEEN = {"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"}
_CITED = re.compile("\ue200[^\ue201]*\ue201|【\\d+[†:][^】]*】")


def conversation(value: dict[str, Any]) -> dict[str, Any]:
    """The session as a dict; its turns may be none."""
    turns = [turn for message in _branch(value) if (turn := _turn(message))]
    at = value.get("create_time") or value.get("update_time")
    return {"id": value.get("conversation_id") or value.get("id"), "at": at, "turns": turns}


def _branch(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    mapping = {key: node for key, node in value["mapping"].items() if isinstance(node, dict)}
    key = value.get("current_node")
    if key not in mapping:
        # Older exports name none: take the newest message that nothing follows.
        leaves = [name for name, node in mapping.items() if not node.get("children")]
        key = max(leaves, key=lambda name: _created(mapping[name]), default=None)
    path: dict[str, dict[str, Any]] = {}
    while isinstance(key, str) and key in mapping and key not in path:
        path[key] = mapping[key]
        key = mapping[key].get("parent")
    for node in reversed(path.values()):
        if isinstance(node.get("message"), dict):
            yield node["message"]


def _created(node: dict[str, Any]) -> float:
    message = node.get("message")
    created = message.get("create_time") if isinstance(message, dict) else None
    return created if isinstance(created, int | float) else 0.0


def _turn(message: dict[str, Any]) -> dict[str, Any] | None:
    role = _dict(message, "author").get("role")
    content, metadata = _dict(message, "content"), _dict(message, "metadata")
    if (
        role not in ("user", "assistant")
        or metadata.get("is_visually_hidden_from_conversation")
        or content.get("content_type") in _UNSEEN
        or message.get("recipient") not in (None, "all")
    ):
        return None
    said = [*_said(content), *_attached(metadata)]
    text = _CITED.sub("", "\n".join(said)).strip()
    return {"role": role, "text": text, "at": message.get("create_time")} if text else None


def _said(content: dict[str, Any]) -> Iterator[str]:
    parts = content.get("parts")
    if not isinstance(parts, list):
        text = content.get("text")
        if isinstance(text, str):
            yield text
        return
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]  # speech, written down
        elif isinstance(part, dict) and "image" in str(part.get("content_type")):
            yield "[image]"


def _attached(metadata: dict[str, Any]) -> Iterator[str]:
    files = metadata.get("attachments")
    for file in files if isinstance(files, list) else ():
        kind = str(_dict({"file": file}, "file").get("mime_type", ""))
        if isinstance(file, dict) and file.get("name") and not kind.startswith("image/"):
            yield f"[file: {file['name']}]"


def _dict(value: dict[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
