"""The user's own name: "My name is Oskar" makes the subject "User" Oskar.

Stored cards keep their subject. The name is looked up when memory is read: what is shown has the
name, and a question that uses it is a question about "User" too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, TypeVar

from justmem.domain import Card, Evidence, Value
from justmem.ports import CardFilter, Language, Store

USER = "User"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Names:
    """What the user is called, the newest name first. Empty: nobody has said."""

    all: tuple[str, ...] = ()

    def include(self, name: str) -> bool:
        """Whether it is the user who is called so, in full or by the first name."""
        asked = name.strip().casefold()
        return any(asked in (each.casefold(), each.split()[0].casefold()) for each in self.all)

    def for_search(self, asked: Evidence) -> Evidence:
        """A question as it is searched for: the cards say "User" where it says the user's name."""
        if asked.speaker and self.include(asked.speaker):
            return asked.model_copy(update={"speaker": USER})
        first = (re.escape(each.split()[0]) for each in self.all)
        if not any(re.search(rf"\b{name}\b", asked.question, re.I) for name in first):
            return asked
        plan = asked.plan.model_copy(update={"entities": (*asked.plan.entities, USER)})
        return asked.model_copy(update={"plan": plan})

    def shown(self, value: T) -> T:
        """The value with the name where a subject or a speaker in it is "User"."""
        return _shown(value, self.all[0]) if self.all else value


def _shown(value: Any, name: str) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_shown(each, name) for each in value)
    if not isinstance(value, Value):
        return value
    named = {
        field: name if old == USER and field in ("subject", "speaker") else _shown(old, name)
        for field, old in value
        if isinstance(old, tuple | Value) or old == USER
    }
    return value.model_copy(update=named) if named else value


async def cards_of(store: Store, where: CardFilter, names: Names) -> list[Card]:
    """The cards that match, shown with the name. Those about the user can be asked for by it."""
    if where.subject is None or not names.include(where.subject):
        return names.shown(list(await store.cards(where)))
    end = where.offset + where.limit
    both = [replace(where, subject=name, offset=0, limit=end) for name in (where.subject, USER)]
    found = [card for each in both for card in await store.cards(each)]
    found.sort(key=lambda card: card.said_at)
    return names.shown(found[where.offset : end])


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
    given.sort(key=lambda row: row[0], reverse=True)
    return Names(tuple(dict.fromkeys(name for _, name in given)))
