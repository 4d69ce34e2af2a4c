"""A statement that is made several times is shown once, with all of its sources."""

from justmem import AsyncMemory
from stories import NOW, Make

WALNUTS = "I am allergic to walnuts."


async def _remember_ten_times(memory: AsyncMemory) -> None:
    for day in range(1, 11):
        await memory.remember(WALNUTS, at=f"2024-01-{day:02}", id=f"s{day}")


async def test_recall_shows_a_repeated_statement_once_with_its_other_turns(make: Make) -> None:
    memory = await make()
    await _remember_ten_times(memory)

    evidence = await memory.recall("What am I allergic to?", at=NOW)

    [card] = evidence.cards
    assert card.session_id == "s10"  # the last time it was said
    assert evidence.repeats == {card.id: tuple(f"s{day}#1" for day in range(1, 10))}
    assert "said 10 times" in evidence.prompt()


async def test_stats_count_the_repeated_cards(make: Make) -> None:
    memory = await make()
    await _remember_ten_times(memory)

    stats = await memory.stats()

    assert (stats.cards, stats.repeated) == (10, 9)


async def test_forgetting_one_of_the_sessions_leaves_the_others(make: Make) -> None:
    memory = await make()
    await _remember_ten_times(memory)
    await memory.forget(session="s10")

    evidence = await memory.recall("What am I allergic to?", at=NOW)

    assert [card.session_id for card in evidence.cards] == ["s9"]
    assert (await memory.stats()).repeated == 8


async def test_statements_about_different_days_stay_apart(make: Make) -> None:
    memory = await make()
    for day in ("2024-01-01", "2024-01-08"):
        await memory.remember("I ran ten kilometres today.", at=day)

    evidence = await memory.recall("When did I run?", at=NOW)

    assert len(evidence.cards) == 2
    assert not evidence.repeats


async def test_a_session_that_repeats_a_statement_has_one_card_with_all_turns(make: Make) -> None:
    memory = await make()
    chat = [
        {"role": "user", "content": WALNUTS},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": WALNUTS},
    ]
    done = await memory.remember(chat, at="2024-01-01", id="chat")
    await memory.append(WALNUTS, id="chat")

    assert [card.turns for card in done.cards] == [(1, 3)]
    assert [card.turns for card in await memory.cards()] == [(1, 3, 4)]
