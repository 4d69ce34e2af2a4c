"""Detects the language of each text and applies its rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from functools import cached_property

from justmem.domain import Card, EventDate, Evidence, Plan, Session
from justmem.language.detection import detect
from justmem.language.plain import Plain
from justmem.ports import Language, Reply
from justmem.runtime import deadlines
from justmem.runtime.text import both_ends


class Languages:
    """A `Language` that applies the rules of each text's own language, or Plain if that language is
    not known. A session with any English turn is read as English. Its other turns stay as they
    are."""

    def __init__(self) -> None:
        self._plain = Plain()

    @cached_property
    def _english(self) -> Language:
        """Imported on first use: commands that only read a store do not need it."""
        from justmem.language.en import English

        return English()

    def _of(self, text: str) -> Language:
        return self._plain if detect(text) == "other" else self._english

    def cards(self, session: Session) -> list[Card]:
        with deadlines.within(deadlines.SESSION_SECONDS, _CARDS):
            languages = [self._of(turn.text) for _, turn in session.user_side]
            english = self._english in languages
            return (self._english if english else self._plain).cards(session)

    def is_small_talk(self, text: str) -> bool:
        return self._of(text).is_small_talk(text)

    def search_text(self, text: str) -> str:
        return self._of(text).search_text(text)

    def name_speaker(self, text: str, speaker: str) -> str:
        return self._of(text).name_speaker(text, speaker)

    def plan(self, question: str, at: datetime) -> Plan:
        text = both_ends(question)
        with deadlines.within(deadlines.QUESTION_SECONDS, _PLAN):
            return self._of(text).plan(text, at)

    def resolve_date(self, text: str, at: datetime) -> EventDate:
        return self._of(text).resolve_date(text, at)

    def own_name(self, card: Card) -> str | None:
        return self._of(card.text).own_name(card)

    def superseded(self, cards: Iterable[Card], on: date) -> frozenset[str]:
        return self._english.superseded([card for card in cards if self._is_english(card)], on)

    def _is_english(self, card: Card) -> bool:
        return self._of(card.text) is self._english

    def answer(self, evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
        asked = evidence.model_copy(update={"question": both_ends(evidence.question)})
        with deadlines.within(deadlines.QUESTION_SECONDS, _ANSWER):
            return self._of(asked.question).answer(asked, sessions)


_CARDS = "Making the cards of this session by rules"
_PLAN = "Planning this question by rules"
_ANSWER = "Answering this question by rules"

LANGUAGES = Languages()
