"""JustMem: just enough long-term memory for LLM assistants.

import justmem

with justmem.open("ana") as memory:
    memory.remember([{"role": "user", "content": "I moved to Porto."}], at="2024-03-10")
    print(memory.ask("When did I move?"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from justmem.domain import (
        About,
        Access,
        Answer,
        Budget,
        Candidate,
        Card,
        Certificate,
        Checked,
        Citation,
        Entry,
        EventDate,
        Evidence,
        Expiring,
        Forgotten,
        Health,
        Loaded,
        Plan,
        Preview,
        Receipt,
        Remembered,
        Retention,
        Session,
        SessionRecord,
        SessionState,
        Source,
        SpacesEvidence,
        Stats,
        Turn,
    )
    from justmem.errors import JustMemError
    from justmem.memory import AsyncMemory
    from justmem.opening import open, open_async
    from justmem.ports import acting_as
    from justmem.rank import Profile
    from justmem.spaces import Spaces
    from justmem.sync import Memory

__version__ = "0.1.0"

__all__ = [
    "About",
    "Access",
    "Answer",
    "AsyncMemory",
    "Budget",
    "Candidate",
    "Card",
    "Certificate",
    "Checked",
    "Citation",
    "Entry",
    "EventDate",
    "Evidence",
    "Expiring",
    "Forgotten",
    "Health",
    "JustMemError",
    "Loaded",
    "Memory",
    "Plan",
    "Preview",
    "Profile",
    "Receipt",
    "Remembered",
    "Retention",
    "Session",
    "SessionRecord",
    "SessionState",
    "Source",
    "Spaces",
    "SpacesEvidence",
    "Stats",
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
    "Profile": "rank",
    "Spaces": "spaces",
    "acting_as": "ports",
    "open": "opening",
    "open_async": "opening",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'justmem' has no attribute {name!r}")
    found = getattr(import_module(f"justmem.{_HOMES.get(name, 'domain')}"), name)
    globals()[name] = found
    return found
