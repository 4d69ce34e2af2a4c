"""The benchmarks by name: official files -> questions for a system, gold for the metrics."""

from __future__ import annotations

from pathlib import Path

from justmem.errors import InvalidSetting
from justmem_eval.benchmarks import beam, living, locomo, locomo_plus, longmemeval, realtalk
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question, TurnKey

TITLES = {
    "locomo": "LoCoMo",
    "longmemeval": "LongMemEval-S",
    "longmemeval_m": "LongMemEval-M",
    "locomo_plus": "LoCoMo-Plus",
    "realtalk": "REALTALK",
    "beam": "BEAM-100K",
    "beam_500k": "BEAM-500K",
    "beam_1m": "BEAM-1M",
    "living": "Living",
    "mine": "Your own",
}
# Read from their published files.
NAMES = tuple(name for name in TITLES if name not in ("living", "mine"))

__all__ = ["NAMES", "TITLES", "Benchmark", "Case", "Gold", "History", "Question", "TurnKey", "load"]


def load(name: str, data: Path) -> Benchmark:
    if name == "locomo":
        return locomo.load(data)
    if name == "longmemeval":
        return longmemeval.load(data)
    if name == "locomo_plus":
        return locomo_plus.load(data)
    if name == "longmemeval_m":
        return longmemeval.load_m(data)
    if name == "realtalk":
        return realtalk.load(data)
    if name in beam.SIZES:
        return beam.load(name, data)
    if name == "living":
        return living.load()
    raise InvalidSetting(f"There is no benchmark {name!r}: use {', '.join(NAMES)} or living.")
