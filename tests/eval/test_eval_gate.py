"""The gate holds, and says by how much it was missed."""

from __future__ import annotations

from pathlib import Path

from eval_server import SWITCHES
from typer.testing import CliRunner

from justmem_eval.cli.app import app
from justmem_eval.gate import Floor, Passed, check

FLOORS = """
[[floor]]
benchmark = "locomo"
cards = "recorded"
plans = "recorded"
set = ["cards=3"]
figures = {}
"""


def gate(data: Path, floors: Path, cache: Path, *more: str) -> tuple[int, str]:
    switches = [word for switch in SWITCHES for word in ("--set", switch)]
    command = ["gate", "--data", str(data), "--floors", str(floors), "--cache", str(cache)]
    result = CliRunner().invoke(app, [*command, *switches, *more])
    return result.exit_code, result.output


def test_figures_as_committed_pass(data: Path, tmp_path: Path) -> None:
    floors = tmp_path / "floors.toml"
    floors.write_text(FLOORS)
    assert gate(data, floors, tmp_path, "--write")[0] == 0
    code, said = gate(data, floors, tmp_path)
    assert code == 0
    assert "turn.slot.fraction" in said
    assert "as committed" in said


def test_a_fall_fails_and_says_by_how_much(data: Path, tmp_path: Path) -> None:
    floors = tmp_path / "floors.toml"
    floors.write_text(FLOORS.replace("figures = {}", 'figures = {"turn.slot.fraction" = 101.0}'))
    code, said = gate(data, floors, tmp_path)
    assert code == 1
    assert "worse by" in said


def test_tokens_may_not_rise() -> None:
    floor = Floor(
        benchmark="locomo", cards="rules", plans="rules", figures={"costs.evidence_tokens": 300}
    )
    values = {"costs": {"evidence_tokens": {"value": 310.0, "n": 5}}}
    (found,) = check([floor], lambda _: values)
    assert not found.ok
    assert str(found).endswith("310.00, committed 300.00: worse by 10.00")


def test_a_figure_that_is_gone_fails() -> None:
    gone = Passed(floor="x", figure="turn.slot.fraction", committed=50, now=None, more=True)
    assert not gone.ok
    assert "gone" in str(gone)
