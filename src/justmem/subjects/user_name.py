"""The user's own name: "My name is Oskar" makes the subject "User" Oskar.

Stored cards keep their subject. The name is looked up when memory is read: what is shown has the
name, and a question that uses it is a question about "User" too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from justmem.domain import Candidate, Card, Citation, Evidence, Session, Source, Turn
from justmem.ports import CardFilter, Language, Store

USER = "User"


@dataclass(frozen=True, slots=True)
class Names:
    """What the user is called, the newest name first. Empty: nobody has said."""

    all: tuple[str, ...] = ()

    @property
    def display_name(self) -> str:
        return self.all[0] if self.all else USER

    def include(self, name: str) -> bool:
        """Whether it is the user who is called so, in full or by the first name."""
        asked = name.strip().casefold()
        return any(asked in (each.casefold(), each.split()[0].casefold()) for each in self.all)

    def used_in(self, text: str) -> bool:
        first = (re.escape(each.split()[0]) for each in self.all)
        return any(re.search(rf"\b{name}\b", text, re.IGNORECASE) for name in first)

    def for_search(self, asked: Evidence) -> Evidence:
        """A question as it is searched for: the cards say "User" where it says the user's name."""
        if asked.speaker and self.include(asked.speaker):
            return asked.model_copy(update={"speaker": USER})
        if not self.used_in(asked.question):
            return asked
        plan = asked.plan.model_copy(update={"entities": (*asked.plan.entities, USER)})
        return asked.model_copy(update={"plan": plan})

    # ------------------------------------------------------------ shown with the name

    def of(self, subject: str) -> str:
        return self.display_name if subject == USER else subject

    def card(self, card: Card) -> Card:
        if card.subject != USER or not self.all:
            return card
        return card.model_copy(update={"subject": self.display_name})

    def cards(self, cards: Iterable[Card]) -> list[Card]:
        return [self.card(card) for card in cards]

    def citation(self, citation: Citation) -> Citation:
        return citation.model_copy(update={"speaker": self.of(citation.speaker)})

    def session(self, session: Session) -> Session:
        return session.model_copy(update={"turns": tuple(map(self._turn, session.turns))})

    def source(self, source: Source) -> Source:
        return source.model_copy(
            update={
                "turns": tuple((number, self._turn(turn)) for number, turn in source.turns),
                "citations": tuple(map(self.citation, source.citations)),
            }
        )

    def evidence(self, evidence: Evidence) -> Evidence:
        if not self.all:
            return evidence
        return evidence.model_copy(
            update={
                "speaker": evidence.speaker and self.of(evidence.speaker),
                "chosen": tuple(map(self._candidate, evidence.chosen)),
                "cards": tuple(self.cards(evidence.cards)),
                "candidates": tuple(map(self._candidate, evidence.candidates)),
                "sources": tuple(map(self.source, evidence.sources)),
            }
        )

    def _turn(self, turn: Turn) -> Turn:
        return turn.model_copy(update={"speaker": self.of(turn.speaker)})

    def _candidate(self, one: Candidate) -> Candidate:
        return one.model_copy(update={"card": self.card(one.card)})


async def cards_of(store: Store, where: CardFilter, names: Names) -> list[Card]:
    """The cards that match, shown with the name. Those about the user can be asked for by it."""
    if where.subject is None or not names.include(where.subject):
        return names.cards(await store.cards(where))
    whole = replace(where, offset=0, limit=where.offset + where.limit)
    found = [
        card
        for subject in (where.subject, USER)
        for card in await store.cards(replace(whole, subject=subject))
    ]
    found.sort(key=lambda card: _instant(card.said_at))
    return names.cards(found[where.offset : where.offset + where.limit])


def _instant(at: datetime) -> float:
    """To sort by; a time without a zone counts as UTC, as everywhere."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


async def read_names(store: Store, language: Language, until: date | None = None) -> Names:
    """As far as they were given by that day."""
    cards = [
        card
        for word in language.name_words
        for card in await store.cards(CardFilter(subject=USER, text=word))
    ]
    given = [
        (card.said_at, name)
        for card in cards
        if (until is None or card.said_at.date() <= until) and (name := language.own_name(card))
    ]
    newest = sorted(given, key=lambda row: _instant(row[0]), reverse=True)
    return Names(tuple(dict.fromkeys(name for _, name in newest)))
