"""The benchmarks by name: official files -> questions for a system, gold for the metrics.

locomo, locomo_plus, longmemeval, realtalk, beam, living    one benchmark each
dialogues        the layout that LoCoMo and REALTALK share
files            reads official files
recorded         cards and plans that a strong model wrote once
types            what a system may see, and what only metrics and judge may see
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import resources
from pathlib import Path

from justmem.errors import InvalidFile, InvalidSetting
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
    "harm": "No memory needed",
    "mine": "Your own",
}
# Read from their published files.
NAMES = tuple(name for name in TITLES if name not in ("living", "harm", "mine"))

__all__ = [
    "LOADERS",
    "NAMES",
    "TITLES",
    "Benchmark",
    "Case",
    "Gold",
    "History",
    "Question",
    "TurnKey",
    "checked",
    "load",
]


LOADERS: Mapping[str, Callable[[Path], Benchmark]] = {
    "locomo": locomo.load,
    "longmemeval": longmemeval.load,
    "longmemeval_m": longmemeval.load_m,
    "locomo_plus": locomo_plus.load,
    "realtalk": realtalk.load,
    "living": living.load,
    "harm": living.load_harm,
    **{name: partial(beam.load, name) for name in beam.SIZES},
}


def load(name: str, data: Path) -> Benchmark:
    if name not in LOADERS:
        raise InvalidSetting(f"There is no benchmark {name!r}: use {', '.join(LOADERS)}.")
    return LOADERS[name](data)


def checked(name: str, data: Path) -> Iterator[str]:
    """Lines that say what is there, what is wrong with it, or where to get it."""
    sources = resources.files("justmem_eval").joinpath("sources.toml").read_text("utf-8")
    source = tomllib.loads(sources)[name]
    try:
        found = load(name, data)
    except InvalidFile as error:
        yield f"{TITLES[name]}: not there or not readable. {error}"
        yield f"  get it from {source['where']}"
        yield f"  licence: {source['licence']}"
        return
    file, digest = next(iter(found.files.items()))
    yield f"{TITLES[name]}: {file}, {len(found.cases)} questions, sha256 {digest}"
    expected = source.get("files", {}).get(file)
    if expected is None:
        yield "  a file of this name is not known here: count and hash are not checked"
    elif expected["questions"] != len(found.cases):
        yield f"  {len(found.cases)} questions, {expected['questions']} expected"
    elif expected.get("sha256", digest) != digest:
        yield f"  another version: the sha256 should be {expected['sha256']}"
    else:
        yield "  as expected"
    yield from (f"  note: {note}" for note in found.notes)
