"""Questions about who somebody is: the cards of their profile are read too."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from justmem import AsyncMemory
from justmem.language.languages import LANGUAGES
from stories import Make

STATES = ("I live in Graz.", "I am a nurse at the Siemens clinic.", "My sister Ines is a diver.")
SEEN = ("tea", "rain", "chess", "jazz", "maps", "soup", "bread", "snow", "trains", "moss",
        "clay", "wool", "figs", "kites")  # fmt: skip
ABOUT_ME = "What do you know about me?"


async def told(make: Make) -> AsyncMemory:
    memory = await make()
    said = [
        *STATES,
        *(f"There was {each} at the market." for each in SEEN),
        "I live in Vienna now.",
    ]
    for number, text in enumerate(said):
        at = datetime(2025, 1, 1) + timedelta(number)
        await memory.remember([{"role": "user", "text": text}], at=at, id=f"s{number}")
    return memory


@pytest.mark.parametrize(
    ("question", "person"),
    [
        ("Who is Ines?", "Ines"),
        ("Tell me about Ines Vega.", "Ines Vega"),
        ("What do you know about me?", ""),
        ("Who am I?", ""),
        ("Who is my manager?", None),
        ("Where does Ines live?", None),
        ("Wer ist Ines?", None),
    ],
)
def test_the_person_that_a_question_is_about(question: str, person: str | None) -> None:
    assert LANGUAGES.person_asked(question) == person


async def test_what_is_known_about_the_user_begins_with_what_holds_now(make: Make) -> None:
    memory = await told(make)
    profile = await memory.profile(at="2025-02-01")
    assert [card.fact for card in profile.cards] == [
        "said: I live in Vienna now.",
        "said: My sister Ines is a diver.",
        "said: I am a nurse at the Siemens clinic.",
    ]
    answer = await memory.ask(ABOUT_ME, at="2025-02-01")
    assert answer.sufficient
    assert set(profile.cards) <= set(answer.evidence.cards)
    lines = answer.text.splitlines()
    assert ["Vienna" in lines[0], "diver" in lines[1], "nurse" in lines[2]] == [True] * 3
    assert len(answer.citations) == len(lines) == 3
    assert answer.receipt.notes == ()


async def test_who_somebody_is_begins_with_what_introduces_them(make: Make) -> None:
    memory = await told(make)
    await memory.remember([{"role": "user", "text": "Then Ines came along."}], at="2025-01-25")
    answer = await memory.ask("Who is Ines?", at="2025-02-01")
    first, second = answer.text.splitlines()
    assert "My sister Ines is a diver." in first
    assert "Then Ines came along." in second
    assert "came along" not in (await memory.ask("Who is Ines?", at="2025-01-20")).text


async def test_nothing_that_was_found_is_lost(make: Make) -> None:
    memory = await told(make)
    where = {"sessions": ["s1", "s5"]}
    found = await memory.recall(ABOUT_ME, at="2025-02-01", **where)
    assert {card.session_id for card in found.cards} <= {"s1", "s5"}
    assert "s1" in {card.session_id for card in found.cards}
    assert len((await memory.recall(ABOUT_ME, at="2025-02-01", limit=1)).cards) == 1
    early = await memory.recall(ABOUT_ME, at="2025-02-01", as_of="2025-01-02")
    assert {card.session_id for card in early.cards} == {"s0", "s1"}
