"""append: turns that are added to a session, and cards made again."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from justmem import Session
from justmem.errors import InputError, InvalidSession, NotInMemory
from justmem.ports import Extraction
from stories import Make, by_model, cards_of, scripted


async def test_a_session_grows_and_its_cards_are_made_again(make: Make) -> None:
    memory = await make()
    first = await memory.append(
        [{"speaker": "Mira", "text": "I moved to Porto.", "key": "m1"}], id="chat", at="2024-05-01"
    )
    assert [card.turns for card in first.cards] == [(1,)]
    more = [
        {"speaker": "Mira", "text": "I moved to Porto.", "key": "m1"},
        {"speaker": "Mira", "text": "I play the accordion.", "key": "m2"},
    ]
    grown = await memory.append(more, id="chat")
    assert [card.turns for card in grown.cards] == [(1,), (2,)]
    assert (await memory.append(more, id="chat")).unchanged
    said = [turn.text for turn in (await memory.session("chat")).turns]
    assert said == ["I moved to Porto.", "I play the accordion."]


async def test_turns_of_a_later_day_have_the_time_of_their_append(make: Make) -> None:
    memory = await make()
    await memory.append("I live in Graz.", id="chat", at="2024-05-01T10:00")
    await memory.append("I have moved to Linz.", id="chat", at="2024-05-01T18:00")
    await memory.append("I moved to Vienna yesterday.", id="chat", at="2024-09-03T10:00")
    said = [(f"{card.said_at:%m-%d}", str(card.event_date)) for card in await memory.cards()]
    assert said == [("05-01", "unknown"), ("05-01", "unknown"), ("09-03", "2024-09-02")]
    assert (await memory.session("chat")).at == datetime(2024, 5, 1, 10)
    then = await memory.recall("Where do I live?", at="2024-10-01", as_of="2024-06-01")
    assert not any("Vienna" in card.fact for card in then.cards)
    now = await memory.recall("Where do I live?", at="2024-10-01")
    assert "2024-09-03 [chat]\n#3 User: I moved to Vienna yesterday. (2024-09-02)" in now.prompt()


async def test_a_model_reads_the_day_of_turns_that_were_added_later(make: Make) -> None:
    cards = {
        "2 (Tuesday 2024-09-03) User: I moved": [
            "User | moved to Vienna | yesterday | completed | event | 2"
        ]
    }
    model = scripted(
        lambda p: {"cards": next((made for said, made in cards.items() if said in p.user), [])}
    )
    memory = await make(**by_model(model))
    await memory.append("I live in Graz.", id="chat", at="2024-05-01")
    await memory.append("I moved to Vienna yesterday.", id="chat", at="2024-09-03")
    (card,) = await memory.cards()
    assert (card.said_at, str(card.event_date)) == (datetime(2024, 9, 3), "2024-09-02")


async def test_days_are_those_of_the_turns_not_of_their_session(make: Make) -> None:
    memory = await make()
    await memory.append("I live in Graz with Pesto.", id="chat", at="2024-05-01")
    await memory.append("I live in Vienna with Pesto.", id="chat", at="2024-09-03")
    await memory.append("I live in Linz with Pesto.", id="chat", at="2024-11-05", cards=False)
    await memory.append("I live in Bonn with Pesto.", id="chat", at="2023-05-05", cards=False)
    question = "Where do I live with Pesto? Show me the exact words."
    for days, towns in (
        ({}, {"Bonn", "Graz", "Vienna", "Linz"}),
        ({"since": "2024-09-03"}, {"Vienna", "Linz"}),
        ({"until": "2024-09-02"}, {"Bonn", "Graz"}),
        ({"since": "2024-06-01", "until": "2024-10-01"}, {"Vienna"}),
        ({"as_of": "2024-09-03"}, {"Bonn", "Graz", "Vienna"}),
        ({"at": "2024-05-02"}, {"Bonn", "Graz"}),
    ):
        found = await memory.recall(question, **{"at": "2024-12-01", **days})
        read = found.prompt()
        assert {town for town in ("Bonn", "Graz", "Vienna", "Linz") if town in read} == towns, days


@pytest.mark.parametrize("id", ["", "  ", 7, "x" * 201, "x" * 1001, "a\0b"])
async def test_append_needs_the_id_of_a_session(make: Make, id: Any) -> None:
    memory = await make()
    with pytest.raises((InputError, NotInMemory)):
        await memory.append("I live in Graz.", id=id)
    assert await memory.sessions() == []


async def test_a_key_is_a_text(make: Make) -> None:
    memory = await make()
    turns = [{"speaker": "Mira", "text": "Hi.", "key": 7}]
    with pytest.raises(InvalidSession, match="key"):
        await memory.append(turns, id="chat", at="2024-05-01")


async def test_only_new_turns_are_extracted_and_earlier_ones_are_context(make: Make) -> None:
    table = [("accordion", ["Mira | plays the accordion | unknown | ongoing | fact | 3"])]
    table.append(("Porto", ["Mira | moved to Porto | unknown | completed | event | 1"]))
    model = scripted(lambda prompt: cards_of(prompt, table))
    memory = await make(**by_model(model))
    turns = [
        {"role": "user", "speaker": "Mira", "text": "I moved to Porto."},
        {"role": "assistant", "text": "How lovely!"},
    ]
    first = await memory.append(turns, id="chat", at="2024-05-01")
    more = [{"role": "user", "speaker": "Mira", "text": "I play the accordion there."}]
    grown = await memory.append(more, id="chat", at="2024-05-01")
    context, new = model.prompts[-1].user.split("<session-")
    assert "1 Mira: I moved to Porto." in context
    assert "Porto" not in new
    assert "3 Mira: I play the accordion there." in new
    assert [card.fact for card in grown.cards] == ["moved to Porto", "plays the accordion"]
    assert grown.cards[0] == first.cards[0]
    assert len((await memory.recall("What does Mira play?")).cards) == 2


async def test_a_session_that_grew_keeps_its_vectors(make: Make) -> None:
    memory = await make()
    await memory.append([{"speaker": "Mira", "text": "I moved to Porto."}], id="c", at="2024-05-01")
    grown = await memory.append([{"speaker": "Mira", "text": "I own two dogs."}], id="c")
    assert len(grown.cards) == 2
    (usage,) = grown.receipt.embedding
    assert usage.items == 2  # the new card and the new turn


async def test_a_long_session_grows_as_if_it_were_remembered_at_once(make: Make) -> None:
    memory, other = await make(), await make(space="other")
    turns = [
        {"speaker": "Mira", "text": f"My cousin number {n} owns {n} books."} for n in range(20)
    ]
    for turn in turns:
        await memory.append([turn], id="chat", at="2024-05-01")
    await other.remember(turns, id="chat", at="2024-05-01")
    shown = [(card.id, card.turns) for card in await memory.cards()]
    assert shown == [(card.id, card.turns) for card in await other.cards()]


async def test_ten_appends_at_once_are_all_kept(make: Make) -> None:
    memory, other = await make(), await make()
    await asyncio.gather(
        *(
            (memory, other)[n % 2].append(
                [{"speaker": "Mira", "text": f"I own {n} books."}], id="chat", at="2024-05-01"
            )
            for n in range(10)
        )
    )
    await memory.retry()
    said = sorted(turn.text for turn in (await memory.session("chat")).turns)
    assert said == sorted(f"I own {n} books." for n in range(10))


async def test_a_session_that_never_stops_growing_stays_pending_with_the_reason(make: Make) -> None:
    other = await make()

    class Interrupted:
        goes_on = True

        async def extract(self, session: Session, **given: Any) -> Extraction:
            if self.goes_on:
                told = f"I own {len(session.turns)} books."
                await other.append([{"speaker": "Mira", "text": told}], id="chat", cards=False)
            return Extraction(())

    extractor = Interrupted()
    memory = await make(extractor=extractor)
    done = await memory.append([{"speaker": "Mira", "text": "Hi"}], id="chat", at="2024-05-01")
    assert (done.state, done.reason) == (
        "pending",
        "others kept adding to it while its cards were made",
    )
    extractor.goes_on = False
    (done,) = await memory.retry()
    assert done.state == "empty"


async def test_turns_are_found_before_their_cards_are_made(make: Make) -> None:
    memory = await make()
    await memory.append([{"speaker": "Mira", "text": "I moved to Porto."}], id="c", at="2024-05-01")
    boat = [{"speaker": "Mira", "text": "I bought a red boat called Alba."}]
    kept = await memory.append(boat, id="c", cards=False)
    assert kept.state == "pending"
    answer = await memory.ask("What is the red boat called?")
    assert "Alba" in answer.text
    assert (answer.citations[0].session_id, answer.citations[0].turn) == ("c", 2)
