"""The gate holds and says by how much it was missed; ablations show what a signal is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from eval_server import SWITCHES
from typer.testing import CliRunner

from justmem.domain import Profile
from justmem_eval import benchmarks
from justmem_eval.ablation import Ablation, ablations, curve, rows
from justmem_eval.cli.app import app
from justmem_eval.gate import Floor, Passed, check
from justmem_eval.switches import parse

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


def test_the_committed_figures_hold(data: Path, tmp_path: Path) -> None:
    """With the models people use. What is worse on purpose: `make gate ARGS=--write`."""
    floors = Path(__file__).with_name("floors.toml")
    command = ["gate", "--data", str(data), "--floors", str(floors), "--cache", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    fallen = [line for line in result.output.splitlines() if "worse by" in line]
    assert (result.exit_code, fallen) == (0, []), result.output[-2000:]


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


def test_every_yes_or_no_switch_of_the_profile_has_its_ablation() -> None:
    switches = {n for n, field in Profile.model_fields.items() if field.annotation is bool}
    assert {f"without {name}" for name in switches} <= {each.name for each in ablations()}


def test_an_ablation_shows_its_difference_to_the_default() -> None:
    def measure(place: tuple[str, str, str], ablation: Ablation) -> dict[str, Any]:
        value = {"value": 80.0 if ablation.set else 82.5, "n": 4}
        recall = {"slot": {"fraction": value, "any": value}}
        costs = {"pairs": {"value": 20.0, "n": 4}, "cpu_ms": {}}
        spanning = {"fraction": value}
        return {"turn": recall, "session": recall, "spanning_turn": spanning, "costs": costs}

    wanted = [Ablation(name="default"), Ablation(name="without x", set=("x=false",))]
    headings, (first, second) = rows(wanted, ["locomo"], measure)
    assert len(headings) == len(first) == len(second)
    assert first[:2] == ["default", "82.50"]
    assert second[:2] == ["without x", "80.00 (-2.50)"]


def test_every_point_of_the_curve_is_another_setting() -> None:
    settings = [parse(point.set).model_dump_json() for point in curve()]
    assert len(set(settings)) == len(settings) > 8


def test_sample_cards_come_with_what_was_said(data: Path) -> None:
    command = ["sample", "--data", str(data), "--benchmark", "locomo", "--count", "4"]
    result = CliRunner().invoke(app, command)
    cards, said = result.output.splitlines()[::2], result.output.splitlines()[1::2]
    assert (len(cards), len(said)) == (4, 4)
    assert "Nora finally signed the lease" in cards[0]
    assert said[0].startswith("    Nora: Morning Tomas! I finally signed the lease")


@pytest.mark.parametrize("benchmark", benchmarks.NAMES)
def test_the_cards_in_the_docs_are_those_that_come_out(data: Path, benchmark: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")
    command = ["sample", "--data", str(data), "--benchmark", benchmark]
    assert CliRunner().invoke(app, command).output in page
