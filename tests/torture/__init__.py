"""The heavy checks: one module for each promise in docs/promises.md.

    make torture                       every promise, with its full count
    make torture ARGS="--only kills"   one of them; --count, --seed and --minutes say how much
    make torture ARGS=--page           rewrites the table of docs/promises.md

Each promise is a module with

    PROMISE: str                  one sentence that a user reads
    COUNT: int                    how often `make torture` tries to break it
    SAMPLE: int                   how often the ordinary suite does (tests/test_torture.py)
    def run(count: int) -> str    returns what was counted; AssertionError with the seed if the
                                  promise is broken

`run` may also take `seed: int` and `minutes: float`. Modules with a leading underscore are shared.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

SEED = 7


@dataclass(frozen=True)
class Promise:
    name: str
    module: ModuleType

    @property
    def text(self) -> str:
        return str(self.module.PROMISE)

    @property
    def count(self) -> int:
        return int(self.module.COUNT)

    @property
    def sample(self) -> int:
        return int(self.module.SAMPLE)

    def takes(self, option: str) -> bool:
        return option in inspect.signature(self.module.run).parameters

    def run(self, count: int, *, seed: int = SEED, minutes: float | None = None) -> str:
        options: dict[str, Any] = {"seed": seed} if self.takes("seed") else {}
        if minutes is not None and self.takes("minutes"):
            options["minutes"] = minutes
        return str(self.module.run(count, **options))


def table() -> str:
    """The promises as docs/promises.md lists them."""
    rows = [
        f"| {each.text} | {each.count:,} | [{each.name}](../tests/torture/{each.name}.py) |"
        for each in promises()
    ]
    return "\n".join(["| promise | tried | check |", "|---|---|---|", *rows]) + "\n"


def promises() -> list[Promise]:
    """All of them, in the order of their names."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    modules = {name: importlib.import_module(f"torture.{name}") for name in names if name[0] != "_"}
    return [Promise(name, module) for name, module in modules.items() if hasattr(module, "PROMISE")]
