"""What takes too long is given up with a sentence, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime
from typing import Any

import pytest

from justmem.domain import Plan, SessionState
from justmem.errors import ModelNonsense, TimeLimitExceeded
from justmem.language.languages import LANGUAGES, Languages
from justmem.runtime import deadlines
from stories import BIKE, HISTORY, RUN, Make, extract_history, plan, scripted


def test_work_that_takes_longer_than_its_limit_is_given_up() -> None:
    def count() -> None:
        with deadlines.within(0.01, "Counting"):
            while True:
                deadlines.check()

    with pytest.raises(TimeLimitExceeded, match=r"Counting took longer than 0\.01 seconds"):
        count()


def test_without_a_limit_nothing_is_given_up() -> None:
    deadlines.check()
    with deadlines.within(60, "Counting"):
        deadlines.check()
    deadlines.check()


async def test_a_session_that_takes_too_long_fails_and_keeps_its_words(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await make()
    monkeypatch.setattr(deadlines, "SESSION_SECONDS", -1.0)
    done = await memory.remember(BIKE)
    assert done.state == SessionState.FAILED
    assert "Making the cards of this session by rules took longer than" in done.reason
    (record,) = await memory.sessions()
    assert (record.state, record.reason) == (SessionState.FAILED, done.reason)
    assert (await memory.session(record.id)).turns[0].text == BIKE["turns"][0]["content"]
    assert (await memory.check()).sound

    monkeypatch.undo()
    (again,) = await memory.retry()
    assert again.state == SessionState.STORED
    assert again.cards


async def test_a_changed_session_that_takes_too_long_keeps_the_cards_it_had(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await make()
    before = await memory.remember(BIKE)
    monkeypatch.setattr(deadlines, "SESSION_SECONDS", -1.0)
    changed = BIKE | {"turns": [*BIKE["turns"], {"role": "user", "content": "I sold a car."}]}
    done = await memory.remember(changed)
    assert done.state == SessionState.FAILED
    assert await memory.cards() == list(before.cards)


async def test_a_question_that_takes_too_long_is_refused_with_a_sentence(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await make()
    await memory.remember(BIKE)
    monkeypatch.setattr(deadlines, "QUESTION_SECONDS", -1.0)
    with pytest.raises(TimeLimitExceeded, match="this question by rules took longer than"):
        await memory.ask("What did the gravel bike cost?")


async def test_rules_work_in_threads_of_their_own(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others of the event loop do not wait for them."""
    threads: dict[str, threading.Thread] = {}

    def watch(name: str) -> None:
        work = getattr(Languages, name)

        def watched(*given: Any) -> Any:
            threads[name] = threading.current_thread()
            return work(*given)

        monkeypatch.setattr(Languages, name, watched)

    for name in ("cards", "plan", "answer"):
        watch(name)
    memory = await make()
    await memory.remember(BIKE)
    await memory.ask("What did the gravel bike cost?")
    assert len(threads) == 3
    assert threading.current_thread() not in threads.values()


async def test_a_long_question_is_read_by_its_two_ends(make: Make) -> None:
    memory = await make()
    await memory.remember(BIKE)
    filler = "and so on " * 3000
    answer = await memory.ask(f"I had a long day. {filler} What did the gravel bike cost?")
    assert any("the question is long" in note for note in answer.receipt.notes)
    assert "1,450" in answer.text
    short = await memory.ask("What did the gravel bike cost?")
    assert not any("long" in note for note in short.receipt.notes)


def test_a_long_question_is_planned_by_its_two_ends() -> None:
    asked = "When did I move? " + "and so on " * 3000
    assert LANGUAGES.plan(asked, datetime(2024, 5, 1)) != Plan()


# ---------------------------------------------------------------- replies of models


@pytest.mark.parametrize("stage", ["extract", "answer"])
async def test_a_reply_far_longer_than_was_allowed_is_not_read(make: Make, stage: str) -> None:
    endless = "\n" * 500_000 + "x"
    replies: dict[str, Any] = {"extract": extract_history, "plan": plan(), "answer": ""}
    memory = await make(scripted(**replies | {stage: endless}))
    if stage == "extract":
        done = await memory.remember(RUN)
        assert done.state == SessionState.FAILED
        assert "longer than" in done.reason
        assert done.receipt.calls, "it was paid for all the same"
        return
    await memory.remember_many(HISTORY)
    with pytest.raises(ModelNonsense, match="it was not read") as caught:
        await memory.ask("What hurts?")
    assert caught.value.calls


async def test_a_plan_far_longer_than_was_allowed_is_made_by_rules(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan="{" * 500_000, answer="A knee."))
    await memory.remember_many(HISTORY)
    answer = await memory.ask("What hurts?")
    assert any("planned by rules" in note for note in answer.receipt.notes)


async def test_the_event_loop_turns_while_a_long_session_is_remembered(make: Make) -> None:
    """Whatever is done with the text, others are served between."""
    memory = await make()
    text = "I bought a kayak " + "?" * 20_000 + "x"
    turned = 0

    async def turn() -> None:
        nonlocal turned
        while True:
            turned += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    done = await memory.remember([{"speaker": "Ana", "text": text}], at="2024-05-20", id="s")
    turning.cancel()
    assert done.state in (SessionState.STORED, SessionState.EMPTY)
    assert turned > 100
