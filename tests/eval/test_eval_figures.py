"""Published figures come from what the evaluation wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from eval_server import SWITCHES
from typer.testing import CliRunner

from justmem.errors import InvalidFile
from justmem_eval import figures
from justmem_eval.cli import app
from justmem_eval.metrics import Figure

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture
def some(tmp_path: Path) -> Path:
    path = tmp_path / "figures.json"
    figures.write(path, "run", {"recall": Figure(value=86.251, n=662)}, "justmem-eval run")
    return path


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_marked_figures_of_the_documents_are_those_of_the_file(path: Path) -> None:
    text = path.read_text("utf-8")
    assert figures.filled(text, figures.read(ROOT / "docs" / "figures.json")) == text


def test_some_document_takes_a_figure_from_the_file() -> None:
    assert any("<!-- figure: " in path.read_text("utf-8") for path in DOCUMENTS)


def test_every_published_figure_says_where_it_comes_from() -> None:
    found = figures.read(ROOT / "docs" / "figures.json")
    assert found
    for each in found.values():
        assert re.match(r"justmem-eval (run|peers|placed)|python bench/\w+", each.command)
        assert each.n > 0


def test_a_number_that_differs_is_replaced_in_its_own_precision(some: Path) -> None:
    found = figures.read(some)
    assert figures.filled("is <!-- figure: run.recall -->99.9 %", found) == (
        "is <!-- figure: run.recall -->86.3 %"
    )
    assert figures.filled("<!-- figure: run.recall -->**1**", found).endswith("-->**86**")
    assert figures.filled("unmarked 99.9", found) == "unmarked 99.9"


def test_a_mark_without_a_figure_is_an_error(some: Path) -> None:
    with pytest.raises(InvalidFile, match=r"run\.nothing"):
        figures.filled("<!-- figure: run.nothing -->1.0", figures.read(some))


def test_a_new_run_replaces_its_own_figures_and_no_others(some: Path) -> None:
    figures.write(some, "other", {"recall": Figure(value=1.0, n=1)}, "justmem-eval run")
    figures.write(some, "run", {"session": Figure(value=95.0, n=2)}, "justmem-eval run")
    assert sorted(figures.read(some)) == ["other.recall", "run.session"]


def test_a_run_enters_its_figures_and_documents_are_filled(data: Path, tmp_path: Path) -> None:
    path, document = tmp_path / "figures.json", tmp_path / "page.md"
    switches = [word for switch in SWITCHES for word in ("--set", switch)]
    command = ["run", "--data", str(data), "--cache", str(tmp_path), *switches]
    result = CliRunner().invoke(app, [*command, "--figures", str(path)])
    assert result.exit_code == 0, result.output
    name = next(key for key in figures.read(path) if key.endswith("turn.ten.fraction"))
    found = figures.read(path)[name]
    assert found.n == 14
    assert found.command.startswith("justmem-eval run --benchmark locomo --cards rules")
    assert str(tmp_path) not in found.command
    document.write_text(f"<!-- figure: {name} -->0.00\n")
    result = CliRunner().invoke(app, ["fill", str(document), "--figures", str(path)])
    assert result.exit_code == 0, result.output
    assert document.read_text() == f"<!-- figure: {name} -->{found.value:.2f}\n"
    assert f"{name}: 0.00 -> {found.value:.2f}" in result.output
