"""Cards by rules: no calls, no clock, the same cards every time."""

from __future__ import annotations

import asyncio

from justmem.domain import Session
from justmem.extract.growth import new_cards, tail
from justmem.ports import Extraction, Language


class RulesExtractor:
    spends = False  # no limit has to be looked up for it

    def __init__(self, language: Language) -> None:
        self._language = language

    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Extraction:
        # In a thread: a long session must not hold up the event loop.
        part, cut = tail(session, after)
        cards = await asyncio.to_thread(self._language.cards, part)
        return Extraction(cards=new_cards(cards, cut, after))
