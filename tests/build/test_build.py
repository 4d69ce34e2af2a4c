"""Remember: raw turns first, checked cards, nothing paid twice, nothing lost."""

import asyncio
from datetime import datetime

import pytest

from justmem import Budget, Session
from justmem.domain import SessionState
from justmem.errors import InvalidSession, ModelUnavailable
from justmem.ports import Completion
from justmem.testing import ScriptedModel
from stories import BIKE, RUN, Make, extract_history, scripted


async def test_a_session_becomes_cards_with_their_turns(make: Make) -> None:
    memory = await make(scripted(extract=extract_history))

    result = await memory.remember(RUN)

    assert result.state is SessionState.STORED
    assert [card.turns for card in result.cards] == [(1,), (3,)]
    assert await memory.cards() == list(result.cards)
    assert (await memory.session("run")).turn(2).text == "Congratulations! How do your legs feel?"


async def test_the_extractor_sees_user_side_turns_only(make: Make) -> None:
    model = scripted(extract=extract_history)
    memory = await make(model)

    await memory.remember(RUN)

    [prompt] = model.prompts
    assert "1 User: I ran my first half marathon" in prompt.user
    assert "3 User: Sore." in prompt.user
    assert "How do your legs feel?" not in prompt.user


async def test_in_a_chat_between_people_everyone_is_user_side(make: Make) -> None:
    model = scripted(extract={"cards": []})
    memory = await make(model)

    await memory.remember(
        {
            "id": "two",
            "at": "2024-01-01",
            "turns": [
                {"speaker": "Ana", "text": "I moved."},
                {"speaker": "Ben", "text": "To Porto?"},
            ],
        }
    )

    assert "1 Ana: I moved.\n2 Ben: To Porto?" in model.prompts[0].user


async def test_the_same_session_again_costs_nothing(make: Make) -> None:
    model = scripted(extract=extract_history)
    memory = await make(model)
    first = await memory.remember(RUN)

    again = await memory.remember(RUN)

    assert again.unchanged
    assert again.cards == first.cards
    assert len(model.prompts) == 1
    assert again.receipt.tokens == 0


async def test_the_same_session_twice_at_once_is_paid_for_once(make: Make) -> None:
    model = scripted(extract=extract_history)
    memory = await make(model)

    await asyncio.gather(memory.remember(RUN), memory.remember(RUN))

    assert len(model.prompts) == 1


async def test_a_changed_session_replaces_its_cards(make: Make) -> None:
    memory = await make(scripted(extract=extract_history))
    await memory.remember(RUN)
    grown = {**RUN, "turns": [*BIKE["turns"]]}

    await memory.remember(grown)

    assert {card.fact for card in await memory.cards()} == {
        "bought a gravel bike for 1,450 euros to spare the knee",
        "joined the Tuesday riding group",
    }


async def test_a_changed_session_that_cannot_be_extracted_keeps_its_words(make: Make) -> None:
    replies = [extract_history, ModelUnavailable("The server stayed away.")]
    model = ScriptedModel(lambda p: r(p) if callable(r := replies.pop(0)) else r)
    memory = await make(model)
    await memory.remember(RUN)

    changed = await memory.remember({**RUN, "turns": BIKE["turns"]})

    assert changed.state is SessionState.FAILED
    assert await memory.cards() == []
    assert (await memory.session("run")).turn(1).text == BIKE["turns"][0]["content"]
    [record] = await memory.sessions()
    assert record.state is SessionState.FAILED


async def test_small_talk_alone_is_an_empty_session(make: Make) -> None:
    memory = await make(scripted(extract={"cards": []}))
    result = await memory.remember([{"role": "user", "content": "Hi!"}], at="2024-01-01")
    assert result.state is SessionState.EMPTY


async def test_an_outage_keeps_the_turns_and_retry_makes_the_cards(make: Make) -> None:
    up = False
    model = scripted(extract=lambda p: extract_history(p) if up else ModelUnavailable("Away."))
    memory = await make(model)

    failed = await memory.remember(RUN)
    assert failed.state is SessionState.FAILED
    assert failed.reason == "Away."
    assert failed.receipt.calls[0].error == "Away."
    assert (await memory.session("run")).turn(1).text.startswith("I ran")

    up = True
    [done] = await memory.retry()
    assert done.state is SessionState.STORED
    assert await memory.retry() == []


async def test_a_reply_without_json_fails_the_session_and_loses_nothing(make: Make) -> None:
    memory = await make(scripted(extract="I am sorry, I cannot help with that."))

    result = await memory.remember(RUN)

    assert result.state is SessionState.FAILED
    assert "retry" in result.reason
    assert result.receipt.tokens > 0, "what was spent is on the receipt all the same"


async def test_damaged_json_keeps_its_whole_cards_and_says_so(make: Make) -> None:
    text = '{"cards": ["User | ran a first half marathon | 2024-03-10 | completed | event | 1", "Us'
    memory = await make(scripted(extract=text))

    result = await memory.remember(RUN)

    assert len(result.cards) == 1
    assert "salvaged" in " ".join(result.receipt.notes)


async def test_a_reply_that_is_cut_off_is_continued_from_where_it_got_to(make: Make) -> None:
    first = '{"cards": ["User | ran a first half marathon | 2024-03-10 | completed | event | 1", "U'
    second = '{"cards": ["User | has a sore knee on stairs | unknown | ongoing | state | 3"]}'
    call = (await ScriptedModel(["x"]).complete(_prompt())).call
    model = ScriptedModel([Completion(first, call, truncated=True), second])
    memory = await make(model)

    result = await memory.remember(RUN)

    assert len(result.cards) == 2
    assert "1 User" not in model.prompts[1].user


async def test_an_unsupported_card_is_quarantined_and_can_be_looked_at(make: Make) -> None:
    rows = {"cards": ["User | owns a yacht in Monaco | unknown | stable | fact | 1"]}
    memory = await make(scripted(extract=rows))

    await memory.remember(RUN)

    assert await memory.cards() == []
    [kept] = await memory.quarantined("run")
    assert kept.fact == "owns a yacht in Monaco"
    assert (await memory.stats()).quarantined == 1


async def test_a_session_too_long_for_the_model_is_read_in_pieces_as_one(make: Make) -> None:
    turns = [{"speaker": "Ana", "text": f"Fact number {n}: " + "word " * 60} for n in range(1, 21)]

    def extract(prompt):
        numbers = [line.split()[0] for line in prompt.user.splitlines() if "Fact number" in line]
        return {
            "cards": [
                f"Ana | told fact number {n} | unknown | stable | fact | {n}" for n in numbers
            ]
        }

    model = scripted(extract=extract)
    model.context = 2500
    memory = await make(model)

    result = await memory.remember({"id": "long", "at": "2024-01-01", "turns": turns})

    assert len(model.prompts) > 1
    assert [card.turns for card in result.cards] == [(n,) for n in range(1, 21)]
    assert len(await memory.sessions()) == 1


async def test_a_turn_too_long_by_itself_is_cut_inside(make: Make) -> None:
    model = scripted(extract={"cards": ["Ana | says word a lot | unknown | stable | fact | 1"]})
    model.context = 2500
    memory = await make(model)

    result = await memory.remember([{"speaker": "Ana", "text": "word " * 4000}], at="2024-01-01")

    assert len(model.prompts) > 2
    assert [card.turns for card in result.cards] == [(1,)]


async def test_many_at_once_stay_within_the_concurrency_and_keep_their_order(make: Make) -> None:
    running, most = 0, 0

    class Slow(ScriptedModel):
        async def complete(self, prompt):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.05)
            running -= 1
            return await super().complete(prompt)

    memory = await make(Slow(lambda p: {"cards": []}), concurrency=3)
    sessions = [
        {"id": f"s{n}", "at": "2024-01-01", "turns": [{"speaker": "A", "text": f"Turn {n}"}]}
        for n in range(12)
    ]
    seen = []

    results = await memory.remember_many(sessions, on_done=lambda r: seen.append(r.session_id))

    assert [r.session_id for r in results] == [s["id"] for s in sessions]
    assert sorted(seen) == sorted(s["id"] for s in sessions)
    assert most == 3


async def test_two_different_sessions_with_one_id_are_refused_before_anything_is_stored(
    make: Make,
) -> None:
    memory = await make(scripted())
    with pytest.raises(InvalidSession, match="share the id"):
        await memory.remember_many([RUN, {**BIKE, "id": "run"}])
    assert await memory.sessions() == []


async def test_a_session_that_would_cost_too_much_is_kept_and_says_so(make: Make) -> None:
    model = scripted(extract=extract_history)
    memory = await make(model, budget=Budget(session_tokens=300))

    result = await memory.remember(RUN)

    assert model.prompts == []
    assert result.state is SessionState.FAILED
    assert "Raise the limit" in result.reason
    assert (await memory.session("run")).turns


async def test_dates_are_resolved_against_the_session_never_the_clock(make: Make) -> None:
    rows = {"cards": ["User | ran a half marathon | yesterday | completed | event | 1"]}
    memory = await make(scripted(extract=rows))
    [card] = (await memory.remember(RUN)).cards
    assert str(card.event_date) == "2024-03-10"
    assert card.said_at == datetime(2024, 3, 11, 18)


async def test_the_source_of_a_card_shows_its_words(make: Make) -> None:
    memory = await make(scripted(extract=extract_history))
    await memory.remember(RUN)
    [_, knee] = await memory.cards()

    source = await memory.source(knee.id)

    assert [number for number, _ in source.turns] == [2, 3]
    assert "knee hurts" in source.citations[0].quote


def _prompt():
    from justmem.extract import extraction_prompt

    return extraction_prompt(Session(id="x", at=datetime(2024, 1, 1), turns=()), [])
