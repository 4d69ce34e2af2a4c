"""The rules of English."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime

from justmem.domain import Card, EventDate, Evidence, Plan, Session
from justmem.language.en import (
    answers,
    dates,
    descriptions,
    questions,
    sentence_types,
    statements,
    states,
)
from justmem.language.en import speaker as speaker_rules
from justmem.language.plain import Plain
from justmem.ports import Reply


class English(Plain):
    def cards(self, session: Session) -> list[Card]:
        """Turns in other languages are kept as they are."""
        return statements.make_cards(session)

    def is_small_talk(self, text: str) -> bool:
        return sentence_types.is_small_talk_message(text)

    def name_speaker(self, text: str, speaker: str) -> str:
        return speaker_rules.name_speaker(text, speaker)

    def plan(self, question: str, at: datetime) -> Plan:
        return questions.plan_question(question, at)

    def resolve_date(self, text: str, at: datetime) -> EventDate:
        return dates.resolve(text, at)

    name_words = (speaker_rules.NAME_WORD,)

    def own_name(self, card: Card) -> str | None:
        return speaker_rules.own_name(card)

    def person_asked(self, question: str) -> str | None:
        return descriptions.person_asked(question)

    def describes(self, card: Card, person: str) -> int | None:
        return descriptions.describes(card, person)

    def superseded(self, cards: Iterable[Card], on: date) -> frozenset[str]:
        return frozenset(states.replacements(cards, on))

    def answer(self, evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
        return answers.answer(evidence, sessions)
