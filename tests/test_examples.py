"""The examples run as anyone would run them: as scripts, without a key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from justmem import config
from justmem.models import weights
from pages import MODELS, ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# What is typed into them, and what must be among what they say.
TYPED = {"chat_loop.py": "I adopted a cat called Pepper yesterday.\nWhat is my cat called?\n\n"}
SAID = {
    "asynchronous.py": ["stored", "3 cards", "[COMPOSE]", "Design Museum", "5 May 2025"],
    "chat_loop.py": ["memory: I did not know that.", "I adopted a cat called Pepper yesterday."],
    "corrections.py": ["4711", "User lives in Vienna (date: February 2025)", "not in memory"],
    "local_server.py": [
        "In Ghent | I moved to Ghent last Saturday.",
        "answer  my-model: 600 in, 60 out",
    ],
    "own_embedder.py": ["I play the accordion", "trigrams-512"],
    "quickstart.py": ["8 March 2025", "rye bread", "not in memory", "0 tokens"],
    "two_people.py": ["Pavel said: I joined a choir", "31 January 2025"],
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_as_a_script_without_a_key(path: Path, tmp_path: Path) -> None:
    for name in ("bge-small-en-v1.5", "ms-marco-MiniLM-L-12-v2"):
        weights.ensure(name, folder=MODELS)
    foreign = [*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY"]
    environment = {name: value for name, value in os.environ.items() if name not in foreign}
    environment |= {"HOME": str(tmp_path), "JUSTMEM_MODELS_FOLDER": str(MODELS), "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, str(path)],
        input=TYPED.get(path.name, ""),
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for words in SAID[path.name]:
        assert words in done.stdout
    assert not list(tmp_path.rglob("*.db")), "an example leaves nothing behind"
