"""The pages of the documentation as programs: their blocks run, and what they show is compared.

    ```python            runs; the names it makes are there for the next block of the page
    ```python FILE       is written to FILE, as are ```json FILE and ```toml FILE
    ```text              right after a python block: what that block prints
    ```console           `$ justmem ...` runs through the command; the lines below are its output

A line `...` in an output stands for any lines. Durations are not compared.

`python tests/pages.py` writes the outputs into the pages anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from json import loads
from pathlib import Path
from typing import Any
from unittest.mock import patch

import platformdirs
from typer.testing import CliRunner

from justmem import config
from justmem.cli import app
from justmem.models import onnx, weights
from justmem_eval.loopback import Request, Respond, chat_body, serve_openai

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MODELS = Path(platformdirs.user_cache_dir("justmem")) / "models"  # before a page moves HOME
HOME = "/home/mira"  # how the pages show the home folder
# Real models, loaded once: each command would load them anew.
_LOADED = {name: cache(getattr(onnx, name)) for name in ("OnnxEmbedder", "OnnxReranker")}
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_DURATION = re.compile(r"\d[\d.,]* (?:ms|s)\b")
_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    file: str
    body: str
    line: int
    span: tuple[int, int]  # of the body, in the page


def blocks(text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        language, _, file = match["info"].strip().partition(" ")
        line = text.count("\n", 0, match.start()) + 1
        yield Block(language, file, match["body"], line, match.span("body"))


@dataclass(frozen=True)
class Shown:
    """An output as the page has it and as it is."""

    block: Block
    span: tuple[int, int]
    expected: str
    actual: str

    @property
    def same(self) -> bool:
        return _matches(bare(self.expected), bare(self.actual))


def bare(text: str) -> list[str]:
    """What is compared: the lines, without blank ends and without durations."""
    lines = [_DURATION.sub("N s", line).rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def _matches(expected: list[str], actual: list[str]) -> bool:
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in expected]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in actual)) is not None


def _cut(expected: list[str], actual: list[str]) -> list[str]:
    """The true lines, left out again where the page had left some out."""
    for place, line in enumerate(expected):
        if line == "...":
            first = _find(expected[:place][-1:], actual, 0) + 1
            last = _find(expected[place + 1 :][:1], actual, len(actual))
            if 0 <= first <= last:
                actual = [*actual[:first], "...", *actual[last:]]
    return actual


def _find(wanted: list[str], lines: list[str], otherwise: int) -> int:
    if not wanted:
        return otherwise - (otherwise == 0)
    return next((n for n, line in enumerate(lines) if bare(line) == bare(wanted[0])), -2)


class Page:
    """One page, run in an empty folder with an empty home. Only the weights are shared."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.text = path.read_text("utf-8")
        self.home = folder / "home"
        self.names: dict[str, Any] = {"__name__": "__page__"}
        self.code = 0

    def run(self) -> Iterator[Shown]:
        printed: str | None = None
        for block in blocks(self.text):
            try:
                if block.language == "text" and printed is not None:
                    yield Shown(block, block.span, block.body, printed)
                if block.language == "console":
                    yield from self._console(block)
                printed = self._python(block) if block.language == "python" else None
                _check_data(block)
                if block.file:
                    Path(block.file).write_text(block.body, "utf-8")
            except Exception as error:
                error.add_note(f"{self.path.relative_to(ROOT)}, the block at line {block.line}")
                raise

    def _python(self, block: Block) -> str | None:
        if block.file:
            return None
        code = compile("\n" * block.line + block.body, str(self.path), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        return printed.getvalue()

    # ------------------------------------------------------------ commands

    def _console(self, block: Block) -> Iterator[Shown]:
        for match in re.finditer(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block.body, re.MULTILINE):
            start = block.span[0] + match.start(2)
            # `make demo` is run where its output is shown.
            wanted = not match[1].startswith("make ") or bool(match[2].strip())
            actual = self._command(match[1]) if wanted else _target(match[1])
            if match[2].strip() or actual:
                yield Shown(block, (start, start + len(match[2])), match[2], actual or "")

    def _command(self, line: str) -> str | None:
        """Its output; None for a command that is only looked at."""
        feed, bar, rest = line.partition(" | ")
        words = shlex.split(rest if bar else feed)
        given = Path(feed.removeprefix("cat ")).read_bytes() if bar else None
        environment = {}
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if words[0] == "justmem":
            return self._justmem(words[1:], environment, given)
        if words[0] == "export":
            os.environ.update(dict([words[1].split("=", 1)]))
            return None
        if line == "echo $?":
            return f"{self.code}\n"
        if words == ["make", "demo"]:
            return self._justmem(["demo"], {}, None)
        if words[0] == "python":
            assert (ROOT / words[1]).is_file(), line
            return None
        assert words[:2] == ["pip", "install"], f"not a command these pages may show: {line}"
        return None

    def _justmem(self, args: list[str], environment: dict[str, str], given: bytes | None) -> str:
        result = CliRunner().invoke(app, args, input=given, env=environment)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.code = result.exit_code
        shown = result.output.replace(str(self.home), HOME)
        return shown.replace(str(MODELS), f"{HOME}/.cache/justmem/models")


def _target(line: str) -> None:
    assert line.split()[1] in _TARGET.findall((ROOT / "Makefile").read_text()), line


def _check_data(block: Block) -> None:
    if block.language == "json":
        loads(block.body)
    elif block.language == "toml":
        tomllib.loads(block.body)


@contextlib.contextmanager
def _chat_models(path: Path) -> Iterator[None]:
    """The page on chats calls models: a loopback server stands for all of them. It answers from
    the notes in the prompt."""
    if path.name != "chat.md":
        yield
        return

    def reply(request: Request) -> Respond:
        knows = "allergic to walnuts." in str(request.body).split("<memory-")[-1].split("</")[0]
        knows = knows and "<memory-" in str(request.body)
        text = "No: you are allergic to walnuts." if knows else "I will remember that."
        if request.path.endswith("/messages"):
            content = [{"type": "text", "text": text}]
            usage = {"input_tokens": 1, "output_tokens": 1}
            kind = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
            return Respond({**kind, "content": content, "usage": usage, "stop_reason": "end_turn"})
        if request.path.endswith("/api/chat"):
            return Respond({"message": {"role": "assistant", "content": text}, "done": True})
        return Respond(chat_body(text))

    with serve_openai(reply) as served:
        root = served.url.removesuffix("/v1")
        os.environ |= {
            "OPENAI_BASE_URL": served.url,
            "OPENAI_API_KEY": "k",
            "ANTHROPIC_BASE_URL": root,
            "ANTHROPIC_API_KEY": "k",
            "OLLAMA_HOST": root,
        }
        yield


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Page]:
    """The page with a folder, a home and an environment of its own."""
    for model in weights.manifest().values():
        if model.use != "chat":
            weights.ensure(model.name, folder=MODELS)
    before, folder_before, path_before = dict(os.environ), Path.cwd(), list(sys.path)
    with tempfile.TemporaryDirectory(prefix="justmem-docs-") as name:
        folder = Path(name).resolve()
        for part in ("home", "work"):
            (folder / part).mkdir()
        ours = [*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY"]
        for variable in (*ours, "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            os.environ.pop(variable, None)
        os.environ |= {
            "HOME": str(folder / "home"),
            "JUSTMEM_MODELS_FOLDER": str(MODELS),
            "COLUMNS": "80",
        }
        sys.path.insert(0, str(folder / "work"))
        os.chdir(folder / "work")
        try:
            with patch.multiple(onnx, **_LOADED), _chat_models(path):
                yield Page(path, folder)
        finally:
            os.chdir(folder_before)
            sys.path[:] = path_before
            os.environ.clear()
            os.environ.update(before)


def rewrite(path: Path) -> int:
    """Puts the true outputs into a page, and returns how many had changed."""
    with opened(path) as page:
        changed = [shown for shown in page.run() if not shown.same]
        text = page.text
    for shown in reversed(changed):
        lines = [line.rstrip() for line in shown.actual.strip("\n").splitlines()]
        lines = _cut(shown.expected.splitlines(), lines)
        start, end = shown.span
        text = text[:start] + "".join(f"{line}\n" for line in lines) + text[end:]
    if changed:
        path.write_text(text, "utf-8")
    return len(changed)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        chosen = [Path(name).resolve() for name in sys.argv[1:]]
        for page_path in chosen:
            sys.stdout.write(f"{page_path.name}: {rewrite(page_path)} outputs rewritten\n")
    else:  # a process for each page, so that no page sees what another has loaded
        for page_path in PAGES:
            subprocess.run([sys.executable, __file__, str(page_path)], check=True)
