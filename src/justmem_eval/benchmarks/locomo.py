"""LoCoMo: ten long conversations between two people, 1,540 questions in categories 1 to 4.

Category 5 has no gold answer: right is to say that it is not in memory.

Official answers have errors. The audit at github.com/dial481/locomo-audit lists them in files
`errors_conv_N.json`. Where such files lie beside the data, answers are also judged by them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn
from justmem.errors import InvalidFile
from justmem_eval.benchmarks import files
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question, TurnKey

FILES = ("locomo10.json", "locomo10.dev.json")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_TIME = "%I:%M %p on %d %B, %Y"
_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?0*(\d+):0*(\d+)")
_SAME_ANSWER = "WRONG_CITATION"  # an error in the evidence: the answer is right
Corrections = Mapping[tuple[str, str], str]  # question and official answer -> corrected answer


def load(data: Path) -> Benchmark:
    path = files.find(data, FILES, "LoCoMo")
    items = files.read_list(path, ("sample_id", "conversation", "qa"), "LoCoMo conversations")
    corrections, keys = _corrections(data)
    histories: dict[str, History] = {}
    cases: list[Case] = []
    notes: list[str] = []
    for item in items:
        name = str(item["sample_id"])
        histories[name] = History(name, sessions_of(item["conversation"], f"{path}: {name}"))
        cases += _cases(item["qa"], histories[name], corrections, notes)
    digests = files.digests(path, *keys)
    return Benchmark("locomo", cases, histories.__getitem__, notes, digests)


def _corrections(data: Path) -> tuple[Corrections, list[Path]]:
    folders = (data, *data.glob("*/"), *data.glob("*/*/"))
    paths = sorted({path for folder in folders for path in folder.glob("errors_conv_*.json")})
    keys = ("question", "golden_answer", "error_type", "correct_answer")
    found = {
        (str(item["question"]), str(item["golden_answer"])): str(item["correct_answer"])
        for path in paths
        for item in files.read_list(path, keys, "corrections")
        if item["error_type"] != _SAME_ANSWER
    }
    return found, paths


def sessions_of(conversation: Mapping[str, Any], where: str) -> list[Session]:
    """In order of time. Date keys of sessions that do not exist are passed over."""
    found = []
    for key, turns in conversation.items():
        if _SESSION.fullmatch(key) and turns:
            try:
                told = conversation[f"{key}_date_time"]
                said = tuple(_turn(turn) for turn in turns)
            except (KeyError, TypeError) as error:
                raise InvalidFile(f"{where}, {key}: {error}. Not the published layout.") from error
            at = files.as_time(told, _TIME, f"{where}, {key}")
            found.append(Session(id=key, at=at, turns=said))
    return sorted(found, key=lambda session: (session.at, session.id))


def _turn(turn: Mapping[str, Any]) -> Turn:
    text = files.with_caption(turn["text"], turn.get("blip_caption"))
    return Turn(speaker=turn["speaker"], text=text)


def _cases(
    qa: list[Any], history: History, corrections: Corrections, notes: list[str]
) -> list[Case]:
    lengths = {session.id: len(session.turns) for session in history.sessions}
    # Questions carry no time: they are asked when the last session has taken place.
    at: datetime = max(session.at for session in history.sessions)
    cases = []
    for number, item in enumerate(qa):
        id, text = f"{history.id}/{number}", str(item["question"])
        turns = _evidence(item.get("evidence") or [], lengths, id, notes)
        category = int(item["category"])
        if not turns and category != 5:
            notes.append(f"{id}: no evidence, left out of recall")
        answer = "" if category == 5 else str(item.get("answer", ""))
        corrected = corrections.get((text, answer), "")
        gold = Gold(
            answer=answer,
            category=CATEGORIES.get(category, str(category)),
            turns=frozenset(turns),
            abstain=category == 5,
            corrected="" if corrected == answer else corrected,
        )
        cases.append(Case(Question(id=id, text=text, at=at), gold, history.id))
    return cases


def _evidence(
    given: list[Any], lengths: Mapping[str, int], id: str, notes: list[str]
) -> set[TurnKey]:
    """Ids like `D8:6`; some entries hold several, or an odd form such as `D:11:26`, `D30:05`."""
    turns: set[TurnKey] = set()
    for entry in given:
        places = _EVIDENCE.findall(str(entry))
        for session, turn in places:
            key = (f"session_{session}", int(turn))
            if 1 <= key[1] <= lengths.get(key[0], 0):
                turns.add(key)
            else:
                notes.append(f"{id}: evidence {entry!r} names no turn")
        if not places:
            notes.append(f"{id}: evidence {entry!r} cannot be read")
    return turns
