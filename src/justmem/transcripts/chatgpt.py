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
_OFTEN_BLANK = {"tool message", "system message"}
_CITED = re.compile("\ue200[^\ue201]{0,500}\ue201|【\\d{1,9}[†:][^】]{0,500}】")
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
        elif unseen := _unseen(message):
            skipped[unseen] += unseen not in _OFTEN_BLANK or any(_said(content, Counter()))
        else:
            said = [*_said(content, skipped), *_files(message, skipped)]
            if text := _CITED.sub("", "\n".join(said)).strip():
                role, at_turn = message["author"]["role"], message.get("create_time")
                turns.append({"role": role, "text": text, "at": at_turn})
    id = value.get("conversation_id") or value.get("id")
    yield {"id": id, "at": at, "title": value.get("title"), "turns": turns}


def _branch(value: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    mapping = {key: node for key, node in value["mapping"].items() if isinstance(node, dict)}
    messages = {key: _dict(node, "message") for key, node in mapping.items()}
    key = value.get("current_node")
    if key not in mapping:
        # Older exports have no current_node: take the newest message without a reply.
        leaves = [name for name, node in mapping.items() if not node.get("children")]
        key = max(leaves, key=lambda name: messages[name].get("create_time") or 0, default=None)
    path: dict[str, dict[str, Any]] = {}
    while isinstance(key, str) and key in mapping and key not in path:
        path[key] = messages[key]
        key = mapping[key].get("parent")
    skipped["replaced message"] += sum(map(bool, messages.values())) - sum(map(bool, path.values()))
    yield from filter(None, reversed(path.values()))


def _unseen(message: dict[str, Any]) -> str:
    """What kind of message it is, if it was not on the screen."""
    kind, role = _dict(message, "content").get("content_type"), _dict(message, "author").get("role")
    if kind in _THOUGHTS:
        return "thought"
    if kind == "user_editable_context":
        return "custom instruction"
    if role == "tool" or message.get("recipient") not in (None, "all"):
        return "tool message"
    hidden = _dict(message, "metadata").get("is_visually_hidden_from_conversation")
    shown = role in ("user", "assistant") and not hidden
    return "" if shown else "system message"


def _said(content: dict[str, Any], skipped: Counter[str]) -> Iterator[str]:
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else [content.get("text")]:
        text = part.get("text") if isinstance(part, dict) else part  # of a part: transcribed speech
        if isinstance(text, str):
            yield text
        elif isinstance(part, dict):
            kind = "image" if "image" in str(part.get("content_type")) else "recording"
            skipped[kind] += 1
            if kind == "image":
                yield "[image]"


def _files(message: dict[str, Any], skipped: Counter[str]) -> Iterator[str]:
    files = _dict(message, "metadata").get("attachments")
    for file in files if isinstance(files, list) else ():
        named = isinstance(file, dict) and file.get("name")
        if named and not str(file.get("mime_type")).startswith("image/"):
            skipped["file"] += 1
            yield f"[file: {file['name']}]"


def _dict(value: dict[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
