"""One conversation of a Claude export.

`chat_messages` lists the messages of all branches by time. If messages name their parents, only the
branch that ends in the current (or else the last) message is kept. The text of an attachment and an
artifact become separate turns with the role `tool`. Claude's own memories and the documents of
projects become notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from justmem.edits.notes import LONGEST_TEXT as LONGEST_NOTE
from justmem.intake.sessions import LONGEST_TURN

_HEADING = re.compile(r"^(#{1,6} .*|\*\*.*\*\*)\n\s*\n", re.MULTILINE)
_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}
_SKIPPED = {"thinking": "thought", "tool_use": "tool message", "tool_result": "tool message"}


def read(value: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields the session as a dict. It may have no turns."""
    messages = _branch(value, skipped)
    turns = [turn for message in messages for turn in _turns(message, skipped)]
    at, title = value.get("created_at"), value.get("name")
    yield {"id": value.get("uuid"), "at": at, "title": title, "turns": turns}


def read_memories(value: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """What Claude remembers of all conversations, and of each project: a note for each paragraph.
    A heading in bold or with # stays with the paragraph under it."""
    projects = value.get("project_memories")
    texts = {"claude": value["conversations_memory"]} | {
        f"claude/{project}": text
        for project, text in (projects if isinstance(projects, dict) else {}).items()
    }
    for key, text in texts.items():
        joined = _HEADING.sub(r"\1\n", str(text or "").strip())
        for number, paragraph in enumerate(re.split(r"\n\s*\n", joined), 1):
            if paragraph.strip():
                yield {"note": paragraph.strip(), "key": f"{key}/memory-{number}", "at": None}


def read_project(value: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """The instructions of a project are not imported: nobody said them."""
    skipped["project instruction"] += bool(value.get("prompt_template"))
    description = str(value.get("description") or "").strip()
    if description:
        text = f"{value.get('name') or 'Project'}: {description}"
        yield {"note": text, "key": f"claude/{value.get('uuid')}", "at": value.get("created_at")}
    for document in _dicts(value, "docs"):
        text = f"[file: {document.get('filename') or 'untitled'}]\n{document.get('content') or ''}"
        if len(text) > LONGEST_NOTE:
            skipped["oversized file"] += 1
            continue
        key = f"claude/{document.get('uuid')}"
        at = document.get("created_at") or value.get("created_at")
        yield {"note": text, "key": key, "at": at}


def _branch(value: dict[str, Any], skipped: Counter[str]) -> list[dict[str, Any]]:
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
    skipped["replaced message"] += len(messages) - len(path)
    return list(reversed(path.values()))


def _turns(message: dict[str, Any], skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    role, at = _ROLES.get(str(message.get("sender"))), message.get("created_at")
    if role is None:
        skipped["system message"] += 1
        return
    parts = _dicts(message, "content")
    said = [str(part["text"]) for part in parts if part.get("type") == "text" and part.get("text")]
    if not parts and isinstance(message.get("text"), str):
        said = [message["text"]]  # the only field in older exports
    documents: list[str] = []
    for part in parts:
        given = part.get("input")
        if part.get("name") == "artifacts" and isinstance(given, dict) and given.get("content"):
            documents.append(f"[artifact: {given.get('title') or 'untitled'}]\n{given['content']}")
        elif part.get("type") != "text":
            skipped[_SKIPPED.get(str(part.get("type")), "other part")] += 1
    for file in (*_dicts(message, "attachments"), *_dicts(message, "files")):
        name = f"[file: {file.get('file_name') or 'pasted text'}]"
        if content := file.get("extracted_content"):
            documents.append(f"{name}\n{content}")
        else:
            said.append(name)
            skipped["file"] += 1
    text = "\n".join(said).strip()
    if text:
        yield {"role": role, "text": text, "at": at}
    for document in documents:
        if len(document) > LONGEST_TURN:
            skipped["oversized file"] += 1
        else:
            yield {"role": "tool", "text": document, "at": at}


def _dicts(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    inner = value.get(key)
    return [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
