"""Test every integration against the newest version of its framework.

    python tests/integrations [name ...]

Each has an environment of its own in build/envs, because some frameworks exclude each other. uv
makes the environments. Prints one line for each: the versions, our tests, the framework's tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from integration_chats import OWN_SUITE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENVIRONMENTS = ROOT / "build" / "envs"

# The packages of each environment: the framework, and what the tests and the page need besides.
# Their versions are in its line.
FRAMEWORKS: dict[str, list[str]] = {
    "claude_code": ["claude-agent-sdk"],
    "anthropic": ["anthropic"],
    "langchain": ["langchain", "langgraph", "langchain-tests"],
    "langgraph": ["langgraph", "langgraph-checkpoint-sqlite"],
    "openai_agents": ["openai-agents"],
    "google_adk": ["google-adk"],
    "pydantic_ai": ["pydantic-ai-slim"],
    "agent_framework": ["agent-framework-core", "agent-framework-openai"],
    "strands": ["strands-agents[openai]"],
    "llama_index": ["llama-index-core", "llama-index-llms-openai"],
}


def main(names: list[str]) -> int:
    known = [*FRAMEWORKS, "codex", "typescript"]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"There is no {unknown[0]}: one of {', '.join(known)}.")  # noqa: T201
        return 2
    others = {"codex": _codex, "typescript": _typescript}
    passed = [others[name]() if name in others else _python(name) for name in names or known]
    return 0 if all(passed) else 1


def _python(name: str) -> bool:
    python = _environment(name)
    return _pytest(name, _versions(name, python), python)


def _codex() -> bool:
    """The program of OpenAI, with our hooks."""
    folder = ENVIRONMENTS / "codex"
    folder.mkdir(parents=True, exist_ok=True)
    if not _npm("install", "--prefix", str(folder), "@openai/codex@latest", cwd=folder):
        print("codex: not tested, npm is not installed", flush=True)  # noqa: T201
        return False
    about = json.loads((folder / "node_modules/@openai/codex/package.json").read_text("utf-8"))
    program = str(folder / "node_modules" / ".bin" / "codex")
    return _pytest("codex", f"codex {about['version']}", sys.executable, CODEX=program)


def _pytest(name: str, versions: str, python: str, **environment: str) -> bool:
    options = ("-q", "-rpP", "-p", "no:cacheprovider", f"--confcutdir={HERE}")
    done = subprocess.run(
        [python, "-m", "pytest", *options, str(HERE / f"test_{name}.py")],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    result = (re.findall(r"\d+ (?:passed|failed|error)[^\n]*", done.stdout) or ["no tests"])[-1]
    _report(name, versions, result, _own_suite(done.stdout), done)
    return done.returncode == 0


def _npm(*args: str, cwd: Path) -> bool:
    npm = shutil.which("npm")
    if npm is not None:
        quiet = ("--no-audit", "--no-fund", "--silent")
        subprocess.run([npm, *args, *quiet], cwd=cwd, check=True, capture_output=True)
    return npm is not None


def _own_suite(output: str) -> str:
    """What the framework's own tests said: a file of its source package, or a class of its test
    kit that our test class inherits from."""
    lines = re.findall(rf"^{OWN_SUITE}(.*)", output, re.MULTILINE)
    inherited = re.findall(r"^PASSED \S+::(Test\w+)::", output, re.MULTILINE)
    lines += [f"{name}: {count} passed" for name, count in Counter(inherited).items()]
    return f"own suite: {'; '.join(lines)}" if lines else "no own suite for other implementations"


def _typescript() -> bool:
    """Our client for Node, with the newest AI SDK."""
    folder = ROOT / "clients" / "typescript"
    if not _npm("install", cwd=folder):
        print("typescript: not tested, npm is not installed", flush=True)  # noqa: T201
        return False
    ours = {"PYTHON": sys.executable, "JUSTMEM": str(Path(sys.executable).parent / "justmem")}
    environment = {**os.environ, **ours}
    done = subprocess.run(
        ["npm", "test"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    about = json.loads((folder / "node_modules" / "ai" / "package.json").read_text("utf-8"))
    counts = dict(re.findall(r"^# (pass|fail) (\d+)$", done.stdout, re.MULTILINE))
    result = f"{counts.get('pass', 0)} passed, {counts.get('fail', '?')} failed"
    _report("typescript", f"ai {about['version']}", result, _own_suite(""), done)
    return done.returncode == 0


def _report(
    name: str, versions: str, result: str, own: str, done: subprocess.CompletedProcess[str]
) -> None:
    print(f"{name}: {versions}: {result}; {own}", flush=True)  # noqa: T201
    if done.returncode:
        print(done.stdout + done.stderr)  # noqa: T201


def _environment(name: str) -> str:
    folder = ENVIRONMENTS / name
    python = str(folder / "bin" / "python")
    if not folder.exists():
        _uv("venv", "--python", sys.executable, str(folder))
    # pip and hatchling get the tests in the source packages of frameworks.
    tools = ("pytest", "pytest-asyncio", "pip", "hatchling")
    _uv("pip", "install", "--upgrade", "--python", python, *tools, *FRAMEWORKS[name])
    extra = "mcp" if name == "claude_code" else name.replace("_", "-")
    _uv("pip", "install", "--python", python, "--editable", f"{ROOT}[{extra}]")
    return python


def _versions(name: str, python: str) -> str:
    code = "import sys, json; from importlib.metadata import version; "
    code += "print(json.dumps([f'{each} {version(each)}' for each in sys.argv[1:]]))"
    packages = [package.partition("[")[0] for package in FRAMEWORKS[name]]
    found = subprocess.run(
        [python, "-c", code, *packages], capture_output=True, text=True, check=True
    )
    return ", ".join(json.loads(found.stdout))


def _uv(*args: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *args], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
