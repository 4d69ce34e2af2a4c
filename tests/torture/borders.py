"""Anything may arrive at the library, the command and the server: it is taken or refused."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random

from torture.cli_border import Commands
from torture.databases import database
from torture.http_border import Requests
from torture.library_border import Library
from torture.patience import patience

PROMISE = (
    "The library, the command and the server accept each input or refuse it with a clear error. "
    "Refused input changes nothing."
)
COUNT = 3_000
SAMPLE = 80

Attempt = Callable[[Random], str]


def run(count: int, seed: int = 7) -> str:
    done: Counter[str] = Counter()
    with _borders() as borders:
        for number in range(count):
            name, attempt = borders[number % len(borders)]
            what = f"case {number} of seed {seed}, at the {name}"
            try:
                with patience(what):
                    done[attempt(Random(f"{seed}:{number}"))] += 1
            except Exception as error:
                raise AssertionError(f"{what}: {error!r:.3000}") from error
    let_in = sum(n for what, n in done.items() if what.endswith(": ok"))
    return f"{count:,} inputs, {let_in:,} taken, {count - let_in:,} refused, none unhandled"


@contextmanager
def _borders() -> Iterator[list[tuple[str, Attempt]]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jm-borders-")))
        deep = folder / "a" / "b" / "c" / "d"  # "../../etc" leads nowhere from here
        deep.mkdir(parents=True)
        stack.enter_context(contextlib.chdir(deep))
        library = stack.enter_context(closing(Library(deep)))
        shared = stack.enter_context(closing(Library(deep, database("borders"))))
        http = stack.enter_context(Requests(deep).serving()).attempt
        commands = Commands(deep).attempt
        yield [
            *(("library", library.attempt), ("library, with PostgreSQL", shared.attempt)),
            *(("server", http), ("library", library.attempt), ("server", http)),
            *(("command", commands), ("library", library.attempt), ("server", http)),
        ]
