"""The benchmarks by name: official files -> questions for a system, gold for the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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


_LOADERS: Mapping[str, Callable[[Path], Benchmark]] = {
    "locomo": locomo.load,
    "longmemeval": longmemeval.load,
    "longmemeval_m": longmemeval.load_m,
    "locomo_plus": locomo_plus.load,
    "realtalk": realtalk.load,
    "living": living.load,
    **{name: partial(beam.load, name) for name in beam.SIZES},
}


def load(name: str, data: Path) -> Benchmark:
    if name not in _LOADERS:
        raise InvalidSetting(f"There is no benchmark {name!r}: use {', '.join(NAMES)} or living.")
    return _LOADERS[name](data)
