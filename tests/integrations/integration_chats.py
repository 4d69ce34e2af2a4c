"""What is said in the tests of the integrations."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from justmem.integrations.safe import SafeMemory

PAGES = Path(__file__).parents[2] / "docs" / "integrations"

SAID = "I am allergic to walnuts."
REPLY = "I will keep that in mind."
ASKED = "What am I allergic to?"


async def turns(memory: SafeMemory) -> list[str]:
    async with memory.using() as inner:
        sessions = [await inner.session(each.id) for each in await inner.sessions()]
    return [f"{turn.role}: {turn.text}" for each in sessions for turn in each.turns]


async def run_page(name: str, **given: Any) -> dict[str, Any]:
    """Runs the Python of a page of docs/integrations, which may await."""
    for block in re.findall(r"```python\n(.*?)```", (PAGES / name).read_text("utf-8"), re.S):
        code = compile(block, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(code, given)
        if inspect.isawaitable(running):
            await running
    return given
