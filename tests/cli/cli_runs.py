"""The command in an empty home, with an embedder of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from justmem import config
from justmem.cli import app

Run = Callable[..., Any]
ENVIRONMENT = {
    "JUSTMEM_EMBEDDER": "justmem.testing:HashEmbedder",
    "JUSTMEM_RERANKER": "none",
}
ANA = {
    "id": "ana-1",
    "at": "2024-05-20T14:30",
    "turns": [
        {"role": "user", "name": "Ana", "content": "I moved to Porto last week."},
        {"role": "assistant", "content": "How is the new flat?"},
        {"role": "user", "name": "Ana", "content": "My sister is called Ines."},
    ],
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """run("ask", "...") in a home of the test's own: the JSON that it prints, or its result."""
    for name in [*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY"]:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)

    def run(*args: str, input: str | bytes | None = None, code: int = 0) -> Any:
        result = CliRunner().invoke(app, list(args), input=input)
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if "--json" in args and result.stdout else result

    return run


@pytest.fixture
def ana(run: Run, tmp_path: Path) -> Path:
    """Ana's session, remembered."""
    file = written(tmp_path / "ana.json", ANA)
    run("remember", str(file))
    return file


def written(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path
