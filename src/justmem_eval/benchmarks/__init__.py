"""The benchmarks by name: official files -> questions for a system, gold for the metrics."""

from __future__ import annotations

from pathlib import Path

from justmem.errors import InvalidSetting
from justmem_eval.benchmarks import living, locomo, locomo_plus, longmemeval
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question, TurnKey

NAMES = ("locomo", "longmemeval", "locomo_plus")  # read from their published files
TITLES = {
    "locomo": "LoCoMo",
    "longmemeval": "LongMemEval-S",
    "locomo_plus": "LoCoMo-Plus",
    "living": "Living",
}

__all__ = ["NAMES", "TITLES", "Benchmark", "Case", "Gold", "History", "Question", "TurnKey", "load"]


def load(name: str, data: Path, *, named: bool = False) -> Benchmark:
    """`named` puts the speaker's name before a LoCoMo-Plus trigger."""
    if name == "locomo":
        return locomo.load(data)
    if name == "longmemeval":
        return longmemeval.load(data)
    if name == "locomo_plus":
        return locomo_plus.load(data, named=named)
    if name == "living":
        return living.load()
    raise InvalidSetting(f"There is no benchmark {name!r}: use {', '.join(TITLES)}.")
