"""What runs share and keep: vectors by text, and memories in the run's folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from eval_server import SWITCHES, described

from justmem.errors import ModelUnavailable
from justmem.testing import HashEmbedder, ScriptedModel
from justmem_eval.models import CachedEmbedder
from justmem_eval.systems.justmem import JustMem


def test_two_processes_on_one_cache_do_not_disturb_each_other(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "justmem_eval", "run", "--data", str(data)]
    command += ["--cache", str(tmp_path)]
    command += [word for switch in SWITCHES for word in ("--set", switch)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    told = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    assert told[0][0] == told[1][0]


async def test_a_build_that_failed_is_not_kept(data: Path, tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: ModelUnavailable("down"))
    given = described(data, cards="model")
    system = JustMem(given, model, tmp_path / "memories", tmp_path)
    built = await system.build(given.benchmark.history(given.benchmark.cases[0].history))
    assert "sessions failed" in built.error
    assert list((tmp_path / "memories").iterdir()) == []


async def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    inner = HashEmbedder()
    embedder = CachedEmbedder(inner, tmp_path / "vectors.db")
    first = await embedder.embed(["a dog", "a cat", "a dog"])
    assert first.tokens > 0
    again = await CachedEmbedder(inner, tmp_path / "vectors.db").embed(["a cat", "a dog"])
    assert again.tokens == 0
    assert (again.vectors == first.vectors[[1, 0]]).all()
