"""The command's border: every command with odd arguments, settings, files and standard input."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import typer
from typer.testing import CliRunner

from justmem import config
from justmem.cli import app
from justmem.cli.context import Exit
from servers import LIGHT, command, environment
from stories import HISTORY
from torture import odd

EXITS = {int(each) for each in Exit}
_MOST = 40  # sessions in the space before it is begun anew
# These wait for a signal, or fetch weights: what they refuse is tried, not what they do.
_ENDLESS = {
    "serve": ("--port", "--host", "--upstream"),
    "mcp": ("--config",),
    "work": ("--pause",),
    "demo": ("--model",),
}


def commands() -> dict[tuple[str, ...], Any]:
    """Every command there is, by the words that call it."""
    found: dict[tuple[str, ...], Any] = {}

    def walk(group: Any, words: tuple[str, ...]) -> None:
        for name, each in group.commands.items():
            if hasattr(each, "commands"):
                walk(each, (*words, name))
            else:
                found[(*words, name)] = each

    walk(typer.main.get_command(app), ())
    return found


class Commands:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = commands()
        self._config = folder / "cli.toml"
        self._config.write_text(f'folder = "home"\n{LIGHT}')
        self._store = folder / "home" / "default.db"
        self._runner = CliRunner()
        self._begin()

    def _begin(self) -> None:
        for number, each in enumerate(HISTORY):
            file = self._folder / f"story{number}.json"
            file.write_text(odd.as_json(each))
            self._done(["remember", str(file)])

    def _done(self, args: list[str], input: bytes | None = None) -> Any:
        return self._runner.invoke(app, ["--config", str(self._config), *args], input=input)

    def attempt(self, r: Random) -> str:
        words = ("remember",) if r.random() < 0.25 else r.choice([*self._known])
        args = [*words, *self._arguments(r, words)]
        input = odd.file(r)
        if r.random() < 0.01:
            return self._process(args, input)
        before = self._held()
        with _clean_environment():
            result = self._done(args, input)
        shown = f"{args!r}: exit {result.exit_code}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(shown) from result.exception
        _check(shown, result.exit_code, result.output)
        refused = result.exit_code in (Exit.NOT_IN_MEMORY, Exit.INPUT)
        if refused:
            assert self._held() == before, f"{shown}, and the store changed"
        elif len(self._held()[0]) > _MOST:
            self._done(["forget", "--everything", "--yes"])
        if len(self._held()[0]) < len(HISTORY):
            self._begin()
        return f"{' '.join(words)}: {'ok' if not result.exit_code else result.exit_code}"

    def _process(self, args: list[str], input: bytes) -> str:
        """The same in a process of its own, which takes what an operating system lets through."""
        sent = [
            arg.replace("\0", "").encode("utf-8", "surrogateescape") for arg in _encodable(args)
        ]
        done = subprocess.run(
            [*command("--config", str(self._config)), *sent],
            input=input,
            capture_output=True,
            env=environment(),
            timeout=100,
        )
        shown = f"{sent!r} as a process: exit {done.returncode}"
        _check(shown, done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace"))
        return f"a process: {'ok' if not done.returncode else done.returncode}"

    def _held(self) -> tuple[list[str], str]:
        """The sessions' ids, and everything that is known of them."""
        if not self._store.exists():
            return [], ""
        with closing(sqlite3.connect(self._store)) as db:
            ids = [id for (id,) in db.execute("SELECT id FROM sessions WHERE draft = 0")]
            tables = ("sessions", "turns", "cards", "quarantine")
            return ids, repr([db.execute(f"SELECT * FROM {name}").fetchall() for name in tables])

    # ------------------------------------------------------------ arguments

    def _arguments(self, r: Random, words: tuple[str, ...]) -> list[str]:
        given: list[str] = []
        for parameter in self._known[words].params:
            if parameter.param_type_name == "argument":
                count = r.choice((1, 1, 1, 2)) if parameter.nargs == -1 else 1
                given += [self._value(r, parameter.name) for _ in range(count)]
            elif parameter.name != "help" and r.random() < 0.3:
                given.append(r.choice(parameter.opts))
                if not parameter.is_flag:
                    given.append(self._value(r, parameter.name))
        if words[0] in _ENDLESS:  # an odd value that is refused before anything begins
            return [r.choice(_ENDLESS[words[0]]), r.choice(("\0", "x:y:z", "~nobody-here/x", "-9"))]
        if words == ("models", "pull"):
            return ["nothing-of-that-name"]
        if r.random() < 0.1:
            given.insert(r.randrange(len(given) + 1), r.choice((odd.text(r), "--", "--x", "-h")))
        if r.random() < 0.1:
            option = r.choice(("--space", "--model", "--config", "--folder"))
            given += [option, odd.text(r, longest=500)]
        return given

    def _value(self, r: Random, name: str) -> str:
        if name == "files":
            return self._file(r)
        if name in ("source", "target"):
            return r.choice(("home", "elsewhere", "postgresql://[", odd.text(r)))
        usual = ("run", "bike", "User", "now", "2024-05-20", "event", "stable", "5", "run#1")
        return r.choice(usual) if r.random() < 0.5 else odd.text(r)

    def _file(self, r: Random) -> str:
        match r.randrange(8):
            case 0:
                return odd.text(r)
            case 1:
                return r.choice(("-", str(self._folder), "/dev/null", "story0.json", "."))
            case _:
                path = self._folder / f"file{r.randrange(4)}"
                path.write_bytes(odd.file(r))
                return str(path)


def _encodable(args: list[str]) -> list[str]:
    return [arg.encode("utf-8", "replace").decode()[:50_000] for arg in args]


def _check(shown: str, code: int, said: str) -> None:
    assert code in EXITS, shown
    assert "Traceback" not in said, f"{shown}: {said[-2000:]}"
    if code not in (Exit.OK, Exit.NOT_IN_MEMORY):
        assert len(said.strip()) > 10, f"{shown} without a word"


@contextmanager
def _clean_environment() -> Iterator[None]:
    kept = dict(os.environ)
    for name in (*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY"):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
