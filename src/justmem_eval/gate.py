"""The gate: what retrieval must still find.

A slice is a part of a benchmark in one configuration. A large slice has floors: figures that may
fall by their tolerance and no more. The tolerance follows from the number of questions, because
results differ a little between processors. A small slice lists, question by question, the turns
that must be read and the questions that must be refused.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from justmem.domain import Value
from justmem.errors import InvalidFile
from justmem_eval.benchmarks import TurnKey
from justmem_eval.metrics import turns_of
from justmem_eval.records import Files, Retrieved
from justmem_eval.results import Measured
from justmem_eval.settings import Origin

# Between two processors about two questions in a hundred change their result.
_FLIPPED = 0.02
_TOKENS = 2.0  # percent by which token figures may differ


class Floor(Value):
    value: float
    tolerance: float


class Slice(Value):
    benchmark: str
    cards: Origin
    plans: Origin
    set: tuple[str, ...] = ()
    histories: tuple[str, ...] = ()  # only these; empty: all
    questions: int  # how many questions the slice has
    floors: Mapping[str, Floor] = {}  # by the name of a figure
    found: Mapping[str, tuple[str, ...]] = {}  # question id -> "session:turn"
    refused: tuple[str, ...] = ()  # ids of questions that must not be answered

    @property
    def name(self) -> str:
        return f"{self.benchmark}, {self.cards} cards, {self.plans} plans"


Check = tuple[bool, str]  # whether it holds, and the line of the report


def tolerance(figure: str, value: float, questions: int) -> float:
    """Three standard deviations of the change that `_FLIPPED` flipped questions make. Token
    figures: a fixed share of the value."""
    if figure.startswith("tokens."):
        return round(value * _TOKENS / 100, 1)
    return round(100 * 3 * math.sqrt(_FLIPPED * questions) / questions, 1)


def read(path: Path) -> list[Slice]:
    try:
        entries = tomllib.loads(path.read_text("utf-8"))["slice"]
        return [Slice.model_validate(entry) for entry in entries]
    except (OSError, tomllib.TOMLDecodeError, KeyError, ValidationError) as error:
        raise InvalidFile(f"{path} is not a gate file: {error}") from error


def check(slice: Slice, found: Measured, files: Files) -> Iterator[Check]:
    if found.questions != slice.questions:
        text = f"the slice has {found.questions} questions, not {slice.questions}"
        yield False, f"{slice.name}: {text}"
    for name, floor in slice.floors.items():
        yield _floor(slice, name, floor, found[name].value)
    for id, turns in slice.found.items():
        yield _found(slice, id, {_turn(turn) for turn in turns}, files.evidence.get(id))
    answers = files.predictions(1)
    for id in slice.refused:
        answer = answers.get(id)
        ok = answer is not None and not answer.sufficient
        text = "is refused" if ok else "must be refused, and is answered"
        yield ok, f"{slice.name}: {id} {text}"


def _floor(slice: Slice, name: str, floor: Floor, now: float | None) -> Check:
    if now is None:
        return False, f"{slice.name}: {name} is missing"
    fall = floor.value - now if not name.startswith("tokens.") else now - floor.value
    ok = fall <= floor.tolerance
    verdict = "holds" if ok else f"worse by {fall:.1f}"
    text = f"{name} {now:.1f}, floor {floor.value:g} (tolerance {floor.tolerance:g}): {verdict}"
    return ok, f"{slice.name}: {text}"


def _found(slice: Slice, id: str, wanted: set[TurnKey], row: Retrieved | None) -> Check:
    if row is None:
        return False, f"{slice.name}: there is no question {id}"
    missing = sorted(wanted - turns_of(row, "source"))
    shown = ", ".join(f"{session}:{turn}" for session, turn in missing)
    text = f"does not read {shown}" if missing else "reads what it needs"
    return not missing, f"{slice.name}: {id} {text}"


def _turn(text: str) -> TurnKey:
    session, _, turn = text.rpartition(":")
    return session, int(turn)
