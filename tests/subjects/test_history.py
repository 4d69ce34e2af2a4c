"""history and profile: what was true when, and what holds now."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from justmem.errors import InputError, NotInMemory
from justmem.runtime import tokens
from stories import Make, scripted

TOLD = [
    ("2023-01-10", "I live in Graz."),
    ("2023-02-01", "I play the accordion."),
    ("2025-02-03", "I live in Vienna now."),
    ("2025-06-01", "I moved to Linz today."),
]


@pytest.fixture
async def memory(make: Make) -> Any:
    memory = await make(clock=lambda: datetime(2025, 12, 1))
    for at, text in TOLD:
        await memory.remember([{"speaker": "Mira", "text": text}], at=at)
    return memory


def told(entries: Any) -> list[tuple[str, str, str | None]]:
    return [
        (one.card.fact.removeprefix("said: "), str(one.since), one.until and str(one.until))
        for one in entries
    ]


async def test_a_subject_has_a_history_newest_first(memory: Any) -> None:
    assert told(await memory.history("Mira")) == [
        ("I moved to Linz today.", "2025-06-01", None),
        ("I live in Vienna now.", "2025-02-03", "2025-06-01"),
        ("I play the accordion.", "2023-02-01", None),
        ("I live in Graz.", "2023-01-10", "2025-02-03"),
    ]


async def test_history_as_of_a_day(memory: Any) -> None:
    assert told(await memory.history("mira", at="2025-03-01")) == [
        ("I live in Vienna now.", "2025-02-03", None),
        ("I play the accordion.", "2023-02-01", None),
        ("I live in Graz.", "2023-01-10", "2025-02-03"),
    ]


async def test_a_favourite_holds_until_another_one_of_its_kind(make: Make) -> None:
    memory = await make()
    for day, text in (
        ("2023-05-01", "My favorite color is red."),
        ("2023-06-01", "My favorite food is pasta."),
        ("2024-05-01", "My favourite color is blue now."),
        ("2024-06-01", "My sister's favorite food is soup."),
    ):
        await memory.remember([{"speaker": "Mira", "text": text}], at=day)
    ended = [one for one in told(await memory.history("Mira")) if one[2]]
    assert ended == [("My favorite color is red.", "2023-05-01", "2024-05-01")]
    found = await memory.recall("What is my favorite color?", at="2024-07-01")
    assert [c.fact for c in found.cards if c.id in found.earlier] == [
        "said: My favorite color is red."
    ]
    assert "red" not in (await memory.profile()).text


async def test_what_is_said_again_is_one_entry_until_something_ends_it(memory: Any) -> None:
    for day in (3, 4):
        turns = [{"speaker": "Mira", "text": "I play the accordion."}]
        await memory.remember(turns, at=f"2025-07-0{day}", id=f"again{day}")
    turns = [{"speaker": "Mira", "text": "I live in Graz."}]
    await memory.remember(turns, at="2025-08-01", id="back")
    entries = await memory.history("Mira")
    assert told(entries)[0] == ("I live in Graz.", "2025-08-01", None)
    assert told(entries)[-1] == ("I live in Graz.", "2023-01-10", "2025-02-03")
    (accordion,) = [one for one in entries if "accordion" in one.card.fact]
    assert (accordion.repeats, accordion.note) == (("again3#1", "again4#1"), "said 3 times")
    (again,) = await memory.cards(session="again4")
    assert await memory.history(card=again.id) == [accordion]


async def test_a_card_has_a_history_of_what_it_replaced_and_what_replaced_it(memory: Any) -> None:
    entries = await memory.history("Mira")
    vienna, graz = entries[1].card, entries[3].card
    chain = await memory.history(card=vienna.id)
    assert [one.since.year for one in chain] == [2025, 2025, 2023]
    assert chain[2].card == graz
    assert chain[2].replaced_by == vienna.id
    accordion = entries[2].card
    assert [one.card for one in await memory.history(card=accordion.id)] == [accordion]


async def test_a_profile_has_what_holds_now_first(memory: Any) -> None:
    profile = await memory.profile()
    assert profile.subject == "Mira"
    first, second = profile.text.splitlines()
    assert first.startswith("- I moved to Linz today. (2025-06-01) [c")
    assert second.startswith("- I play the accordion. (2023-02-01) [c")
    assert profile.tokens >= tokens.count(profile.text)
    assert (await memory.source(profile.cards[0].id)).turns
    assert "Graz" in (await memory.profile("Mira", at="2024-01-01")).text


async def test_a_person_whom_others_speak_of_has_a_profile_and_a_history(memory: Any) -> None:
    turns = [{"speaker": "Mira", "text": "My sister Ines is a nurse."}]
    await memory.remember(turns, at="2025-07-01")
    assert "My sister Ines is a nurse." in (await memory.profile("Ines")).text
    assert told(await memory.history("Ines")) == [
        ("My sister Ines is a nurse.", "2025-07-01", None)
    ]


async def test_a_profile_is_cut_by_tokens_and_says_a_thing_once(make: Make) -> None:
    memory = await make(clock=lambda: datetime(2025, 12, 1))
    for n in range(5):
        turns = [{"speaker": "Mira", "text": "I play the accordion."}]
        await memory.remember(turns, at=f"2024-05-0{n + 1}")
        turns = [{"speaker": "Mira", "text": f"My cousin {n} owns a red boat."}]
        await memory.remember(turns, at=f"2024-06-0{n + 1}")
    assert len((await memory.profile()).cards) == 6
    short = await memory.profile(tokens=60)
    assert 0 < len(short.cards) < 6
    assert tokens.count(short.text) <= 60


async def test_unknown_subjects_and_cards_are_errors(memory: Any) -> None:
    for wrong in ({"subject": "Jonas"}, {"card": "c0"}):
        with pytest.raises(NotInMemory):
            await memory.history(**wrong)
    for nothing in ({}, {"subject": "Mira", "card": "c0"}, {"subject": " "}):
        with pytest.raises(InputError):
            await memory.history(**nothing)
    with pytest.raises(NotInMemory):
        await memory.profile("Jonas")


async def test_a_memory_of_two_has_no_profile_of_its_own(make: Make) -> None:
    memory = await make()
    turns = [
        {"speaker": s, "text": f"I live in {t}."} for s, t in (("Ana", "Graz"), ("Ben", "Linz"))
    ]
    await memory.remember(turns, at="2024-05-01")
    with pytest.raises(NotInMemory, match="name the subject"):
        await memory.profile()
    assert [one.since for one in await memory.history("Ben")] == [date(2024, 5, 1)]


async def test_a_model_writes_a_profile_as_prose_with_one_counted_call(make: Make) -> None:
    model = scripted(
        extract={"cards": ["Mira | lives in Graz | unknown | ongoing | state | 1"]},
        answer={"answer": "Mira lives in Graz.", "used": ["1"], "sufficient": True},
    )
    memory = await make(model)
    await memory.remember([{"speaker": "Mira", "text": "I live in Graz."}], at="2023-01-10")

    profile = await memory.profile("Mira", at="2024-01-01", prose=True)

    assert profile.text == "Mira lives in Graz."
    assert [call.stage for call in profile.receipt.calls] == ["answer"]
    assert profile.cards


async def test_a_profile_in_prose_without_a_model_is_an_error(memory: Any) -> None:
    with pytest.raises(InputError, match="needs a language model"):
        await memory.profile("Mira", prose=True)
