"""Made-up conversations, and a model whose cards of them are known beforehand."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from justmem import AsyncMemory
from justmem.domain import Session, Turn, card_id
from justmem.ports import Prompt, Store
from justmem.testing import HashEmbedder, ScriptedModel
from stories import by_model, plan

DIM = 16
START = datetime(2024, 1, 1, 9, 0)
_ANIMALS = ["cat", "dog", "horse", "parrot", "goat", "turtle", "hen", "rabbit", "mule", "ferret"]
_PLACES = ["Porto", "Ghent", "Lima", "Oslo", "Quito", "Turin", "Bergen", "Cork", "Graz", "Malmö"]
_TOLD = re.compile(r"^(\d+) User: I keep (.*)\.$", re.MULTILINE)


def session(id: str, version: int = 0, turns: int = 2) -> Session:
    """The same words for the same arguments."""
    chance = random.Random(f"{id} {version}")
    told = []
    for number in range(turns):
        animal, place = chance.choice(_ANIMALS), chance.choice(_PLACES)
        name = f"{id}-{version}-{number}"
        told.append(Turn(speaker="User", text=f"I keep a {animal} called {name} in {place}."))
        told.append(Turn(speaker="Assistant", role="assistant", text=f"How is {name}?"))
    at = START + timedelta(days=chance.randrange(900), minutes=version)
    return Session(id=id, at=at, turns=tuple(told))


def card_ids(of: Session) -> list[str]:
    """Of the cards that the model makes, in order."""
    facts = [turn.text.removeprefix("I ").removesuffix(".") for turn in of.turns[::2]]
    return [card_id(of.id, "User", fact.replace("keep ", "keeps ", 1)) for fact in facts]


def cards(prompt: Prompt) -> dict[str, Any]:
    told = told_in(prompt.user)
    return {"cards": [f"User | keeps {what} | unknown | ongoing | state | {n}" for n, what in told]}


def told_in(text: str) -> list[tuple[str, str]]:
    """(turn, what) of all that the user keeps, in what a model is shown."""
    return _TOLD.findall(text)


def reply(prompt: Prompt) -> Mapping[str, Any]:
    if prompt.stage == "extract":
        return cards(prompt)
    if prompt.stage == "plan":
        return plan()
    return {"answer": "A cat.", "used": [], "sufficient": True}


def memory(store: Store, **parts: Any) -> AsyncMemory:
    embedder = parts.pop("embedder", None) or HashEmbedder(DIM)
    stages = by_model(parts.pop("model", None) or ScriptedModel(reply))
    return AsyncMemory(store, embedder, **{**stages, **parts})
