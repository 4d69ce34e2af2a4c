"""A run from build to report against a real HTTP server, killed, capped and misbehaved at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from eval_server import SPENT, SWITCHES, described, part, played

from justmem.errors import InvalidSetting
from justmem_eval import runs
from justmem_eval.loopback import Request, Respond, Served, chat_body, serve_openai
from justmem_eval.models import CapReached
from justmem_eval.records import Files
from justmem_eval.results import measured
from justmem_eval.settings import Settings


async def run(given: Settings, folder: Path) -> Path:
    await runs.run(given, folder, folder.parent)
    return folder


async def test_a_run_leaves_one_line_per_question_in_every_stage(
    data: Path, tmp_path: Path, server: Served
) -> None:
    given = described(data, server.url, runs=2, planted=4)
    folder = await run(given, tmp_path / "run")
    files = Files(folder)
    assert len(files.memory) == 1
    assert len(files.evidence) == 17
    assert len(files.predictions(1)) == len(files.predictions(2)) == 17
    assert len(files.verdicts(1)) == 15  # category 5 has no gold answer
    found = measured(folder, given.benchmark)
    assert found["accuracy"].value is not None
    assert found["accuracy"].deviation is not None  # of two runs
    assert found["accuracy"].n == 15
    assert found.errors == {}
    assert found["tokens.construction"].value == 4 * SPENT  # four sessions, one call each
    assert found["tokens.planning"].value == SPENT
    assert found["judge.strict.accepts_wrong"].n == 4


async def test_the_calls_at_the_server_and_the_receipts_agree(
    data: Path, tmp_path: Path, server: Served
) -> None:
    folder = await run(described(data, server.url, runs=2), tmp_path / "run")
    files = Files(folder)
    built = sum(each.tokens for each in files.memory.items())
    assert built == SPENT * 4
    answered = sum(p.tokens for n in (1, 2) for p in files.predictions(n).items())
    planned = sum(each.tokens for each in files.evidence.items())
    asked = sum(part(request) != "judge" for request in server.requests)
    assert asked * SPENT == built + answered + planned


async def test_doing_it_again_asks_the_model_nothing(
    data: Path, tmp_path: Path, server: Served
) -> None:
    given = described(data, server.url)
    await run(given, tmp_path / "run")
    before = len(server.requests)
    await run(given, tmp_path / "run")
    assert len(server.requests) == before


async def test_another_table_row_over_the_same_cards_builds_nothing(
    data: Path, tmp_path: Path, server: Served
) -> None:
    await run(described(data, server.url), tmp_path / "a")
    extracted = sum(part(request) == "extract" for request in server.requests)
    switches = (*SWITCHES, "granularity=session_first")
    await run(described(data, server.url, switches=switches), tmp_path / "b")
    assert sum(part(request) == "extract" for request in server.requests) == extracted == 4


def test_a_killed_run_goes_on_and_repeats_only_the_call_in_flight(
    data: Path, tmp_path: Path
) -> None:
    running: list[subprocess.Popen[bytes]] = []
    victim = 29

    def script(request: Request) -> Respond | dict[str, Any]:
        if len(served.requests) == victim:
            os.kill(running[0].pid, signal.SIGKILL)
            return Respond(cut="before")
        return played(request)

    with serve_openai(script) as served:
        command = [sys.executable, "-m", "justmem_eval", "run", "--data", str(data), "--yes"]
        command += ["--out", str(tmp_path / "run"), "--cache", str(tmp_path), "--runs", "2"]
        command += ["--model", f"openai:small@{served.url}", "--parallel", "1"]
        command += [word for switch in SWITCHES for word in ("--set", switch)]
        running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        assert running[0].wait(60) == -signal.SIGKILL
        assert len(served.requests) == victim
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        parts = Counter(part(request) for request in served.requests)
    # Two runs of 17 answers; 15 of them and 15 right and 15 wrong ones are judged by two judges.
    # One answer was in flight.
    assert parts == {"extract": 4, "plan": 17, "answer": 2 * 17 + 1, "judge": 2 * (2 * 15 + 30)}
    files = Files(tmp_path / "run")
    assert len(files.verdicts(2)) == 15


async def test_a_folder_takes_up_no_other_run(data: Path, tmp_path: Path, server: Served) -> None:
    await run(described(data, server.url), tmp_path / "run")
    with pytest.raises(InvalidSetting, match="another runs"):
        await run(described(data, server.url, runs=3), tmp_path / "run")


async def test_the_cap_is_never_passed_and_the_run_goes_on_with_a_higher_one(
    data: Path, tmp_path: Path, server: Served
) -> None:
    with pytest.raises(CapReached, match="raise --cap"):
        await run(described(data, server.url, cap=9_000, runs=2), tmp_path / "run")
    assert 0 < SPENT * len(server.requests) <= 9_000
    with pytest.raises(CapReached):  # what was spent before counts, whoever runs it
        await run(described(data, server.url, cap=9_000, runs=2), tmp_path / "run")
    assert SPENT * len(server.requests) <= 9_000
    folder = await run(described(data, server.url, cap=10_000_000, runs=2), tmp_path / "run")
    assert len(Files(folder).verdicts(2)) == 15


async def test_a_judge_that_answers_prose_is_an_error_and_no_verdict(
    data: Path, tmp_path: Path
) -> None:
    def script(request: Request) -> dict[str, Any]:
        if part(request) == "judge":
            return chat_body("I would say it is not incorrect.")
        return played(request)

    with serve_openai(script) as served:
        given = described(data, served.url)
        folder = await run(given, tmp_path / "run")
    found = measured(folder, given.benchmark)
    assert found["accuracy"].value is None
    assert not found.judged
    assert found.errors == {"verdicts": 2 * 15, "planted": 2 * 4}
    assert "gave no verdict" in found.failures[0][2]


async def test_one_failed_answer_is_counted_apart_and_done_again_later(
    data: Path, tmp_path: Path
) -> None:
    broken = [True]

    def script(request: Request) -> Respond | dict[str, Any]:
        said = request.body["messages"][1]["content"]
        if broken[0] and part(request) == "answer" and "allergic to?" in said:
            return Respond({"error": {"message": "no"}}, status=400)
        return played(request)

    with serve_openai(script) as served:
        given = described(data, served.url)
        folder = await run(given, tmp_path / "run")
        benchmark = given.benchmark
        first = measured(folder, benchmark)
        assert first.errors == {"predictions": 1, "verdicts": 2}
        assert first["accuracy"].n == 14
        broken[0] = False
        await run(given, tmp_path / "run")
        assert measured(folder, benchmark).errors == {}


@pytest.mark.parametrize("system", ["none", "fulltext", "naive_rag"])
async def test_the_reference_systems_run_under_the_same_protocol(
    data: Path, tmp_path: Path, server: Served, system: str
) -> None:
    given = described(data, server.url, system=system)
    folder = await run(given, tmp_path / "run")
    found = measured(folder, given.benchmark)
    assert found["accuracy"].n == 15
    assert found["tokens.construction"].value == 0
    if system == "naive_rag":
        assert (found["turn.ten.fraction"].value or 0) > 0
    else:  # they choose nothing
        assert str(found["turn.read.fraction"]) == str(found["turn.ten.fraction"]) == "-"
    assert bool(found["tokens.evidence"].value) == (system != "none")


async def test_without_a_model_the_same_run_has_recall_and_no_accuracy(
    data: Path, tmp_path: Path
) -> None:
    given = described(data)
    folder = await run(given, tmp_path / "run")
    found = measured(folder, given.benchmark)
    assert not found.judged
    assert found["turn.read.fraction"].n == 14
    assert (found["turn.read.fraction"].value or 0) > 50


@pytest.mark.parametrize(
    "switch",
    ["granularity=session_pack", "granularity=session_first", "reading=top1", "reading=compact",
     "access=lookup", "access=compose", "access=replay", "access=oracle"],
)  # fmt: skip
async def test_every_row_of_the_ablations_runs(data: Path, tmp_path: Path, switch: str) -> None:
    given = described(data, benchmark="longmemeval", switches=(*SWITCHES, switch))
    folder = await run(given, tmp_path / "run")
    rows = Files(folder).evidence.items()
    assert len(rows) == 7
    if switch == "granularity=session_pack":
        assert all(len({piece.place[0] for piece in row.chosen}) <= 1 for row in rows)
    if switch == "granularity=session_first":
        assert all(len({s.place[0] for s in row.chosen}) == len(row.chosen) for row in rows)
    if switch == "reading=top1":
        assert all(len(row.sources) == 1 for row in rows)
    if switch == "access=oracle":
        by_id = {row.id: row.access for row in rows}
        assert by_id["lm3"] == "REPLAY"
        assert by_id["lm2"] == "COMPOSE"
        assert by_id["lm1"] == "LOOKUP"
