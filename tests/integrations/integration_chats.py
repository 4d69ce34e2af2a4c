"""What is said in the tests of the integrations."""

from __future__ import annotations

from justmem.integrations.safe import SafeMemory

SAID = "I am allergic to walnuts."
REPLY = "I will keep that in mind."
ASKED = "What am I allergic to?"


async def turns(memory: SafeMemory) -> list[str]:
    async with memory.using() as inner:
        sessions = [await inner.session(each.id) for each in await inner.sessions()]
    return [f"{turn.role}: {turn.text}" for each in sessions for turn in each.turns]
