"""The interface of a human language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from justmem.domain import Card, EventDate, Evidence, Plan, Session
from justmem.ports.stages import Reply


class Language(Protocol):
    """`justmem.language.languages.LANGUAGES` picks the language of each text. Pure: the same
    input always gives the same result."""

    def cards(self, session: Session) -> list[Card]:
        """Cards in the speakers' own words. TimeLimitExceeded if it takes too long."""
        ...

    def is_small_talk(self, text: str) -> bool:
        """Whether a message is small talk, such as "hi" or "thanks". It needs no search."""
        ...

    def search_text(self, text: str) -> str:
        """The text of a card as it is searched: with names for "I" and "my"."""
        ...

    def name_speaker(self, text: str, speaker: str) -> str:
        """`text` with the speaker's name for "I" and "my"; unchanged if it has neither."""
        ...

    def plan(self, question: str, at: datetime) -> Plan:
        """A plan by the question's wording. TimeLimitExceeded if it takes too long."""
        ...

    def resolve_date(self, text: str, at: datetime) -> EventDate:
        """The date that words such as "last Friday" name; unknown if they name none."""
        ...

    @property
    def name_words(self) -> Sequence[str]:
        """Every card that gives a name has one of these words."""
        ...

    def own_name(self, card: Card) -> str | None:
        """The name that the subject of a card gives themselves: "My name is Oskar"."""
        ...

    def person_asked(self, question: str) -> str | None:
        """Whom a question asks a description of: "Who is Ines?" Empty for the one who asks, as in
        "What do you know about me?"; None for other questions."""
        ...

    def describes(self, card: Card, person: str) -> int | None:
        """How well a card describes a person: 0 is best, None is not at all. If `person` is empty,
        the subject of the card."""
        ...

    def superseded(self, cards: Iterable[Card], on: date) -> frozenset[str]:
        """Ids of the cards for which another card has a newer value, on that day."""
        ...

    def answer(self, evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
        """Quotations. TimeLimitExceeded if it takes too long."""
        ...
