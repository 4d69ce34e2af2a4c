"""The gate."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from justmem_eval import gate as gates
from justmem_eval.cli import app
from justmem_eval.metrics import Figure
from justmem_eval.records import Files, Piece, Retrieved
from justmem_eval.results import Measured

HERE = Path(__file__).parent
NO_LEXICAL = ("weight.lexical=0",)
NO_DATES = ("weight.date=0",)


def gate(data: Path, slices: str, cache: Path, *settings: str) -> tuple[int, str]:
    switches = [word for setting in settings for word in ("--set", setting)]
    files = ["--data", str(data), "--slices", str(HERE / slices), "--cache", str(cache)]
    result = CliRunner().invoke(app, ["gate", *files, *switches])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all gates here: the texts are embedded once."""
    return tmp_path_factory.mktemp("vectors")


def test_retrieval_finds_what_the_gate_lists(data: Path, vectors: Path) -> None:
    code, said = gate(data, "gate.toml", vectors)
    assert code == 0, said


def test_retrieval_finds_what_only_its_date_decides(vectors: Path) -> None:
    code, said = gate(HERE / "data_dates", "gate_dates.toml", vectors)
    assert code == 0, said


def test_the_floors_on_published_data_hold(dev_data: Path, vectors: Path) -> None:
    code, said = gate(dev_data, "published.toml", vectors)
    assert code == 0, said


def test_a_ranking_without_words_fails_the_gate(data: Path, vectors: Path) -> None:
    code, said = gate(data, "gate.toml", vectors, *NO_LEXICAL)
    assert code == 1
    assert "FAIL  living, rules cards, rules plans:" in said


def test_a_ranking_without_dates_fails_the_gate(vectors: Path) -> None:
    code, said = gate(HERE / "data_dates", "gate_dates.toml", vectors, *NO_DATES)
    assert code == 1
    assert said.count("FAIL") > 2


@pytest.mark.parametrize("name", ["gate.toml", "gate_dates.toml", "published.toml"])
def test_each_tolerance_follows_from_the_number_of_questions(name: str) -> None:
    for slice in gates.read(HERE / name):
        for figure, floor in slice.floors.items():
            wanted = gates.tolerance(figure, floor.value, slice.questions)
            assert floor.tolerance == wanted, f"{slice.name}: {figure}"


def measured(**figures: float) -> Measured:
    return Measured(
        run={},
        questions=400,
        missing=0,
        figures={name: Figure(value=value, n=400) for name, value in figures.items()},
    )


def slice_of(**floors: gates.Floor) -> gates.Slice:
    return gates.Slice(
        benchmark="locomo", cards="rules", plans="rules", questions=400, floors=floors
    )


@pytest.mark.parametrize(("now", "ok"), [(86.0, True), (78.1, True), (77.9, False)])
def test_a_figure_may_fall_by_its_tolerance(tmp_path: Path, now: float, ok: bool) -> None:
    floor = gates.Floor(value=80.0, tolerance=2.0)
    ((holds, text),) = gates.check(slice_of(recall=floor), measured(recall=now), Files(tmp_path))
    assert holds is ok
    assert ("worse by" in text) is not ok


def test_another_number_of_questions_fails(tmp_path: Path) -> None:
    other = slice_of().model_copy(update={"questions": 17})
    ((ok, text),) = gates.check(other, measured(), Files(tmp_path))
    assert not ok
    assert "400 questions, not 17" in text


def test_a_question_that_is_gone_or_not_found_fails(tmp_path: Path) -> None:
    wanted = slice_of().model_copy(update={"found": {"a": ("s1:2",), "b": ("s1:2",)}})
    files = Files(tmp_path)
    files.evidence.add(Retrieved(id="a", chosen=(Piece(place=("s1", (1, 3))),)))
    first, second = gates.check(wanted, measured(), files)
    assert first == (False, f"{wanted.name}: a does not read s1:2")
    assert second == (False, f"{wanted.name}: there is no question b")
