"""A corrected answer key beside the official one.

LoCoMo's official answers have errors. The audit at github.com/dial481/locomo-audit lists them, one
file a conversation: `errors_conv_N.json`, with `question`, `golden_answer`, `error_type` and
`correct_answer`. Where such files lie beside the data, answers are also judged by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from justmem_eval.benchmarks import files
from justmem_eval.benchmarks.types import Case

_SAME_ANSWER = "WRONG_CITATION"  # the evidence is wrong, the answer is right


def read(data: Path) -> tuple[dict[tuple[str, str], str], list[Path]]:
    """Corrected answers by question and official answer, and the files."""
    folders = (data, *data.glob("*/"), *data.glob("*/*/"))
    paths = sorted({path for folder in folders for path in folder.glob("errors_conv_*.json")})
    found: dict[tuple[str, str], str] = {}
    for path in paths:
        keys = ("question", "golden_answer", "error_type", "correct_answer")
        for item in files.read_list(path, keys, "corrections"):
            if item["error_type"] != _SAME_ANSWER:
                official = str(item["golden_answer"])
                found[str(item["question"]), official] = str(item["correct_answer"])
    return found, paths


def applied(cases: Sequence[Case], corrected: Mapping[tuple[str, str], str]) -> list[Case]:
    made = []
    for case in cases:
        answer = corrected.get((case.question.text, case.gold.answer), "")
        gold = case.gold.model_copy(update={"corrected": answer})
        made.append(replace(case, gold=gold) if answer != case.gold.answer else case)
    return made
