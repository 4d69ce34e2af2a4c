"""Questions that ask who somebody is are answered from the profile."""

from __future__ import annotations

from datetime import datetime, timedelta

from justmem import AsyncMemory
from justmem.language.languages import LANGUAGES
from stories import Make

STATES = ("I live in Graz.", "I work at Siemens.", "My sister Ines is a nurse.")
HOBBIES = ("tea", "rain", "chess", "jazz", "maps", "soup", "bread", "snow", "trains", "moss",
           "clay", "wool", "figs", "kites")  # fmt: skip


async def told(make: Make) -> AsyncMemory:
    memory = await make()
    said = [*STATES, *(f"I saw {each} at the market." for each in HOBBIES), "I live in Vienna now."]
    for number, text in enumerate(said):
        at = datetime(2025, 1, 1) + timedelta(number)
        await memory.remember([{"role": "user", "text": text}], at=at, id=f"s{number}")
    return memory


def test_who_is_asked_about() -> None:
    asked = {
        "Who is Ines?": "Ines",
        "Tell me about Ines Vega.": "Ines Vega",
        "What do you know about me?": "",
        "Who is my manager?": None,
        "Where does Ines live?": None,
        "Wer ist Ines?": None,
    }
    assert {question: LANGUAGES.subject_asked(question) for question in asked} == asked


async def test_what_is_known_about_the_user_begins_with_what_holds_now(make: Make) -> None:
    memory = await told(make)
    question = "What do you know about me?"
    profile = await memory.profile(at="2025-02-01")
    found = await memory.recall(question, at="2025-02-01")
    assert found.cards == profile.cards[: len(found.cards)]
    assert len(found.cards) == memory.budget.cards
    answer = await memory.ask(question, at="2025-02-01")
    assert answer.sufficient
    lines = answer.text.splitlines()
    assert "I live in Vienna now." in lines[0]
    assert "I work at Siemens." in answer.text
    assert not answer.receipt.notes
    assert len(answer.citations) == len(lines)


async def test_who_somebody_is_finds_the_cards_that_name_them(make: Make) -> None:
    memory = await told(make)
    await memory.remember([{"role": "user", "text": "Ines moved to Porto."}], at="2025-01-25")
    answer = await memory.ask("Who is Ines?", at="2025-02-01")
    first, second = answer.text.splitlines()
    assert "Ines moved to Porto." in first
    assert "My sister Ines is a nurse." in second
    assert "Porto" not in (await memory.ask("Who is Ines?", at="2025-01-20")).text


async def test_filters_are_kept(make: Make) -> None:
    memory = await told(make)
    found = await memory.recall("What do you know about me?", at="2025-02-01", sessions=["s1"])
    assert {card.session_id for card in found.cards} == {"s1"}
