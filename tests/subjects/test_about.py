"""What do you know about X: all of it, in order, by words alone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from justmem.errors import InputError
from stories import BIKE, HISTORY, Make, extract_history, scripted


async def test_cards_and_turns_that_name_a_subject_are_found_counted_and_dated(make: Make) -> None:
    memory = await make(scripted(extract=extract_history))
    await memory.remember_many(HISTORY)
    found = await memory.about("knee")
    assert [card.fact for card in found.known] == [
        "has a knee that hurts on stairs",
        "bought a gravel bike for 1,450 euros to spare the knee",
    ]
    assert (found.cards, found.turns, found.sessions) == (2, 2, 2)
    assert found.kinds == {"state": 1, "event": 1}
    assert [(said.session_id, said.turn) for said in found.said] == [("bike", 1), ("run", 3)]
    assert found.said[1].quote == "Sore. My knee hurts a bit on stairs."
    assert (found.first, found.last) == (datetime(2024, 3, 11, 18), datetime(2024, 5, 20, 20))
    assert found.next is None


async def test_what_holds_now_comes_first_and_the_latest_of_its_kind_before_the_older(
    make: Make,
) -> None:
    memory = await make(scripted(extract=extract_history))
    await memory.remember_many(HISTORY)
    found = await memory.about("user")
    assert [card.kind for card in found.known] == [
        "state", "state", "preference", "event", "event", "event", "interaction",
    ]  # fmt: skip
    assert [card.session_id for card in found.known if card.kind == "state"] == ["bike", "run"]


async def test_everything_is_reached_page_by_page(make: Make) -> None:
    memory = await make()
    said = datetime(2024, 1, 1)
    for number in range(30):
        at = (said + timedelta(number)).isoformat()
        turns = [{"role": "user", "content": f"My zither has {number} new strings now."}]
        await memory.remember({"id": f"s{number:02}", "at": at, "turns": turns})
    cards: list[str] = []
    turns_seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = await memory.about("zither", limit=7, offset=offset)
        assert page.turns == 30
        cards += [card.id for card in page.known]
        turns_seen += [cited.session_id for cited in page.said]
        offset = page.next
    assert turns_seen == [f"s{number:02}" for number in reversed(range(30))]
    assert sorted(cards) == sorted(card.id for card in await memory.cards(text="zither"))
    assert len(cards) == page.cards == 30


async def test_a_subject_nobody_spoke_of_is_an_empty_page(make: Make) -> None:
    memory = await make()
    await memory.remember(BIKE)
    found = await memory.about("submarine")
    assert (found.cards, found.turns, found.first, found.known, found.said) == (0, 0, None, (), ())


async def test_a_subject_has_to_be_named(make: Make) -> None:
    memory = await make()
    with pytest.raises(InputError, match="name a person or a thing"):
        await memory.about("  ")
