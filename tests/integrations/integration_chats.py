"""What is said in the tests of the integrations."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from justmem.integrations.safe import SafeMemory, wait

PAGES = Path(__file__).parents[2] / "docs" / "integrations"

OWN_SUITE = "own suite: "  # `make integrations` shows lines that begin so
SAID = "I am allergic to walnuts."
REPLY = "I will keep that in mind."
ASKED = "What am I allergic to?"
ARGUMENTS = {"question", "rewrites", "exact_words", "spans_sessions", "period"}  # of `recall`


async def turns(memory: SafeMemory) -> list[str]:
    async with memory.using() as inner:
        sessions = [await inner.session(each.id) for each in await inner.sessions()]
    return [f"{turn.role}: {turn.text}" for each in sessions for turn in each.turns]


def run_page(name: str, **given: Any) -> dict[str, Any]:
    """Runs the Python of a page of docs/integrations. Each given name, such as a scripted model,
    stands in for the line that assigns it. Afterwards the page's `memory` knows what was said."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (PAGES / name).read_text("utf-8"), re.S))
    for each in given:
        code, found = re.subn(rf"^{each} = .*$", "", code, flags=re.MULTILINE)
        assert found == 1
    exec(compile(code, name, "exec"), given)
    if memory := given.get("memory"):
        assert memory.error is None
        if SAID in code:
            assert "walnuts" in wait(memory.prompt(ASKED))
        memory._memory.close()
    return given


def run_own_suite(
    folder: Path, package: str, file: str, stand_in: str, change: tuple[str, str], leave_out: str
) -> int:
    """Runs a test file of a framework's source package against ours: `change` makes it import from
    `stand_in`, and `leave_out` names the tests that look inside of the framework's own class.
    Returns how many passed."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    download += ["--no-build-isolation", "--no-binary", ":all:", f"{package}=={version(package)}"]
    subprocess.run(download, cwd=folder, check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (root,) = (each.parent for each in folder.glob("*/PKG-INFO"))
    text = (root / file).read_text("utf-8")
    assert change[0] in text
    (root / file).write_text(text.replace(*change), "utf-8")
    (root / "stand_in.py").write_text(stand_in, "utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-k", f"not ({leave_out})"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, file],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    said = re.search(r"(\d+) passed(, \d+ deselected)?", done.stdout)
    assert said
    print(f"{OWN_SUITE}{package}'s {file}: {said[0]}")  # noqa: T201
    return int(said[1])
