"""JustMem and other systems side by side: one scripted model, one meter, one rule."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from justmem.testing import HashEmbedder
from justmem_eval import figures, sidebyside
from justmem_eval.benchmarks import load, recorded
from justmem_eval.cli import app
from justmem_eval.loopback import Request
from justmem_eval.peer_check import HISTORY
from justmem_eval.scripted import NOT_JSON, Scripted
from justmem_eval.systems.peer import ADAPTERS


async def test_systems_are_measured_behind_one_meter(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "fakes"))
    bench = sidebyside.slice_of(load("locomo", data), 1, 2)
    found = await sidebyside.compare(
        dict.fromkeys(("justmem", "justmem_rules", "mempalace"), sys.executable),
        bench,
        HashEmbedder(),
        recorded.read("locomo", data),
        tmp_path,
        lambda _: None,
    )
    model, rules, palace = found
    for each in found:
        assert each.notes == ()
        assert each.missing == 0
        assert each.questions == len(bench.cases) == each["turn.ten.fraction"].n
        assert (each["process.build_cpu_s"].value or 0) > 0
        assert (each["process.peak_mb"].value or 0) > 1
        assert (each["process.disk_kb"].value or 0) > 0
        assert each["by_words.turn.ten.fraction"].n == each.questions
    assert model["calls.construction"].value == 2  # two sessions
    assert (model["tokens.construction"].value or 0) > 0
    assert model["calls.planning"].value == 1
    assert rules["tokens.construction"].value == palace["tokens.construction"].value == 0
    assert rules["calls.planning"].value == 0
    assert (model["turn.ten.fraction"].value or 0) > 50


async def test_a_system_that_cannot_start_is_named_and_the_others_go_on(
    data: Path, tmp_path: Path
) -> None:
    bench = sidebyside.slice_of(load("locomo", data), 1, 1)
    broken, rules = await sidebyside.compare(
        {"mem0": sys.executable, "justmem_rules": sys.executable},  # mem0 is not installed here
        bench,
        HashEmbedder(),
        recorded.Recorded(),
        tmp_path,
        lambda _: None,
    )
    assert "cannot start" in broken.notes[0]
    assert broken.missing == len(bench.cases)
    assert "INCOMPLETE" in sidebyside.cells([broken])[0][0]
    assert rules.notes == ()


def test_the_command_writes_table_figures_and_pictures(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # it writes into `build`
    command = ["peers", "--data", str(data), "--system", "justmem_rules", "--sessions", "1"]
    command += ["--figures", str(tmp_path / "figures.json"), "--cache", str(tmp_path / "c")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "JustMem, rules" in result.output
    published = figures.read(tmp_path / "figures.json")
    assert published["peers-locomo-1-1-justmem_rules.tokens.construction"].value == 0
    draw = Path(__file__).parents[2] / "docs" / "pictures" / "draw.py"
    subprocess.run([sys.executable, str(draw), str(tmp_path / "figures.json")], check=True)
    for theme in ("light", "dark"):
        drawn = ElementTree.parse(tmp_path / f"figures-{theme}.svg")
        assert "JustMem, rules" in {text.text for text in drawn.iter() if text.text}


ASKED = "What is Nora allergic to?"
SAID = HISTORY.sessions[0].turns[3].text  # the greyhound


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        (f'Question: {ASKED} {{"queries": []}}', ASKED),  # SimpleMem's plan
        (f'Query: {ASKED}\n{{"time_expression": null}}', "allergic"),
        (f"[2024-03-04, Mon] 7.Tomas: {SAID}\nsource_id", '"source_id": 7'),  # LightMem
        (f"subtopic summaries of {SAID}", "greyhound"),  # MemoryOS
        (f"knowledge extraction assistant: {SAID}", "User Private Data"),
        (f'"memory list" of {SAID}', "greyhound"),  # MemOS
        ("Write a poem.", NOT_JSON),
    ],
)
def test_the_scripted_model_replies_in_the_shape_that_a_peer_reads(prompt: str, found: str) -> None:
    scripted = Scripted([HISTORY], HashEmbedder(), plans={ASKED: {}})
    body = {"messages": [{"role": "user", "content": prompt}]}
    reply = scripted(Request("/v1/chat/completions", {}, body)).body
    assert isinstance(reply, dict)
    assert found in reply["choices"][0]["message"]["content"]
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_every_adapter_has_a_title() -> None:
    adapters = {path.stem.removesuffix("_adapter") for path in ADAPTERS.glob("*_adapter.py")}
    assert adapters <= set(sidebyside.TITLES)
