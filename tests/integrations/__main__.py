"""Test every integration against the newest version of its framework.

    python tests/integrations [name ...]

Each has an environment of its own in build/envs, since some frameworks exclude each other. One line
for each: the versions, and what its tests said. uv has to be installed: it makes the environments.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from integration_chats import OWN_SUITE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENVIRONMENTS = ROOT / "build" / "envs"

# The packages of each environment. Their versions are in its line.
FRAMEWORKS: dict[str, list[str]] = {
    "claude_code": ["claude-agent-sdk"],
    "anthropic": ["anthropic"],
    "langchain": ["langchain", "langgraph", "langchain-tests"],
    "langgraph": ["langgraph", "langgraph-checkpoint-sqlite"],
    "openai_agents": ["openai-agents"],
    "google_adk": ["google-adk"],
    "pydantic_ai": ["pydantic-ai-slim"],
    "agent_framework": ["agent-framework-core"],
    "strands": ["strands-agents"],
    "llama_index": ["llama-index-core"],
}


def main(names: list[str]) -> int:
    known = [*FRAMEWORKS, "typescript"]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"There is no {unknown[0]}: one of {', '.join(known)}.")  # noqa: T201
        return 2
    failed = 0
    for name in names or known:
        if name == "typescript":
            failed += _typescript()
            continue
        python = _environment(name)
        options = ("-q", "-rP", "-p", "no:cacheprovider", f"--confcutdir={HERE}")
        tests = [python, "-m", "pytest", *options, str(HERE / f"test_{name}.py")]
        done = subprocess.run(tests, cwd=ROOT, capture_output=True, text=True, check=False)
        said = re.findall(r"\d+ (?:passed|failed|error).*", done.stdout) or ["no tests"]
        own = re.findall(rf"^{OWN_SUITE}.*", done.stdout, re.MULTILINE)
        print(f"{name}: {_versions(name, python)}: {'; '.join([said[-1], *own])}", flush=True)  # noqa: T201
        if done.returncode:
            failed += 1
            print(done.stdout + done.stderr)  # noqa: T201
    return 1 if failed else 0


def _typescript() -> int:
    """Our client for Node, with the newest AI SDK."""
    folder = ROOT / "clients" / "typescript"
    own = {"PYTHON": sys.executable, "JUSTMEM": str(Path(sys.executable).parent / "justmem")}
    npm = shutil.which("npm")
    if npm is None:
        print("typescript: not tested, npm is not installed", flush=True)  # noqa: T201
        return 1
    install = [npm, "install", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        [npm, "test"],
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    about = json.loads((folder / "node_modules" / "ai" / "package.json").read_text("utf-8"))
    counts = dict(re.findall(r"^# (pass|fail) (\d+)$", done.stdout, re.MULTILINE))
    said = f"{counts.get('pass', 0)} passed, {counts.get('fail', '?')} failed"
    print(f"typescript: ai {about['version']}: {said}", flush=True)  # noqa: T201
    if done.returncode:
        print(done.stdout + done.stderr)  # noqa: T201
    return done.returncode


def _environment(name: str) -> str:
    folder = ENVIRONMENTS / name
    python = str(folder / "bin" / "python")
    if not folder.exists():
        _uv("venv", "--python", sys.executable, str(folder))
    _uv(
        "pip",
        "install",
        "--upgrade",
        "--python",
        python,
        "pytest",
        "pytest-asyncio",
        "pip",  # with hatchling, for the tests in the source packages of frameworks
        "hatchling",
        *FRAMEWORKS[name],
    )
    _uv("pip", "install", "--python", python, "--editable", str(ROOT))
    return python


def _versions(name: str, python: str) -> str:
    code = "import sys, json; from importlib.metadata import version; "
    code += "print(json.dumps([f'{each} {version(each)}' for each in sys.argv[1:]]))"
    found = subprocess.run(
        [python, "-c", code, *FRAMEWORKS[name]], capture_output=True, text=True, check=True
    )
    return ", ".join(json.loads(found.stdout))


def _uv(*args: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *args], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
