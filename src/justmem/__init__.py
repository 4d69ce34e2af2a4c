"""JustMem: just enough long-term memory for LLM assistants.

import justmem

with justmem.open("ana") as memory:
    memory.remember("I moved to Porto.")
    print(memory.ask("Where did I move?"))

The other values, such as the results of `stats` and `check`, are in `justmem.domain`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from justmem.config.opening import open, open_async
    from justmem.domain import (
        Access,
        Answer,
        Budget,
        Card,
        Citation,
        Evidence,
        Plan,
        Profile,
        Receipt,
        Remembered,
        Retention,
        Session,
        Turn,
    )
    from justmem.errors import JustMemError
    from justmem.memory import AsyncMemory
    from justmem.ports import acting_as
    from justmem.spaces import Spaces
    from justmem.sync import Memory

__version__ = "0.1.0"

__all__ = [
    "Access",
    "Answer",
    "AsyncMemory",
    "Budget",
    "Card",
    "Citation",
    "Evidence",
    "JustMemError",
    "Memory",
    "Plan",
    "Profile",
    "Receipt",
    "Remembered",
    "Retention",
    "Session",
    "Spaces",
    "Turn",
    "acting_as",
    "open",
    "open_async",
]

# A name is imported when it is first used: `justmem --help` needs none of them.
_HOMES = {
    "AsyncMemory": "memory",
    "JustMemError": "errors",
    "Memory": "sync",
    "Spaces": "spaces",
    "acting_as": "ports",
    "open": "config.opening",
    "open_async": "config.opening",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'justmem' has no attribute {name!r}")
    found = getattr(import_module(f"justmem.{_HOMES.get(name, 'domain')}"), name)
    globals()[name] = found
    return found
