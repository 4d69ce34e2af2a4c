"""Answers without a model: quotations with their dates, cut out of the turns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from justmem.domain import Evidence, Session
from justmem.ports import Language, Reply


class RulesAnswerer:
    """Answers by rules alone: no calls."""

    def __init__(self, language: Language) -> None:
        self._language = language

    async def answer(
        self, evidence: Evidence, sessions: Mapping[str, Session], *, limit: int | None
    ) -> Reply:
        # In a thread: others of this event loop do not wait for it.
        return await asyncio.to_thread(self._language.answer, evidence, sessions)
