"""LoCoMo: ten long conversations between two people, 1,540 questions in categories 1 to 4.

Category 5 has no gold answer: right is to say that it is not in memory.

Official answers have errors. The audit at github.com/dial481/locomo-audit lists them in files
`errors_conv_N.json`. Where such files lie beside the data, answers are also judged by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from justmem.domain import Session
from justmem_eval.benchmarks import dialogues, files
from justmem_eval.benchmarks.dialogues import ADVERSARIAL, Item, Places, Talk
from justmem_eval.benchmarks.types import Benchmark

FILES = ("locomo10.json", "locomo10.dev.json")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL}

_TIME = "%I:%M %p on %d %B, %Y"
_SAME_ANSWER = "WRONG_CITATION"  # an error in the evidence: the answer is right
_CORRECTION = ("question", "golden_answer", "error_type", "correct_answer")


def load(data: Path) -> Benchmark:
    path = files.find(data, FILES, "LoCoMo")
    audits = sorted(
        {each for depth in ("", "*/", "*/*/") for each in data.glob(f"{depth}errors_*")}
    )
    corrections = {
        (str(item["question"]), str(item["golden_answer"])): str(item["correct_answer"])
        for audit in audits
        for item in files.read_list(audit, _CORRECTION, "corrections")
        if item["error_type"] != _SAME_ANSWER
    }
    return dialogues.benchmark("locomo", _talks(path), CATEGORIES, (path, *audits), corrections)


def _talks(path: Path) -> Iterator[Talk]:
    keys = ("sample_id", "conversation", "qa")
    for item in files.read_list(path, keys, "LoCoMo conversations"):
        name = str(item["sample_id"])
        yield name, *sessions_of(item["conversation"], f"{path}: {name}"), item["qa"]


def sessions_of(conversation: Item, where: str) -> tuple[list[Session], Places]:
    def text(turn: Item) -> str:
        return dialogues.with_caption(turn["text"], turn.get("blip_caption"))

    def time(key: str, where: str) -> datetime:
        return files.as_time(conversation[f"{key}_date_time"], _TIME, where)

    return dialogues.sessions_of(conversation, where, text, time)
