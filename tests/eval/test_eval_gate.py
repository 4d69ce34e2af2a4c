"""The gate: what retrieval must still find (`make gate`).

A slice is a part of a benchmark in one configuration. A small slice lists, question by question,
the turns that must be read and the questions that must be refused. A large slice has floors:
figures that may fall a little, because results differ between processors.
"""

from __future__ import annotations

import asyncio
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eval_server import described

from justmem_eval import runs
from justmem_eval.metrics import turns_of
from justmem_eval.records import Files
from justmem_eval.results import measured

HERE = Path(__file__).parent
FLIPPED = 0.02  # the share of questions whose result differs between two processors
TOKENS = 0.02  # the share by which token figures may differ
EMBEDDER = "embedder=onnx:bge-small-en-v1.5"


def problems(file: str, data: Path, folder: Path, *switches: str) -> list[str]:
    """What retrieval no longer finds of the slices in a gate file."""
    found = []
    for number, slice in enumerate(tomllib.loads((HERE / file).read_text("utf-8"))["slice"]):
        name = f"{slice['benchmark']}, {slice['cards']} cards"
        place = folder / f"{number}"
        found += [f"{name}: {each}" for each in missed(slice, data, place, *switches)]
    return found


def missed(slice: Mapping[str, Any], data: Path, folder: Path, *switches: str) -> Iterator[str]:
    given = described(
        data,
        benchmark=slice["benchmark"],
        cards=slice["cards"],
        plans=slice["plans"],
        switches=(EMBEDDER, *slice.get("set", ()), *switches),
    )
    if "histories" in slice:
        given = replace(given, benchmark=given.benchmark.of(slice["histories"]))
    asyncio.run(runs.run(given, folder, folder.parent.parent))
    files, found = Files(folder), measured(folder, given.benchmark)
    assert found.questions == slice["questions"]
    for name, floor in slice.get("floors", {}).items():
        now, spread = found[name].value, 100 * 3 * math.sqrt(FLIPPED / found.questions)
        assert now is not None, f"{name} is missing"
        tokens = name.startswith("tokens.")
        if now > floor * (1 + TOKENS) if tokens else now < floor - spread:
            yield f"{name} is {now:.1f}, was {floor}"
    for id, turns in slice.get("found", {}).items():
        if lost := {*map(place, turns)} - turns_of(files.evidence[id], "source"):
            yield f"{id} does not read {sorted(lost)}"
    for id in slice.get("refused", ()):
        if files.predictions(1)[id].sufficient:
            yield f"{id} must be refused, and is answered"


def place(text: str) -> tuple[str, int]:
    session, _, turn = text.rpartition(":")
    return session, int(turn)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all gates: the texts are embedded once."""
    return tmp_path_factory.mktemp("vectors")


def test_retrieval_finds_what_the_gate_lists(data: Path, cache: Path) -> None:
    assert problems("gate.toml", data, cache / "gate") == []


def test_retrieval_finds_what_only_its_date_decides(cache: Path) -> None:
    assert problems("gate_dates.toml", HERE / "data_dates", cache / "dates") == []


def test_the_floors_on_published_data_hold(dev_data: Path, cache: Path) -> None:
    assert problems("published.toml", dev_data, cache / "published") == []


def test_a_ranking_without_words_fails_the_gate(data: Path, cache: Path) -> None:
    assert problems("gate.toml", data, cache / "no-words", "weight.lexical=0")


def test_a_ranking_without_dates_fails_the_gate(cache: Path) -> None:
    folder = cache / "no-dates"
    assert len(problems("gate_dates.toml", HERE / "data_dates", folder, "weight.date=0")) > 2
