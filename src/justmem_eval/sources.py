"""Where the benchmarks come from, and whether a file is what it should be."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from justmem.errors import InvalidFile
from justmem_eval import benchmarks
from justmem_eval.benchmarks import TITLES, Benchmark


@cache
def known() -> Mapping[str, Any]:
    return tomllib.loads(files("justmem_eval").joinpath("sources.toml").read_text("utf-8"))


def checked(name: str, data: Path) -> Iterator[str]:
    """Lines that say what is there, what is wrong with it, or where to get it."""
    entry = known()[name]
    try:
        found = benchmarks.load(name, data)
    except InvalidFile as error:
        yield f"{TITLES[name]}: not there or not readable. {error}"
        yield f"  get it from {entry['where']}"
        yield f"  licence: {entry['licence']}"
        return
    file, digest = next(iter(found.files.items()))
    yield f"{TITLES[name]}: {file}, {len(found.cases)} questions, sha256 {digest}"
    wrong = list(differences(found, entry.get("files", {}).get(file)))
    yield from (f"  {line}" for line in wrong)
    if not wrong:
        yield "  as expected"
    yield from (f"  note: {note}" for note in found.notes)


def differences(found: Benchmark, expected: Mapping[str, Any] | None) -> Iterator[str]:
    if expected is None:
        yield "a file of this name is not known here: counts and hash are not checked"
        return
    if expected.get("sha256") not in (None, next(iter(found.files.values()))):
        yield f"another version: the sha256 should be {expected['sha256']}"
    histories = dict.fromkeys(case.history for case in found.cases)
    counts = {"questions": len(found.cases), "histories": len(histories)}
    if "sessions" in expected:
        counts["sessions"] = sum(len(found.history(id).sessions) for id in histories)
    kinds = Counter(case.gold.category for case in found.cases)
    wanted = {**expected, **expected.get("categories", {})}
    for name, count in {**kinds, **counts}.items():
        if wanted.get(name, count) != count:
            yield f"{count} {name}, {wanted[name]} expected"
