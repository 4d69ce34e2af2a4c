"""append: turns that are added to a session, and cards made again."""

from __future__ import annotations

import asyncio

import pytest

from justmem.errors import InvalidSession
from stories import Make


async def test_a_session_grows_and_its_cards_are_made_again(make: Make) -> None:
    memory = await make()
    first = await memory.append(
        "chat", [{"speaker": "Mira", "text": "I moved to Porto.", "key": "m1"}], at="2024-05-01"
    )
    assert [card.turns for card in first.cards] == [(1,)]
    more = [
        {"speaker": "Mira", "text": "I moved to Porto.", "key": "m1"},
        {"speaker": "Mira", "text": "I play the accordion.", "key": "m2"},
    ]
    grown = await memory.append("chat", more)
    assert [card.turns for card in grown.cards] == [(1,), (2,)]
    assert (await memory.append("chat", more)).unchanged
    said = [turn.text for turn in (await memory.session("chat")).turns]
    assert said == ["I moved to Porto.", "I play the accordion."]


async def test_a_new_session_needs_a_time_and_a_key_is_a_text(make: Make) -> None:
    memory = await make()
    with pytest.raises(InvalidSession, match="at="):
        await memory.append("chat", [{"speaker": "Mira", "text": "I moved to Porto."}])
    with pytest.raises(InvalidSession, match="key"):
        await memory.append("chat", [{"speaker": "Mira", "text": "Hi.", "key": 7}], at="2024-05-01")


async def test_ten_appends_at_once_are_all_kept(make: Make) -> None:
    memory, other = await make(), await make()
    await asyncio.gather(
        *(
            (memory, other)[n % 2].append(
                "chat", [{"speaker": "Mira", "text": f"I own {n} books."}], at="2024-05-01"
            )
            for n in range(10)
        )
    )
    await memory.retry()
    said = sorted(turn.text for turn in (await memory.session("chat")).turns)
    assert said == sorted(f"I own {n} books." for n in range(10))
