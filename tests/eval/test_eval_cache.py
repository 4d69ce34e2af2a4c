"""The cache of built memories: several processes share it, and it is keyed by content."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from eval_server import SWITCHES

from justmem.errors import ModelUnavailable
from justmem.ports import Embedded
from justmem.testing import ScriptedModel
from justmem_eval.benchmarks import load
from justmem_eval.switches import parse
from justmem_eval.systems import memories
from justmem_eval.systems.memories import Memories, Stages, code_fingerprint


def test_two_processes_on_one_cache_do_not_disturb_each_other(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "justmem_eval", "recall", "--data", str(data)]
    command += ["--cache", str(tmp_path)]
    command += [word for switch in SWITCHES for word in ("--set", switch)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    told = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    first, second = (out.splitlines()[:10] for out, _ in told)
    assert first == second
    left = [path.name for path in tmp_path.glob("memories/*/*")]
    assert left
    assert not any(name.startswith(".building") for name in left)


async def test_of_two_builds_at_once_one_is_kept(data: Path, tmp_path: Path) -> None:
    """As two processes do it: neither sees the other's draft."""
    bench = load("locomo", data)
    history = bench.history(bench.cases[0].history)
    both = [Memories(bench, Stages(), parse(SWITCHES), tmp_path) for _ in range(2)]
    async with both[0].memory(history) as memory:
        cards = len(await memory.cards())
        folder = both[1]._place(history)
        await both[1]._build(history, folder)  # finds the place taken
        assert len(await memory.cards()) == cards
    assert memories._built(folder) is not None


async def test_a_build_that_failed_is_not_kept(data: Path, tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: ModelUnavailable("down"))
    bench = load("locomo", data)
    made = Memories(bench, Stages(cards="model", model=model), parse(SWITCHES), tmp_path)
    built = await made.build(bench.history(bench.cases[0].history))
    assert "sessions failed" in built.error
    assert made._place(bench.history(bench.cases[0].history)).exists() is False


def test_the_cache_key_follows_every_file_that_can_change_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "justmem"
    (package / "extract").mkdir(parents=True)
    (package / "server").mkdir()
    for name in ("__init__.py", "extract/rules.py", "server/http.py"):
        (package / name).write_text("x = 1\n")
    monkeypatch.setattr(memories.justmem, "__file__", str(package / "__init__.py"))
    before = code_fingerprint(without=["server"])
    (package / "server" / "http.py").write_text("x = 2\n")
    assert code_fingerprint(without=["server"]) == before
    (package / "extract" / "new.py").write_text("x = 1\n")
    assert code_fingerprint(without=["server"]) != before


async def test_all_texts_of_a_history_are_embedded_in_one_call(data: Path, tmp_path: Path) -> None:
    bench = load("locomo", data)
    made = Memories(bench, Stages(), parse(SWITCHES), tmp_path)
    asked: list[list[str]] = []
    inner = made.models.embedder.inner
    embed = inner.embed

    async def noted(texts: Sequence[str], *, query: bool = False) -> Embedded:
        asked.append(list(texts))
        return await embed(texts, query=query)

    inner.embed = noted  # type: ignore[method-assign]
    history = bench.history(bench.cases[0].history)
    await made.build(history)
    (texts,) = asked
    assert len(texts) == len(set(texts)) > len(history.sessions)
