"""LoCoMo: ten long conversations between two people, 1,540 questions in categories 1 to 4.

Category 5 has no gold answer: right is to say that it is not in memory.

Official answers have errors. The audit at github.com/dial481/locomo-audit lists them in files
`errors_conv_N.json`. Where such files lie beside the data, answers are also judged by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from justmem.domain import Session
from justmem_eval.benchmarks import dialogues, files
from justmem_eval.benchmarks.dialogues import Item, Places
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question

FILES = ("locomo10.json", "locomo10.dev.json")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_TIME = "%I:%M %p on %d %B, %Y"
_SAME_ANSWER = "WRONG_CITATION"  # an error in the evidence: the answer is right


def load(data: Path) -> Benchmark:
    path = files.find(data, FILES, "LoCoMo")
    items = files.read_list(path, ("sample_id", "conversation", "qa"), "LoCoMo conversations")
    corrections, keys = _corrections(data)
    histories: dict[str, History] = {}
    cases: list[Case] = []
    notes: list[str] = []
    for item in items:
        name = str(item["sample_id"])
        sessions, places = sessions_of(item["conversation"], f"{path}: {name}")
        histories[name] = History(name, sessions)
        for number, asked in enumerate(item["qa"]):
            # Questions carry no time: they are asked when the last session has taken place.
            question = Question(
                id=f"{name}/{number}", text=str(asked["question"]), at=sessions[-1].at
            )
            gold = _gold(asked, question, places, corrections, notes)
            cases.append(Case(question, gold, name))
    digests = files.digests(path, *keys)
    return Benchmark("locomo", cases, histories.__getitem__, notes, digests)


def _corrections(data: Path) -> tuple[Mapping[tuple[str, str], str], list[Path]]:
    """(Question, official answer) -> corrected answer, and the files that say so."""
    paths = sorted({path for depth in ("", "*/", "*/*/") for path in data.glob(f"{depth}errors_*")})
    keys = ("question", "golden_answer", "error_type", "correct_answer")
    found = {
        (str(item["question"]), str(item["golden_answer"])): str(item["correct_answer"])
        for path in paths
        for item in files.read_list(path, keys, "corrections")
        if item["error_type"] != _SAME_ANSWER
    }
    return found, paths


def sessions_of(conversation: Item, where: str) -> tuple[list[Session], Places]:
    def text(turn: Item) -> str:
        return dialogues.with_caption(turn["text"], turn.get("blip_caption"))

    def time(key: str, where: str) -> datetime:
        return files.as_time(conversation[f"{key}_date_time"], _TIME, where)

    return dialogues.sessions_of(conversation, where, text, time)


def _gold(
    asked: Mapping[str, Any],
    question: Question,
    places: Places,
    corrections: Mapping[tuple[str, str], str],
    notes: list[str],
) -> Gold:
    turns = dialogues.evidence(asked.get("evidence") or [], places, question.id, notes)
    category = int(asked["category"])
    if not turns and category != 5:
        notes.append(f"{question.id}: no evidence, left out of recall")
    answer = "" if category == 5 else str(asked.get("answer", ""))
    corrected = corrections.get((question.text, answer), "")
    return Gold(
        answer=answer,
        category=CATEGORIES.get(category, str(category)),
        turns=turns,
        abstain=category == 5,
        corrected="" if corrected == answer else corrected,
    )
