"""Hooks of coding assistants: the events they send on standard input, and the replies they expect.

Claude Code, Codex and Cursor send one JSON object with `prompt`, `session_id` (Cursor:
`conversation_id`) and `transcript_path`. Cline puts the prompt into an inner object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from justmem.integrations.safe import text_of, turn
from justmem.runtime import private_files

FILE = "hooks.json"  # in the data folder: when each hook ran last
_LONGEST = 20 * 1024 * 1024  # bytes of a transcript: its end
# Beginnings of texts that an assistant inserts as the user's.
_NOT_SAID = ("<system-reminder>", "<local-command-", "<command-", "<environment_context>")


@dataclass(frozen=True, slots=True)
class Event:
    client: str
    session: str
    prompt: str = ""
    transcript: Path | None = None

    @classmethod
    def read(cls, text: str) -> Event:
        """Raises ValueError for other input."""
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError("a hook sends one JSON object")
        if "hookName" in data:
            inner = data.get("userPromptSubmit")
            prompt = inner.get("prompt") if isinstance(inner, Mapping) else ""
            return cls("cline", f"cline-{data.get('taskId')}", str(prompt or ""))
        client = "codex" if "turn_id" in data else "claude-code"
        client = "cursor" if "conversation_id" in data else client
        id = data.get("conversation_id") or data.get("session_id") or "unnamed"
        path = data.get("transcript_path")
        transcript = Path(path).expanduser() if isinstance(path, str) and path else None
        return cls(client, f"{client}-{id}", str(data.get("prompt") or ""), transcript)

    def answer(self, evidence: str) -> str:
        """The evidence in the form that the assistant reads."""
        if not evidence:
            return ""
        if self.client == "cline":
            return json.dumps({"cancel": False, "contextModification": evidence})
        if self.client == "cursor":
            return json.dumps({"continue": True, "additional_context": evidence})
        added = {"hookEventName": "UserPromptSubmit", "additionalContext": evidence}
        return json.dumps({"hookSpecificOutput": added})

    def turns(self) -> list[dict[str, str]]:
        """All turns of the transcript, or else the prompt. Memory leaves out the ones whose key it
        knows."""
        if self.transcript is None:
            return [turn("user", self.prompt)]
        with self.transcript.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LONGEST))
            return list(_turns(file.read().decode("utf-8", "replace")))


def _turns(transcript: str) -> Iterator[dict[str, str]]:
    """From JSON Lines of Claude Code (`message`) or Codex (`payload`)."""
    for number, line in enumerate(transcript.split("\n")):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the beginning was cut off, or the end is being written
        if not isinstance(row, dict) or row.get("isMeta") or row.get("isSidechain"):
            continue
        message = row.get("message") or row.get("payload")
        if isinstance(message, dict) and message.get("role") in ("user", "assistant"):
            text = text_of(message.get("content"))
            if not text.startswith(_NOT_SAID):
                key = row.get("uuid") or row.get("ordinal") or number
                yield turn(message["role"], text, str(key))


# ---------------------------------------------------------------- whether they run


def record_run(folder: Path, name: str, client: str, at: str, error: str) -> None:
    runs = last_runs(folder) | {f"{name} of {client}": {"at": at, "error": error}}
    (folder / FILE).touch(private_files.FILE)
    (folder / FILE).write_text(json.dumps(runs), "utf-8")


def last_runs(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
