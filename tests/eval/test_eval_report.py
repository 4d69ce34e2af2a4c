"""What is shown: the paper's tables with its own values, flips, and a page that needs nothing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from eval_server import SWITCHES, part, played
from typer.testing import CliRunner

from justmem.testing import Request, serve_openai
from justmem_eval import benchmarks, runs, tables
from justmem_eval.cli.app import app
from justmem_eval.compare import compare
from justmem_eval.report import page
from justmem_eval.report.svg import Point, bars, scatter
from justmem_eval.results import figures, pinned
from justmem_eval.runs import Description


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """JustMem beside Naive RAG; the judge accepts what the former says about Biscuit."""
    import asyncio

    data = Path(__file__).parent / "data"
    folder = tmp_path_factory.mktemp("runs")

    def script(request: Request) -> dict[str, Any]:
        said = request.body["messages"][1]["content"]
        if part(request) == "answer" and re.search(r"<memory-\d+>\n\[", said):
            from justmem.testing import chat_body

            return chat_body({"answer": "a cat"})
        return played(request)

    with serve_openai(script) as served:
        for system in ("naive_rag", "justmem"):
            given = Description(
                data=data,
                benchmark="locomo",
                system=system,
                label={"justmem": "JustMem", "naive_rag": "Naive RAG"}[system],
                model=f"openai:small@{served.url}",
                judge=f"openai:small@{served.url}",
                switches=SWITCHES,
                runs=3,
                planted=3,
            )
            asyncio.run(
                runs.run(runs.prepare(given), folder / system, folder / "cache", lambda *_: None)
            )
    return data, folder


def test_every_table_of_the_paper_is_there_with_its_values() -> None:
    main = tables.table("main")
    ours = next(line for line in main.lines if line.title == "JustMem")
    assert ours.paper == {"recall": 88.05, "accuracy": 79.61, "construction": 53.38, "infer": 1.33}
    assert len(main.lines) == 14
    for name in tables.NAMES:
        table = tables.table(name)
        cells = tables.cells(table, {})
        assert all(len(row) == len(tables.headings(table, {})) for row in cells)


def test_rows_of_different_tables_share_the_run_they_both_need() -> None:
    wanted = tables.needed(["granularity", "main"])
    assert sum(line.slug == "locomo_justmem" for line in wanted.values()) == 1


def test_flips_are_paired_by_question(two_runs: Any) -> None:
    _, folder = two_runs
    found = compare(folder / "naive_rag", folder / "justmem")
    assert set(found.majority.gained) == {"conv-1/1", "conv-1/2", "conv-1/13"}  # of Biscuit
    assert found.majority.lost == ()
    assert found.majority.p == 0.25


def test_compare_shows_the_questions_that_flipped(two_runs: Any) -> None:
    data, folder = two_runs
    command = ["compare", str(folder / "naive_rag"), str(folder / "justmem"), "--data", str(data)]
    said = CliRunner().invoke(app, command).output
    assert "What is the name of Tomas's dog?" in said
    assert "JustMem: Biscuit" in said
    assert "Naive RAG: a cat" in said


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_no_network_and_shows_ours_beside_the_papers(two_runs: Any) -> None:
    data, folder = two_runs
    found = {
        str(folder / name): figures(folder / name, runs.benchmark_of(folder / name, data))
        for name in ("justmem", "naive_rag")
    }
    html = page(found, {path: pinned(Path(path)) for path in found})
    links = Links()
    links.feed(html)
    assert links.found == []
    assert "url(" not in html
    assert "79.61" in html
    assert "Main comparison" in html
    assert "Naive RAG → JustMem" in html or "JustMem → Naive RAG" in html
    assert len(re.findall("<svg", html)) >= 3
    assert "Turn, all read" in html
    assert "Evidence tokens" in html


def test_the_report_refuses_other_data(two_runs: Any, tmp_path: Path) -> None:
    data, folder = two_runs
    text = (data / "locomo10.json").read_text().replace("Biscuit", "Cracker")
    (tmp_path / "locomo10.json").write_text(text)
    command = ["report", str(folder / "justmem"), "--data", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert "other data" in str(result.exception)


def test_plots_escape_what_they_are_given() -> None:
    drawn = scatter([Point(name="<b>&", x=1.0, y=50.0)], "x", "y")
    assert "<b>" not in drawn
    assert "&lt;b&gt;&amp;" in drawn
    assert scatter([], "x", "y") == ""
    assert bars({"a": {"s": None}}) == ""


def test_all_prints_and_stores_the_figures_of_each_benchmark(data: Path, tmp_path: Path) -> None:
    switches = [word for switch in SWITCHES for word in ("--set", switch)]
    command = ["all", "--data", str(data), "--cache", str(tmp_path), "--limit", "4", *switches]
    result = CliRunner().invoke(app, [*command, "--json", str(tmp_path / "eval.json")])
    assert result.exit_code == 0, result.output
    stored = json.loads((tmp_path / "eval.json").read_text())
    assert {name.split("-")[0] for name in stored} == set(benchmarks.TITLES)
    for name in ("turn recall, ten cards", "everything read", "turns claimed"):
        assert result.output.count(name) >= len(stored)
    costs = stored["locomo-rules-rules"]["costs"]
    assert costs["turns_claimed"]["value"] >= costs["cards_read"]["value"] / 2 > 0
