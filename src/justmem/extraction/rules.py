"""Cards by rules: no calls, no clock, the same cards every time."""

from __future__ import annotations

import asyncio

from justmem.domain import Session
from justmem.language.en.statements import cards_of
from justmem.ports import Extraction


class RulesExtractor:
    spends = False  # no limit has to be looked up for it

    async def extract(self, session: Session, *, limit: int | None) -> Extraction:
        # In a thread: a long session must not hold up the event loop.
        return Extraction(cards=await asyncio.to_thread(cards_of, session))
