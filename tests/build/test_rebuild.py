"""rebuild: cards are made again from the stored words."""

from __future__ import annotations

from typing import Any

import pytest

from justmem import Budget
from justmem.errors import ModelUnavailable, NotInMemory
from justmem.extract import ModelExtractor
from justmem.language.languages import LANGUAGES
from stories import Make, cards_of, scripted

TABLE = [
    ("Graz", ["Mira | has a home in Graz, where she lives | unknown | ongoing | state | 1"]),
    ("accordion", ["Mira | plays the accordion | unknown | ongoing | fact | 1"]),
]


def better(reply: Any = None) -> ModelExtractor:
    return ModelExtractor(scripted(reply or (lambda p: cards_of(p, TABLE))), LANGUAGES)


async def two_sessions(make: Make, **parts: Any) -> Any:
    memory = await make(**parts)
    await memory.remember("Mira: I live in Graz.", id="a", at="2024-05-01")
    await memory.remember("Mira: I play the accordion.", id="b", at="2024-05-02")
    return memory


async def facts(memory: Any) -> list[str]:
    return [card.fact for card in await memory.cards()]


async def test_another_extractor_makes_the_cards_again(make: Make) -> None:
    memory = await two_sessions(make)
    done = await memory.rebuild(extractor=better())
    assert [each.session_id for each in done] == ["a", "b"]
    assert all(each.receipt.tokens > 0 for each in done)
    assert await facts(memory) == ["has a home in Graz, where she lives", "plays the accordion"]
    assert await memory.waiting() == []
    assert (await memory.check()).damage == ()


async def test_one_session_is_rebuilt_and_corrections_and_pins_stay(make: Make) -> None:
    memory = await two_sessions(make)
    home, music = await memory.cards()
    fixed = await memory.correct(home.id, fact="lives in Vienna")
    await memory.pin(fixed.id)
    await memory.rebuild("a", extractor=better())
    assert await memory.cards() == [fixed, music]
    assert [each.pinned for each in await memory.corrections()] == [False, True]
    with pytest.raises(NotInMemory):
        await memory.rebuild("c")


async def test_newer_words_that_wait_survive_a_rebuild(make: Make) -> None:
    memory = await two_sessions(make)
    await memory.keep("Mira: I live in Vienna.", id="a", at="2024-05-01")
    await memory.rebuild("a")
    assert [turn.text for turn in (await memory.session("a")).turns] == ["Mira: I live in Vienna."]


async def test_a_rebuild_that_failed_goes_on_where_it_stopped(make: Make) -> None:
    memory = await two_sessions(make)

    def failing(prompt: Any) -> Any:
        if "accordion" in prompt.user:
            raise ModelUnavailable("the model is away")
        return cards_of(prompt, TABLE)

    first = await memory.rebuild(extractor=better(failing))
    assert [str(each.state) for each in first] == ["stored", "failed"]
    reason = "the earlier cards are still used, because a rebuild failed: the model is away"
    assert first[1].reason == (await memory.sessions())[1].reason == reason
    assert await facts(memory) == [
        "has a home in Graz, where she lives",
        "said: Mira: I play the accordion.",
    ]
    again = await memory.rebuild(extractor=better())
    assert [each.session_id for each in again] == ["b"]
    assert (await facts(memory))[1] == "plays the accordion"


async def test_the_budget_limits_a_rebuild(make: Make) -> None:
    memory = await two_sessions(make, budget=Budget(session_tokens=1))
    done = await memory.rebuild(extractor=better())
    assert [str(each.state) for each in done] == ["failed", "failed"]
    assert await facts(memory) == [
        "said: Mira: I live in Graz.",
        "said: Mira: I play the accordion.",
    ]


async def test_what_waits_for_a_rebuild_is_forgotten_too(make: Make) -> None:
    memory = await two_sessions(make, budget=Budget(session_tokens=1))
    await memory.rebuild(extractor=better())
    await memory.forget(turn="a#1", verify=True)
    await memory.forget(session="b", verify=True)
    assert await facts(memory) == []


async def test_remembering_the_same_again_does_not_cancel_a_rebuild(make: Make) -> None:
    memory = await two_sessions(make, budget=Budget(session_tokens=1))
    await memory.rebuild("a", extractor=better())
    await memory.keep("Mira: I live in Graz.", id="a", at="2024-05-01")
    assert [each.id for each in await memory.waiting()] == ["a"]
    assert [each.session_id for each in await memory.retry()] == ["a"]
    assert await memory.waiting() == []
