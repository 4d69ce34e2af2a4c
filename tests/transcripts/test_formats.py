"""One example of each format: what is read, and what is named as skipped."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from justmem.errors import InvalidFile
from justmem.transcripts import Reading, read_bytes

AT = "2024-05-20"


def chatgpt(*messages: Any, **more: Any) -> Any:
    nodes = {
        str(n): {"message": message, "parent": str(n - 1), "children": [str(n + 1)]}
        for n, message in enumerate(messages)
    }
    last = str(len(messages) - 1)
    return {"id": "c", "create_time": 1716206400, "current_node": last, "mapping": nodes, **more}


def message(role: str, text: str, **more: Any) -> Any:
    return {"author": {"role": role}, "content": {"parts": [text]}, **more}


def claude(*parts: Any, **more: Any) -> Any:
    said = {"sender": "assistant", "created_at": AT, "content": list(parts), **more}
    return {"uuid": "c", "name": "Garden", "created_at": AT, "chat_messages": [said]}


def artifact(**given: Any) -> Any:
    return {"type": "tool_use", "name": "artifacts", "input": given}


TEXT = {"type": "text", "text": "Here it is."}
MEMORIES = {
    "content_type": "model_editable_context",
    "model_set_context": "1. [2024-05-01]. Likes tea.\n\n2. Has a cat.",
}
IOS = """\u200e[20.05.24, 14:30:15] Ana: \u200eMessages are end-to-end encrypted.
[20.05.24, 14:31:00] Ben: I moved to Graz.
It is lovely.
[20.05.24, 14:32:00] Ana: \u200eimage omitted
[21.05.24, 09:00:00] Ana: Welcome: at last!"""
ANDROID = """5/2/24, 2:30\u202fPM - Ana created group "Trip"
5/2/24, 2:31\u202fPM - Ana: Shall we go?
5/3/24, 12:05\u202fAM - Ben: <Media omitted>
5/3/24, 12:05\u202fAM - Ben: This message was deleted
5/3/24, 12:06\u202fAM - Ben: Yes. <This message was edited>"""

MARKDOWN = """---
title: Bread
date: 2024-05-19
---
## You

How?

## ChatGPT

### Steps
Fold: twice."""

# The content, the turns as role or speaker and text, and what is skipped.
EXAMPLES: dict[str, tuple[Any, list[str], dict[str, int]]] = {
    "ChatGPT": (
        chatgpt(
            message("system", "You are helpful."),
            message("user", "", content={"content_type": "user_editable_context"}),
            message("user", "I sold my piano."),
            message("assistant", "search()", recipient="browser"),
            message("tool", "a page"),
            message("assistant", "", content={"content_type": "thoughts"}),
            message("assistant", "Why?"),
        ),
        ["User: I sold my piano.", "Assistant: Why?"],
        {"system message": 1, "custom instruction": 1, "tool message": 2, "thought": 1},
    ),
    "ChatGPT's saved memories": (
        chatgpt(
            {"author": {"role": "system"}, "content": MEMORIES},
            message("assistant", "Likes tea.", recipient="bio"),
            message("assistant", "Swims on Fridays.", recipient="bio"),
            message("user", "Remember that."),
        ),
        ["Note: Likes tea.", "Note: Has a cat.", "Note: Swims on Fridays.", "User: Remember that."],
        {},
    ),
    "Claude's artifacts": (
        claude(
            {"type": "thinking"},
            TEXT,
            artifact(command="create", title="Plan", content="Leeks in March."),
            artifact(command="update", old_str="March", new_str="May"),
        ),
        ["Assistant: Here it is.", "Tool: [artifact: Plan]\nLeeks in March."],
        {"thought": 1, "tool message": 1},
    ),
    "Claude's attachments": (
        claude(
            TEXT,
            attachments=[{"file_name": "a.txt", "extracted_content": "Rules"}],
            files=[{"file_name": "b.jpg"}],
        ),
        ["Assistant: Here it is.\n[file: b.jpg]", "Tool: [file: a.txt]\nRules"],
        {"file": 1},
    ),
    "Claude's memories": (
        [
            {
                "conversations_memory": "**Work**\n\nAna repairs cellos.\n\nShe likes tea.",
                "project_memories": {"p1": "The thesis is due in June."},
            }
        ],
        [
            "Note: **Work**\nAna repairs cellos.",
            "Note: She likes tea.",
            "Note: The thesis is due in June.",
        ],
        {},
    ),
    "Claude's projects": (
        [
            {
                "uuid": "p1",
                "name": "Thesis",
                "description": "On bats.",
                "prompt_template": "Be brief.",
                "created_at": AT,
                "docs": [
                    {"uuid": "d1", "filename": "a.md", "content": "Bats hear."},
                    {"uuid": "d2", "filename": "b.md", "content": "x" * 100_001},
                ],
            }
        ],
        ["Note: Thesis: On bats.", "Note: [file: a.md]\nBats hear."],
        {"project instruction": 1, "oversized file": 1},
    ),
    "too long an attachment": (
        claude(TEXT, attachments=[{"extracted_content": "x" * 1_000_001}]),
        ["Assistant: Here it is."],
        {"oversized file": 1},
    ),
    "WhatsApp on iOS": (
        IOS,
        ["Ben: I moved to Graz.\nIt is lovely.", "Ana: Welcome: at last!"],
        {"media file": 1, "system message": 1},
    ),
    "WhatsApp on Android": (
        ANDROID,
        ["Ana: Shall we go?", "Ben: Yes."],
        {"system message": 2, "media file": 1},
    ),
    "WhatsApp in other languages": (
        '20.05.24, 14:30 - Ana "Anni" B: Hallo\n20.05.24, 14:31 - Ana: <Medien ausgeschlossen>\n'
        '20.05.24, 14:31 - Ana hat die Gruppe "Reise: 2024" erstellt\n'
        "[20.05.24, 14:32:00] Ana: \u200eBild weggelassen",
        ['Ana "Anni" B: Hallo'],
        {"media file": 2, "system message": 1},
    ),
    "Markdown with headings": (
        MARKDOWN,
        ["User: How?", "Assistant: ### Steps\nFold: twice."],
        {},
    ),
    "Markdown in bold": (
        "**User:** Hi\n\n**Assistant:** Hello",
        ["User: Hi", "Assistant: Hello"],
        {},
    ),
    "a chat of named people": (
        "Ana: Hi\nBen: Hello\nAna: Bye",
        ["Ana: Hi", "Ben: Hello", "Ana: Bye"],
        {},
    ),
    "a diary": (
        "Dear diary,\nNote: today I moved.",
        ["User: Dear diary,\nNote: today I moved."],
        {},
    ),
    "a list with colons": ("Price: 20\nSize: 3", ["User: Price: 20\nSize: 3"], {}),
    "mem0": (
        {
            "results": [{"id": "1", "memory": "Likes tea", "created_at": AT, "metadata": {"a": 1}}],
            "relations": [{"source": "ana", "relationship": "likes", "target": "tea"}],
        },
        ["Note: Likes tea", 'Note: {"a":1}'],
        {"relation": 1},
    ),
    "several lists": (
        {"sessions": [{"turns": [{"speaker": "Ana", "text": "Hi"}]}], "facts": [{"fact": "Tea."}]},
        ["Ana: Hi", "Note: Tea."],
        {},
    ),
    "Zep's facts": (
        {
            "edges": [
                {"uuid": "1", "fact": "Ana lives in Graz", "valid_at": AT, "invalid_at": None},
                {"fact": "Ana lives in Linz", "valid_at": AT, "invalid_at": "2024-06-01T00:00:00Z"},
            ]
        },
        ["Note: Ana lives in Graz", "Note: Ana lives in Linz (until 2024-06-01)"],
        {},
    ),
}


def reading(value: Any, **options: Any) -> Reading:
    text = value if isinstance(value, str) else json.dumps(value)
    return read_bytes(text.encode(), **{"at": AT} | options)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_format_is_read(name: str) -> None:
    value, turns, skipped = EXAMPLES[name]
    found = reading(value)
    assert [f"{turn.speaker}: {turn.text}" for s in found.sessions for turn in s.turns] == turns
    assert found.skipped == skipped
    assert found.problems == []


@pytest.mark.parametrize(
    ("value", "title"),
    [
        (chatgpt(message("user", "Hi"), title="Piano " * 50), ("Piano " * 50)[:200]),
        (chatgpt(message("user", "Hi"), title=None), None),
        (claude(TEXT), "Garden"),
        (MARKDOWN, "Bread"),
        ("# Bread\n\n**User:** How?\n\n**Assistant:** Slowly.", "Bread"),
        ("# Bread\n\nFold it twice.", None),
    ],
)
def test_a_title_is_a_label(value: Any, title: str | None) -> None:
    (session,) = reading(value).sessions
    assert session.labels == ({"title": title.strip()} if title else {})


def test_whatsapp_makes_a_session_for_each_day_with_a_lasting_id() -> None:
    first, second = reading(IOS).sessions
    assert (first.at, second.at) == (datetime(2024, 5, 20, 14, 31), datetime(2024, 5, 21, 9))
    more = reading(IOS + "\n[22.05.24, 10:00:00] Ben: Thanks.").sessions
    assert [session.id for session in more[:2]] == [first.id, second.id]


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("5/2/24, 2:30 PM - A: b", datetime(2024, 5, 2, 14, 30)),
        ("5/2/24, 14:30 - A: b", datetime(2024, 2, 5, 14, 30)),
        ("5/20/24, 14:30 - A: b", datetime(2024, 5, 20, 14, 30)),
        ("2024-05-20, 00:30 - A: b", datetime(2024, 5, 20, 0, 30)),
        ("[20.5.2024, 12:30:01 a.m.] A: b", datetime(2024, 5, 20, 0, 30)),
        ("01/06/24, 2:30 pm - A: b", datetime(2024, 6, 1, 14, 30)),  # British and Indian English
        ("1/6/24, 2:30 p. m. - A: b", datetime(2024, 6, 1, 14, 30)),
        ("20/05/2024 à 14:30 - A: b", datetime(2024, 5, 20, 14, 30)),
        ("20.5.2024 klo 14.30 - A: b", datetime(2024, 5, 20, 14, 30)),
        ("2024. 05. 20. 14:30 - A: b", datetime(2024, 5, 20, 14, 30)),
        ("2024/5/20 下午2:30 - A: b", datetime(2024, 5, 20, 14, 30)),
        ("2024년 3월 5일 오후 2:30 - A: b", datetime(2024, 3, 5, 14, 30)),
        ("[2024. 3. 5. 오전 12:30:15] A: b", datetime(2024, 3, 5, 0, 30)),
        ("2024年3月5日 午後2:30 - A: b", datetime(2024, 3, 5, 14, 30)),
        ("[20.05.24, 2:30:15 nachm.] A: b", datetime(2024, 5, 20, 14, 30)),
    ],
)
def test_dates_of_whatsapp(line: str, at: datetime) -> None:
    assert reading(line).sessions[0].at == at


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (1716206400, "2024-05-20T14:00"),
        ("2024-05-20T12:00:00Z", "2024-05-20T14:00"),
        ("2024-05-20T12:00:00+05:00", "2024-05-20T12:00"),
        ("2024-05-20T12:00", "2024-05-20T12:00"),
    ],
)
def test_utc_becomes_the_local_time_of_a_zone(given: Any, read: str) -> None:
    turn = {"role": "user", "content": "Hi", "timestamp": given}
    found = reading({"id": "a", "at": given, "turns": [turn]}, zone=ZoneInfo("Europe/Vienna"))
    session = found.sessions[0]
    assert session.at == session.turn(1).at == datetime.fromisoformat(read)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("Dear diary, today I moved.", "does not say when"),
        ('{"fact": "Ana lives in Graz"}', "Pass at="),
        ('{"memory": " ", "created_at": "2024-05-20"}', "The text of a note must have"),
        ("99/99/24, 10:00 - A: b", "not a date"),
    ],
)
def test_the_error_says_what_is_missing(value: str, sentence: str) -> None:
    with pytest.raises(InvalidFile, match=sentence):
        reading(value, at=None)
