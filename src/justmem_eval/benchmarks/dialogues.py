"""The layout that LoCoMo and REALTALK share: `session_1`, `session_2`, ... with turns between two
people, and questions with evidence by the ids of turns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn
from justmem.errors import InvalidFile
from justmem_eval.benchmarks import files
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question, TurnKey

Item = Mapping[str, Any]
Places = dict[tuple[int, int], TurnKey]  # the two numbers of an id -> the turn
Talk = tuple[str, list[Session], Places, Iterable[Item]]  # name, sessions, places, questions
ADVERSARIAL = "adversarial"

_SESSION = re.compile(r"session_(\d+)")
_ID = r"D\s*:?\s*0*(\d+)\s*[:;]\s*0*(\d+)"
_EVIDENCE = re.compile(rf"{_ID}(?:\s*-\s*{_ID})?")


def benchmark(
    name: str,
    talks: Iterable[Talk],
    categories: Mapping[int, str],
    paths: Iterable[Path],
    corrections: Mapping[tuple[str, str], str] = {},
) -> Benchmark:
    """`corrections`: (question, official answer) -> corrected answer. Questions carry no time:
    they are asked when the last session has taken place."""
    histories: dict[str, History] = {}
    cases: list[Case] = []
    notes: list[str] = []
    for talk, sessions, places, asked in talks:
        histories[talk] = History(talk, sessions)
        for number, item in enumerate(asked):
            id, text = f"{talk}/{number}", str(item["question"])
            turns = evidence(item.get("evidence") or [], places, id, notes)
            category = categories.get(int(item["category"]), str(item["category"]))
            abstain = category == ADVERSARIAL
            if not turns and not abstain:
                notes.append(f"{id}: no evidence, left out of recall")
            answer = "" if abstain else str(item.get("answer", ""))
            corrected = corrections.get((text, answer), "")
            gold = Gold(
                answer=answer,
                category=category,
                turns=turns,
                abstain=abstain,
                corrected="" if corrected == answer else corrected,
            )
            cases.append(Case(Question(id=id, text=text, at=sessions[-1].at), gold, talk))
    return Benchmark(name, cases, histories.__getitem__, notes, files.digests(*paths))


def sessions_of(
    talk: Item,
    where: str,
    text: Callable[[Item], str],
    time: Callable[[str, str], datetime],
) -> tuple[list[Session], Places]:
    """In order of time. `time` takes the key of a session and what to name in an error."""
    found: list[Session] = []
    places: Places = {}
    for key, turns in talk.items():
        if not _SESSION.fullmatch(key) or not turns:  # dates of sessions that do not exist
            continue
        try:
            said = tuple(Turn(speaker=turn["speaker"], text=text(turn)) for turn in turns)
            at = time(key, f"{where}, {key}")
        except (KeyError, TypeError) as error:
            raise InvalidFile(f"{where}, {key}: {error}. Not the published layout.") from error
        found.append(Session(id=key, at=at, turns=said))
        for number, turn in enumerate(turns, 1):
            if match := _EVIDENCE.fullmatch(str(turn["dia_id"])):
                places[int(match[1]), int(match[2])] = key, number
    return sorted(found, key=lambda session: (session.at, session.id)), places


def with_caption(text: str, caption: str | None) -> str:
    """A shared photo is part of what was said: its caption stands in for it."""
    return f"{text} [shared a photo: {caption}]".strip() if caption else text


def evidence(given: Iterable[Any], places: Places, id: str, notes: list[str]) -> frozenset[TurnKey]:
    """Ids like `D8:6`. Some entries hold several, a range, or an odd form: `D:11:26`, `D30:05`,
    `D17;39`. What names no turn is noted."""
    turns: set[TurnKey] = set()
    for entry in filter(str.strip, map(str, given)):
        matches = list(_EVIDENCE.finditer(entry))
        for match in matches:
            first = int(match[1]), int(match[2])
            last = (int(match[3]), int(match[4])) if match[3] else first
            named = [turn for each, turn in places.items() if first <= each <= last]
            turns.update(named)
            if not named:
                notes.append(f"{id}: evidence {match[0]!r} names no turn")
        if not matches:
            notes.append(f"{id}: evidence {entry!r} cannot be read")
    return frozenset(turns)
