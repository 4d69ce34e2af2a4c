"""REALTALK: ten chats of two real people over three weeks, about 728 questions.

Known problems of the data, and what is done about them:

- Evidence ids are not positions: ids of removed messages are missing, so `D1:12` may be the tenth
  turn. They are looked up. Ids that no turn has are listed, most of them in chats 1, 5, 8 and 9.
- Ids come as lists in one string, as ranges, or misspelt (`D5:3.`, `D17;39`, `D 2:18`).
- A speaker's name in the file may differ from the name that both use in the chat and questions.
- Questions have no time: they are asked when the last session has taken place.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from justmem.domain import Session
from justmem.errors import InvalidFile
from justmem_eval.benchmarks import dialogues, files
from justmem_eval.benchmarks.dialogues import Item, Places, Talk
from justmem_eval.benchmarks.types import Benchmark

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}

_FILES = "Chat_*_*.json"
_TIME = "%d.%m.%Y, %H:%M:%S"


def load(data: Path) -> Benchmark:
    paths = _paths(data)
    return dialogues.benchmark("realtalk", map(_talk, paths), CATEGORIES, paths)


def _talk(path: Path) -> Talk:
    item = files.read_json(path)
    if not isinstance(item, dict) or "qa" not in item or "session_1" not in item:
        raise InvalidFile(f"{path} is not a chat of REALTALK: it has no qa or no session_1.")
    name = "-".join(path.stem.split("_")[:2]).lower()
    return name, *_sessions(item, str(path)), item["qa"]


def _paths(data: Path) -> list[Path]:
    """In `data`, in a folder of it, or in the `data` folder of the repository there."""
    for pattern in (_FILES, f"realtalk/{_FILES}", f"*/data/{_FILES}", f"REALTALK/{_FILES}"):
        if found := sorted(data.glob(pattern), key=lambda path: path.stem.split("_")[1].zfill(3)):
            return found
    raise InvalidFile(
        f"No REALTALK files in {data}: expected {_FILES}. `justmem-eval data` says where they are."
    )


def _sessions(item: Item, where: str) -> tuple[list[Session], Places]:
    def text(turn: Item) -> str:
        caption = turn.get("blip_caption")
        caption = "; ".join(map(str, caption)) if isinstance(caption, list) else caption
        return dialogues.with_caption(turn["clean_text"], caption)

    def time(key: str, where: str) -> datetime:
        return files.as_time(item[key][0]["date_time"], _TIME, where)

    return dialogues.sessions_of(item, where, text, time)
