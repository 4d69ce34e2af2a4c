"""A small history, and a scripted model for each stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from justmem.answer import ModelAnswerer
from justmem.domain import Card
from justmem.extract import ModelExtractor
from justmem.language.languages import LANGUAGES
from justmem.plan import ModelPlanner
from justmem.ports import Prompt
from justmem.testing import Scripted, ScriptedModel

Make = Callable[..., Any]


def by_model(model: Any) -> dict[str, Any]:
    return {
        "extractor": ModelExtractor(model, LANGUAGES),
        "planner": ModelPlanner(model, LANGUAGES),
        "answerer": ModelAnswerer(model),
        "language": LANGUAGES,
    }


def by_rules() -> dict[str, Any]:
    return {"language": LANGUAGES}


Reply = Scripted | Callable[[Prompt], Scripted]


def scripted(extract: Reply = "", plan: Reply = "", answer: Reply = "") -> ScriptedModel:
    """A model with one reply (or one function) for each stage."""
    by_stage = {"extract": extract, "plan": plan, "answer": answer}

    def reply(prompt: Prompt) -> Scripted:
        chosen = by_stage[prompt.stage]
        return chosen(prompt) if callable(chosen) else chosen

    return ScriptedModel(reply)


def plan(**fields: Any) -> dict[str, Any]:
    """A planner's reply: LOOKUP unless told otherwise."""
    reply = {"op": "lookup", "period": "", "spans": False, "source": False, "rewrites": []}
    return {**reply, **fields}


def cards_of(prompt: Prompt, table: Sequence[tuple[str, list[str]]]) -> dict[str, Any]:
    """The rows of the first entry whose key occurs in what the extractor was shown."""
    for key, rows in table:
        if key in prompt.user:
            return {"cards": rows}
    return {"cards": []}


# A few months of a user and an assistant. What is asked for in the tests is told in here.

RUN = {
    "id": "run",
    "at": "2024-03-11T18:00",
    "turns": [
        {"role": "user", "content": "I ran my first half marathon yesterday, in 1:58!"},
        {"role": "assistant", "content": "Congratulations! How do your legs feel?"},
        {"role": "user", "content": "Sore. My knee hurts a bit on stairs."},
    ],
}
KYOTO = {
    "id": "kyoto",
    "at": "2024-04-02T09:00",
    "turns": [
        {"role": "user", "content": "Plan three days in Kyoto for me, I love gardens."},
        {
            "role": "assistant",
            "content": "Day 1: Saiho-ji moss garden.\nDay 2: Ryoan-ji.\nDay 3: Katsura villa.",
        },
        {"role": "user", "content": "Perfect, booked for October."},
    ],
}
BIKE = {
    "id": "bike",
    "at": "2024-05-20T20:00",
    "turns": [
        {"role": "user", "content": "Bought a gravel bike today to spare my knee, 1,450 euros."},
        {"role": "assistant", "content": "Nice! What colour?"},
        {"role": "user", "content": "Moss green. And I joined the Tuesday riding group."},
    ],
}
HISTORY = [RUN, KYOTO, BIKE]

CARDS = [
    (
        "half marathon",
        [
            "User | ran a first half marathon in 1:58 | 2024-03-10 | completed | event | 1",
            "User | has a knee that hurts on stairs | 2024-03-11 | ongoing | state | 3",
        ],
    ),
    (
        "Kyoto",
        [
            "User | asked for a three-day plan for Kyoto | 2024-04-02 | completed | interaction"
            " | 1",
            "User | loves gardens | unknown | stable | preference | 1",
            "User | booked a trip to Kyoto | 2024-10 | planned | event | 3",
        ],
    ),
    (
        "gravel bike",
        [
            "User | bought a gravel bike for 1,450 euros to spare the knee | 2024-05-20 | completed"
            " | event | 1",
            "User | joined the Tuesday riding group | 2024-05-20 | ongoing | state | 3",
        ],
    ),
]


def extract_history(prompt: Prompt) -> dict[str, Any]:
    return cards_of(prompt, CARDS)


NOW = datetime(2024, 6, 1, 12, 0)


def card_told(session_id: str, *turns: int) -> Card:
    return Card(
        id="c",
        subject="Nora",
        fact="sang",
        kind="event",
        session_id=session_id,
        said_at=datetime(2023, 5, 8),
        turns=turns or (1,),
    )
