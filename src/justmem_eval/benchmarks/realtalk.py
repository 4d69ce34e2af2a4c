"""REALTALK: ten chats of two real people over three weeks, about 728 questions.

Known problems of the data, and what is done about them:

- Evidence ids are not positions: ids of removed messages are missing, so `D1:12` may be the tenth
  turn. They are looked up. Ids that no turn has are listed, most of them in chats 1, 5, 8 and 9.
- Ids come as lists in one string, as ranges, or misspelt (`D5:3.`, `D17;39`, `D 2:18`).
- A speaker's name in the file may differ from the name that both use in the chat and questions.
- Questions have no time: they are asked when the last session has taken place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn
from justmem.errors import InvalidFile
from justmem_eval.benchmarks import files
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question, TurnKey

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}

_FILES = "Chat_*_*.json"
_TIME = "%d.%m.%Y, %H:%M:%S"
_SESSION = re.compile(r"session_(\d+)")
_PLACE = r"D\s*:?\s*0*(\d+)\s*[:;]\s*0*(\d+)"
_EVIDENCE = re.compile(rf"{_PLACE}(?:\s*-\s*{_PLACE})?")
Places = Mapping[tuple[int, int], TurnKey]  # the numbers of an id -> the turn


def load(data: Path) -> Benchmark:
    paths = _paths(data)
    histories: dict[str, History] = {}
    cases: list[Case] = []
    notes: list[str] = []
    for path in paths:
        item = files.read_json(path)
        if not isinstance(item, dict) or "qa" not in item or "session_1" not in item:
            raise InvalidFile(f"{path} is not a chat of REALTALK: it has no qa or no session_1.")
        name = "-".join(path.stem.split("_")[:2]).lower()
        sessions, places = _sessions(item, path)
        histories[name] = History(name, sessions)
        at = max(session.at for session in sessions)
        for number, asked in enumerate(item["qa"]):
            id = f"{name}/{number}"
            turns = _evidence(asked.get("evidence") or [], places, id, notes)
            gold = Gold(
                answer=str(asked["answer"]),
                category=CATEGORIES.get(asked["category"], str(asked["category"])),
                turns=frozenset(turns),
            )
            cases.append(Case(Question(id=id, text=str(asked["question"]), at=at), gold, name))
    return Benchmark("realtalk", cases, histories.__getitem__, notes, files.digests(*paths))


def _paths(data: Path) -> list[Path]:
    """In `data`, in a folder of it, or in the `data` folder of the repository there."""
    for pattern in (_FILES, f"realtalk/{_FILES}", f"*/data/{_FILES}", f"REALTALK/{_FILES}"):
        if found := sorted(data.glob(pattern), key=_number):
            return found
    raise InvalidFile(
        f"No REALTALK files in {data}: expected {_FILES}. `justmem-eval data` says where they are."
    )


def _number(path: Path) -> int:
    number = path.stem.split("_")[1]
    return int(number) if number.isdigit() else 0


def _sessions(item: Mapping[str, Any], path: Path) -> tuple[list[Session], Places]:
    found: list[Session] = []
    places: dict[tuple[int, int], TurnKey] = {}
    for key, turns in item.items():
        if not _SESSION.fullmatch(key) or not turns:
            continue
        where = f"{path}, {key}"
        try:
            said = tuple(
                Turn(speaker=t["speaker"], text=files.with_caption(t["clean_text"], _caption(t)))
                for t in turns
            )
            ids = [str(turn["dia_id"]) for turn in turns]
        except (KeyError, TypeError) as error:
            raise InvalidFile(f"{where}: {error}. Not the published layout.") from error
        at = files.as_time(turns[0]["date_time"], _TIME, where)
        found.append(Session(id=key, at=at, turns=said))
        for number, id in enumerate(ids, 1):
            if match := _EVIDENCE.fullmatch(id):
                places[int(match[1]), int(match[2])] = (key, number)
    return sorted(found, key=lambda session: (session.at, session.id)), places


def _caption(turn: Mapping[str, Any]) -> str | None:
    caption = turn.get("blip_caption")
    return "; ".join(map(str, caption)) if isinstance(caption, list) else caption


def _evidence(given: list[Any], places: Places, id: str, notes: list[str]) -> set[TurnKey]:
    turns: set[TurnKey] = set()
    for entry in filter(str.strip, map(str, given)):
        found = list(_EVIDENCE.finditer(entry))
        for match in found:
            wanted = _range(match, places)
            turns |= {places[each] for each in wanted}
            if not wanted:
                notes.append(f"{id}: evidence {match[0]!r} names no turn")
        if not found:
            notes.append(f"{id}: evidence {entry!r} cannot be read")
    if not turns:
        notes.append(f"{id}: no evidence, left out of recall")
    return turns


def _range(match: re.Match[str], places: Places) -> list[tuple[int, int]]:
    first = int(match[1]), int(match[2])
    last = (int(match[3]), int(match[4])) if match[3] else first
    return [each for each in places if first <= each <= last]
