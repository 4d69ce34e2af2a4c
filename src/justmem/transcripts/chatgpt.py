"""One conversation of a ChatGPT export.

Its `mapping` is a tree: every edit and every regenerated reply is a branch. `current_node` is the
end of the branch that the person saw last. Only messages that were on the screen are kept, without
messages of the system and of tools, and without thoughts. Saved memories become notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

_THOUGHTS = {"thoughts", "reasoning_recap"}
_CITED = re.compile("\ue200[^\ue201]*\ue201|【\\d+[†:][^】]*】")
_MEMORY = re.compile(r"^\d+\. (?:\[(\d{4}-\d\d-\d\d)\]\.? )?(.+)$", re.MULTILINE)


def read(value: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields the saved memories, and the session as a dict. It may have no turns."""
    at = value.get("create_time") or value.get("update_time")
    turns = []
    for message in _branch(value, skipped):
        content, when = _dict(message, "content"), message.get("create_time") or at
        if message.get("recipient") == "bio":
            yield {"note": "\n".join(_said(content, Counter())), "at": when}
        elif content.get("content_type") == "model_editable_context":
            for day, text in _MEMORY.findall(str(content.get("model_set_context"))):
                yield {"note": text.strip(), "at": day or when}
        elif turn := _turn(message, skipped):
            turns.append(turn)
    id = value.get("conversation_id") or value.get("id")
    yield {"id": id, "at": at, "title": value.get("title"), "turns": turns}


def _branch(value: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    mapping = {key: node for key, node in value["mapping"].items() if isinstance(node, dict)}
    key = value.get("current_node")
    if key not in mapping:
        # Older exports have no current_node: take the newest message without a reply.
        leaves = [name for name, node in mapping.items() if not node.get("children")]
        key = max(leaves, key=lambda name: _created(mapping[name]), default=None)
    path: dict[str, dict[str, Any]] = {}
    while isinstance(key, str) and key in mapping and key not in path:
        path[key] = mapping[key]
        key = mapping[key].get("parent")
    skipped["replaced message"] += sum(
        bool(node.get("message")) for name, node in mapping.items() if name not in path
    )
    for node in reversed(path.values()):
        if isinstance(node.get("message"), dict):
            yield node["message"]


def _created(node: dict[str, Any]) -> float:
    created = _dict(node, "message").get("create_time")
    return created if isinstance(created, int | float) else 0.0


def _turn(message: dict[str, Any], skipped: Counter[str]) -> dict[str, Any] | None:
    role = _dict(message, "author").get("role")
    content, metadata = _dict(message, "content"), _dict(message, "metadata")
    unseen = ""
    if content.get("content_type") in _THOUGHTS:
        unseen = "thought"
    elif role == "tool" or message.get("recipient") not in (None, "all"):
        unseen = "tool message"
    elif (
        role not in ("user", "assistant")
        or metadata.get("is_visually_hidden_from_conversation")
        or content.get("content_type") == "user_editable_context"
    ):
        unseen = "system message"
    if unseen:
        skipped[unseen] += any(_said(content, Counter())) or unseen == "thought"
        return None
    said = [*_said(content, skipped), *_attached(metadata, skipped)]
    text = _CITED.sub("", "\n".join(said)).strip()
    return {"role": role, "text": text, "at": message.get("create_time")} if text else None


def _said(content: dict[str, Any], skipped: Counter[str]) -> Iterator[str]:
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else [content.get("text")]:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]  # transcribed speech
        elif isinstance(part, dict):
            kind = "image" if "image" in str(part.get("content_type")) else "recording"
            skipped[kind] += 1
            if kind == "image":
                yield "[image]"


def _attached(metadata: dict[str, Any], skipped: Counter[str]) -> Iterator[str]:
    files = metadata.get("attachments")
    for file in files if isinstance(files, list) else ():
        kind = str(_dict({"file": file}, "file").get("mime_type", ""))
        if isinstance(file, dict) and file.get("name") and not kind.startswith("image/"):
            skipped["file"] += 1
            yield f"[file: {file['name']}]"


def _dict(value: dict[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
