"""What is shown: the paper's tables with its own values, and flips."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from eval_server import SWITCHES, described, part, played
from typer.testing import CliRunner

from justmem_eval import benchmarks, runs, tables
from justmem_eval.cli import app
from justmem_eval.cli.running import KEYLESS
from justmem_eval.figures import read
from justmem_eval.loopback import Request, chat_body, serve_openai
from justmem_eval.results import compare, measured


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """JustMem beside Naive RAG; the judge accepts what the former says about Biscuit."""
    data = Path(__file__).parent / "data"
    folder = tmp_path_factory.mktemp("runs")

    def script(request: Request) -> dict[str, Any]:
        said = request.body["messages"][1]["content"]
        if part(request) == "answer" and re.search(r"<memory-\d+>\n\[", said):
            return chat_body({"answer": "a cat"})
        return played(request)

    with serve_openai(script) as served:
        for system in ("naive_rag", "justmem"):
            label = {"justmem": "JustMem", "naive_rag": "Naive RAG"}[system]
            given = described(data, served.url, system=system, label=label, runs=3)
            asyncio.run(runs.run(given, folder / system, folder / "cache"))
    return data, folder


def test_every_table_of_the_paper_is_there_with_its_values() -> None:
    main = tables.table("main")
    ours = next(line for line in main.lines if line.title == "JustMem")
    assert ours.paper == {"recall": 88.05, "accuracy": 79.61, "construction": 53.38, "infer": 1.33}
    assert len(main.lines) == 14
    for name in tables.NAMES:
        table = tables.table(name)
        grid = tables.grid(table, {})
        assert all(len(row) == len(grid.headings) for row in grid.rows)


def test_rows_of_different_tables_share_the_run_they_both_need() -> None:
    for name in ("granularity", "main"):
        assert "locomo_justmem" in {line.slug for line in tables.table(name).lines}


def test_flips_are_paired_by_question(two_runs: Any) -> None:
    _, folder = two_runs
    found = compare(folder / "naive_rag", folder / "justmem")
    assert set(found.gained) == {"conv-1/1", "conv-1/2", "conv-1/13"}  # of Biscuit
    assert found.lost == ()
    assert found.p == 0.25


def test_compare_shows_the_questions_that_flipped(two_runs: Any) -> None:
    data, folder = two_runs
    command = ["compare", str(folder / "naive_rag"), str(folder / "justmem"), "--data", str(data)]
    said = CliRunner().invoke(app, command).output
    assert "What is the name of Tomas's dog?" in said
    assert "JustMem: Biscuit" in said
    assert "Naive RAG: a cat" in said


def test_all_prints_and_stores_the_figures_of_each_benchmark(data: Path, tmp_path: Path) -> None:
    switches = [word for switch in SWITCHES for word in ("--set", switch)]
    command = ["all", "--data", str(data), "--cache", str(tmp_path), "--limit", "4", *switches]
    command += ["--out", str(tmp_path / "runs"), "--figures", str(tmp_path / "eval.json")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    stored = read(tmp_path / "eval.json")
    wanted = {"placed", *(run[0] for run in KEYLESS)}
    assert {name.split("-")[0] for name in stored} == wanted
    for name, figure in stored.items():  # a part of the questions has figures of its own
        if not name.startswith("placed"):
            assert "-limit_4-" in name
            assert "--limit 4" in figure.command
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.jsonl")}
    assert CliRunner().invoke(app, command).exit_code == 0  # nothing is done twice
    assert {path: path.stat().st_mtime_ns for path in files} == files
    for name in ("turn.ten.fraction", "turn.read.fraction", "costs.turns_claimed"):
        assert result.output.count(name) >= len(KEYLESS) - 1  # no recall where no memory is needed
    costs = {
        name.split(".", 1)[1]: each for name, each in stored.items() if "locomo-rules-rules" in name
    }
    assert costs["costs.turns_claimed"].value >= costs["costs.cards_read"].value / 2 > 0


# ---------------------------------------------------------------- all eight tables, whole


@pytest.fixture(scope="module")
def corrected_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hand-written slice, with a corrected answer key beside it."""
    folder = tmp_path_factory.mktemp("data") / "slice"
    shutil.copytree(Path(__file__).parent / "data", folder)
    first = benchmarks.load("locomo", folder).cases[1]
    wrong = {
        "question": first.question.text,
        "golden_answer": first.gold.answer,
        "error_type": "HALLUCINATION",
        "correct_answer": "Biscuit, a greyhound",
    }
    cited = {**wrong, "question": "another", "error_type": "WRONG_CITATION"}
    (folder / "errors_conv_0.json").write_text(json.dumps([wrong, cited]))
    return folder


def _table(number: str, data: Path, model: str, out: Path, cache: Path) -> str:
    command = ["table", number, "--data", str(data), "--model", model, "--out", str(out)]
    command += ["--cache", str(cache), "--runs", "2", "--limit", "3", "--yes"]
    command += ["--price", "1", "2"]
    command += [word for switch in SWITCHES for word in ("--set", switch)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return result.output


def test_all_eight_tables_run_whole_and_again_from_the_recorded_replies(
    corrected_data: Path, tmp_path: Path
) -> None:
    with serve_openai(played) as served:
        model = f"openai:small@{served.url}"
        first = {
            number: _table(str(number), corrected_data, model, tmp_path / "runs", tmp_path / "c")
            for number in range(1, 9)
        }
    for number, said in first.items():
        assert f"Table {number}: " in said
        assert re.search(r"About [\d,]+ calls and [\d.]+ M tokens, cost about", said)
        assert "Judges and answer keys" in said
        assert "±" in said
    for number in (2, 3, 4, 5, 8):
        assert "Flips" in first[number]
    # Nothing is asked of a server any more: the replies are enough.
    model = f"recorded:{tmp_path / 'c' / 'replies.jsonl'}"
    again = _table("4", corrected_data, model, tmp_path / "again", tmp_path / "c2")
    assert _figures(again) == _figures(first[4])


def _figures(said: str) -> list[str]:
    return re.findall(r"\d+\.\d+ ± \d+\.\d+", said)


def test_the_corrected_key_stands_beside_the_official_one(
    corrected_data: Path, tmp_path: Path
) -> None:
    def script(request: Request) -> Any:
        said = request.body["messages"][1]["content"]
        if part(request) == "judge":  # only the corrected answer is accepted
            return chat_body({"verdict": "correct" if "a greyhound" in said else "wrong"})
        return played(request)

    with serve_openai(script) as served:
        given = described(corrected_data, served.url)
        asyncio.run(runs.run(given, tmp_path / "run", tmp_path / "c"))
    found = measured(tmp_path / "run", given.benchmark)
    assert found["corrections"].value == 1
    official, corrected = found["accuracy"], found["accuracy.corrected"]
    assert corrected.value == pytest.approx((official.value or 0) + 100 / official.n)
    assert found["judge.strict.accepts_wrong"].value == 0.0
    assert found["judge.strict.refuses_right"].value == 100.0
    assert found["judge.lenient.refuses_right"].n == 2
