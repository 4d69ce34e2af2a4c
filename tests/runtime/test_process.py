"""Without an optional package every command says which extra to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from justmem.cli import app

ADDRESS = "postgresql://somebody@127.0.0.1:1/memory"
WITHOUT_ARGUMENTS = """
demo spaces cards sessions stats log check export retry reembed sweep mcp notes profile rebuild
"""
COMMANDS: dict[str, list[str]] = {
    **{name: [] for name in WITHOUT_ARGUMENTS.split()},
    "remember": ["talk.json", "--at", "2024-05-20"],
    "ask": ["What did Ana buy?"],
    "add": ["Ana bought a bike."],
    "append": ["chat", "talk.json"],
    "recall": ["What did Ana buy?"],
    "show": ["1"],
    "about": ["Ana"],
    "forget": ["--everything", "--yes"],
    "expire": ["--yes"],
    "doctor": ["--offline"],
    "rekey": ["--new-file", "new.key"],
    "copy": ["spaces", ADDRESS],
    "backup": ["default.backup"],
    "work": ["--once"],
    "serve": ["--port", "0"],
    "import": ["export.jsonl"],
    "models": ["list"],
    "keys": ["list"],
    "hook": ["recall"],
    "note": ["I have a kayak.", "--key", "boat"],
    "history": ["Ana"],
    "correct": ["1", "--fact", "Ana bought a canoe."],
    "pin": ["1"],
    "unpin": ["1"],
    "undo": ["1"],
}
# These do not open a space of the store that is set.
APART = {"demo", "models", "keys", "hook"}
NEEDING = {
    "postgres": set(COMMANDS) - APART - {"rekey", "expire"},
    "encryption": set(COMMANDS) - APART - {"expire", "copy", "sweep", "work", "rekey"},
    "server": {"serve"},
    "mcp": {"mcp"},
    "metrics": set(),
}
MODULES = {
    "postgres": ["psycopg", "psycopg_pool"],
    "encryption": ["sqlcipher3"],
    "server": ["fastapi", "uvicorn"],
    "mcp": ["mcp"],
    "metrics": ["prometheus_client"],
}
SETTINGS = {"postgres": {"JUSTMEM_STORE": ADDRESS}, "encryption": {"JUSTMEM_KEY": "a passphrase"}}

# One process for all commands: each is run to its end, and its output and exit code kept.
RUN = """
import json, sys, traceback
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
from typer.testing import CliRunner
from justmem.cli import app
found = {}
for name, args in json.loads(sys.argv[2]).items():
    done = CliRunner().invoke(app, [name, *args])
    error = done.exception
    fault = None if error is None or isinstance(error, SystemExit) else repr(error)
    found[name] = [done.exit_code, done.output, fault]
print(json.dumps(found))
"""


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == set(get_command(app).commands)  # type: ignore[attr-defined]


def run_all(folder: Path, extra: str, commands: dict[str, list[str]]) -> dict[str, Any]:
    (folder / "talk.json").write_text('[{"speaker": "Ana", "text": "I bought a kayak."}]')
    (folder / "export.jsonl").write_text("")
    own = {
        "HOME": str(folder),
        "JUSTMEM_FOLDER": str(folder / "spaces"),
        "JUSTMEM_MODELS_FOLDER": str(folder / "weights"),
        "JUSTMEM_EMBEDDER": "justmem.testing:HashEmbedder",
        "JUSTMEM_RERANKER": "none",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(MODULES[extra]), json.dumps(commands)],
        cwd=folder,
        env={**os.environ, **own, **SETTINGS.get(extra, {})},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,  # a server that starts would run for ever
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("extra", MODULES)
def test_a_command_without_its_extra_names_it(extra: str, tmp_path: Path) -> None:
    # `serve` and `mcp` would run until they are stopped: they are tried where they cannot start.
    # `demo` is left out: it fetches weights.
    tried = NEEDING[extra] | {"remember", "ask", "doctor"}
    commands = {name: args for name, args in COMMANDS.items() if name in tried}
    found = run_all(tmp_path, extra, commands)
    assert {name: fault for name, (_, _, fault) in found.items() if fault} == {}
    unnamed = {
        name: found[name]
        for name in NEEDING[extra]
        if f"justmem[{extra}]" not in " ".join(found[name][1].split()) or found[name][0] == 0
    }
    assert unnamed == {}
