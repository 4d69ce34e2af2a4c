"""correct, undo, and what becomes of a correction when its session is made again or forgotten."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import justmem
from justmem import AsyncMemory, Card
from justmem.errors import InputError, NotInMemory, StoreBusy
from justmem.store.sqlite import open_store
from stories import Make, by_model, scripted

TALK = [
    {"speaker": "Mira", "text": "I live in Graz."},
    {"speaker": "Mira", "text": "I play the accordion."},
]


async def told(make: Make, **parts: Any) -> tuple[AsyncMemory, Card]:
    """A memory, and its card about Graz."""
    memory = await make(clock=lambda: datetime(2024, 6, 1, 12), actor="ana", **parts)
    made = await memory.remember({"id": "talk", "at": "2024-05-01", "turns": TALK})
    return memory, made.cards[0]


async def facts(memory: AsyncMemory) -> list[str]:
    return [card.fact for card in await memory.cards()]


async def test_the_corrected_card_replaces_the_old_one_and_keeps_its_source(make: Make) -> None:
    memory, card = await told(make)
    made = await memory.correct(card.id, fact="lives in Vienna", event_date="2024-03", kind="state")
    assert (made.fact, made.turns, made.session_id) == ("lives in Vienna", card.turns, "talk")
    assert (str(made.event_date), made.kind) == ("2024-03", "state")
    assert await memory.card(made.id) == made
    assert (await memory.source(made.id)).citations[0].quote == "I live in Graz."
    found = await memory.recall("Where in Vienna does Mira live?", at="2024-06-01")
    assert made in found.cards
    assert card not in found.cards
    assert (await memory.check()).damage == ()


async def test_history_shows_the_old_version_with_who_and_when(make: Make) -> None:
    memory, card = await told(make)
    second = await memory.correct(card.id, fact="lives in Vienna")
    third = await memory.correct(second.id, fact="lives in Linz")
    new, old, oldest = await memory.history(card=third.id)
    assert (new.card, new.corrected_at) == (third, None)
    assert (old.card.fact, old.replaced_by, old.corrected_by) == (
        "lives in Vienna",
        third.id,
        "ana",
    )
    assert (oldest.card, oldest.corrected_at) == (card, datetime(2024, 6, 1, 12))
    assert oldest.note == "corrected on 2024-06-01 by ana"
    assert await memory.history(card=card.id) == [new, old, oldest]
    assert [entry.verb for entry in await memory.log(of=third.id)] == ["correct"]


async def test_undo_takes_corrections_back_one_by_one(make: Make) -> None:
    memory, card = await told(make)
    second = await memory.correct(card.id, fact="lives in Vienna")
    third = await memory.correct(second.id, event_date="2024-01")
    assert third.id == second.id
    assert await memory.undo(third.id) == second
    assert await memory.undo(second.id) == card
    assert await memory.corrections() == []
    with pytest.raises(NotInMemory, match="never corrected"):
        await memory.undo(card.id)


@pytest.mark.parametrize(
    "turns",
    [
        TALK,
        [*TALK, {"speaker": "Mira", "text": "I have a cat."}],  # it grew
        [{"speaker": "Mira", "text": "Good evening."}, *TALK],  # its turns moved
        [{"speaker": "Mira", "text": "Yes, I live in Graz."}, TALK[1]],  # other words, same card
    ],
)
async def test_remembering_again_does_not_bring_the_error_back(
    make: Make, turns: list[dict[str, str]]
) -> None:
    memory, card = await told(make)
    made = await memory.correct(card.id, fact="lives in Vienna")
    await memory.remember({"id": "talk", "at": "2024-05-01", "turns": turns})
    assert (await facts(memory)).count("lives in Vienna") == 1
    assert not any("Graz" in fact for fact in await facts(memory))
    source = await memory.source(made.id)
    assert "Graz" in source.citations[0].quote
    assert any("accordion" in fact for fact in await facts(memory))


async def test_an_error_in_other_words_is_corrected_too(make: Make) -> None:
    replies = iter(["lives in Graz", "has her home in Graz, where she lives"])
    model = scripted(
        lambda prompt: {"cards": [f"Mira | {next(replies)} | unknown | ongoing | state | 1"]}
    )
    memory, card = await told(make, **by_model(model))
    await memory.correct(card.id, fact="lives in Vienna")
    again = [TALK[0], {"speaker": "Mira", "text": "I play the piano."}]
    await memory.remember({"id": "talk", "at": "2024-05-01", "turns": again})
    assert await facts(memory) == ["lives in Vienna"]


async def test_a_correction_goes_with_the_words_it_is_about(make: Make) -> None:
    memory, card = await told(make)
    await memory.correct(card.id, fact="lives in Vienna")
    await memory.remember({"id": "talk", "at": "2024-05-01", "turns": [TALK[1]]})
    assert not any("Vienna" in fact for fact in await facts(memory))
    assert await memory.corrections() == []


@pytest.mark.parametrize(
    "target", [{"card": "current"}, {"turn": "talk#1"}, {"session": "talk"}, {"subject": "Graz"}]
)
async def test_forgetting_takes_every_version_of_a_card(make: Make, target: Any) -> None:
    memory, card = await told(make)
    made = await memory.correct(card.id, fact="lives in the Zieglergasse")
    if "card" in target:
        target = {"card": made.id, "turns": True}
    gone = await memory.forget(**target, verify=True)
    assert gone.certificate.remains == 0
    assert await memory.corrections() == []
    await memory.remember({"id": "talk", "at": "2024-05-01", "turns": TALK})
    expected = "session" in target
    assert any("Graz" in fact for fact in await facts(memory)) == expected


async def test_forgetting_a_corrected_card_alone_does_not_bring_the_old_one_back(
    make: Make,
) -> None:
    memory, card = await told(make)
    made = await memory.correct(card.id, fact="lives in Vienna")
    await memory.forget(card=made.id)
    again = await memory.remember({"id": "talk", "at": "2024-05-02", "turns": TALK})
    assert await facts(memory) == ["said: I play the accordion."]
    assert list(again.cards) == await memory.cards()
    assert (await memory.check()).damage == ()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, "Say what to correct"),
        ({"fact": "  "}, "fact must have 1 to"),
        ({"subject": ""}, "subject must have 1 to"),
        ({"event_date": "soon"}, "event_date"),
        ({"status": "odd"}, "status"),
        ({"kind": "note"}, "kind"),
        ({"fact": "said: I live in Graz."}, "changes nothing"),
        ({"fact": "said: I play the accordion."}, "another card"),
    ],
)
async def test_a_wrong_correction_changes_nothing(make: Make, changes: Any, error: str) -> None:
    memory, card = await told(make)
    before = [line async for line in memory.export()]
    with pytest.raises(InputError, match=error):
        await memory.correct(card.id, **changes)
    assert [line async for line in memory.export()][1:] == before[1:]


async def test_an_unknown_card_cannot_be_corrected(make: Make) -> None:
    memory, card = await told(make)
    note = await memory.note("The door code is 4711.")
    made = await memory.correct(card.id, fact="lives in Vienna")
    with pytest.raises(NotInMemory, match=f"it is '{made.id}' now"):
        await memory.correct(card.id, fact="lives in Linz")
    await memory.forget(card=made.id)
    with pytest.raises(NotInMemory, match="There is no card"):
        await memory.correct(made.id, fact="lives in Linz")
    with pytest.raises(NotInMemory, match="There is no card"):
        await memory.correct("c0", fact="lives in Linz")
    with pytest.raises(InputError, match="note"):
        await memory.correct(note.id, fact="lives in Linz")


async def test_of_two_corrections_at_once_one_gets_an_error(make: Make) -> None:
    memory, card = await told(make)
    cities = ["Vienna", "Linz", "Wels", "Steyr"]
    done = await asyncio.gather(
        *(memory.correct(card.id, fact=f"lives in {city}") for city in cities),
        return_exceptions=True,
    )
    (won,) = [each for each in done if isinstance(each, Card)]
    assert all(isinstance(each, Card | StoreBusy | NotInMemory) for each in done)
    assert (await memory.cards())[0] == won
    assert len(await memory.corrections()) == 1


async def test_a_correction_is_redacted(make: Make) -> None:
    memory, card = await told(make, redact=lambda text: text.replace("4711", "[code]"))
    made = await memory.correct(card.id, fact="lives behind the door 4711")
    assert made.fact == "lives behind the door [code]"


async def test_corrections_are_exported_and_loaded(make: Make, tmp_path: Path) -> None:
    memory, card = await told(make)
    made = await memory.correct(card.id, fact="lives in Vienna")
    file = tmp_path / "export.jsonl"
    file.write_text("".join([line async for line in memory.export()]))
    other = await make(store=await open_store(tmp_path / "other", "other"))
    await other.load(file)
    assert await other.corrections() == await memory.corrections()
    assert await other.undo(made.id) == card


# ---------------------------------------------------------------- pin


async def test_a_pinned_card_is_in_every_recall_of_its_subject(make: Make) -> None:
    memory, card = await told(make)

    async def recalled(question: str = "Which instrument does Mira play?", **given: Any) -> bool:
        return card in (await memory.recall(question, limit=1, **given)).cards

    assert not await recalled()
    assert await memory.pin(card.id) == card
    assert await memory.pin(card.id) == card  # twice is once
    assert await recalled()
    assert await recalled("Which instrument do I play?", speaker="Mira")
    assert not await recalled("Which instrument does Jonas play?")
    assert not await recalled(as_of="2024-04-01")
    assert not await recalled(since="2024-05-02")
    assert not await recalled(until="2024-04-30")
    await memory.unpin(card.id)
    assert not await recalled()


async def test_a_pinned_card_is_the_last_that_a_prompt_leaves_out(make: Make) -> None:
    memory, card = await told(make)
    await memory.remember([{"speaker": "Mira", "text": f"I own piano {n}."} for n in range(9)])
    await memory.pin(card.id)
    found = await memory.recall("Which piano does Mira play?")
    prompts = [text for tokens in range(40, 400) if (text := found.prompt(tokens))]
    assert "piano" in prompts[-1]
    assert not any("piano" in text and "Graz" not in text for text in prompts)


async def test_a_pin_outlasts_corrections_and_remembering_again(make: Make) -> None:
    memory, card = await told(make)
    await memory.pin(card.id)
    made = await memory.correct(card.id, fact="lives in Vienna")
    turns = [{"speaker": "Mira", "text": "Hello."}, *TALK]
    await memory.remember({"id": "talk", "at": "2024-05-01", "turns": turns})
    assert [each.pinned for each in await memory.corrections(made.id)] == [True, True]
    assert (await memory.undo(made.id)).fact == card.fact
    assert (await memory.undo(card.id)).fact == card.fact
    assert await memory.corrections() == []


@pytest.mark.parametrize("plans", [True, False])
async def test_a_pinned_card_alone_is_evidence_for_an_answer(tmp_path: Path, plans: bool) -> None:
    model = scripted(answer=lambda prompt: {"answer": "Rice.", "used": ["1"], "sufficient": True})
    parts = {"model" if plans else "answerer": model, "reranker": "none"}
    async with justmem.open_async("x", folder=tmp_path, extractor="rules", **parts) as memory:
        card = (await memory.remember("I am vegetarian.")).cards[0]
        question = "Which gears does my bicycle have?"
        assert not (await memory.ask(question)).sufficient
        assert model.prompts == []
        await memory.pin(card.id)
        assert (await memory.recall(question)).cards == (card,)
        answer = await memory.ask(question)
    assert (answer.text, [one.quote for one in answer.citations]) == ("Rice.", ["I am vegetarian."])
    assert [prompt.stage for prompt in model.prompts] == ["answer"]
