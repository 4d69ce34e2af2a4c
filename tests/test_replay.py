"""REPLAY: a card can find it, only the original words can answer it."""

import pytest

from justmem import Access, Budget
from justmem.domain import PAPER
from stories import HISTORY, KYOTO, NOW, Make, extract_history, plan, scripted

SOURCE = plan(op="quote", source=True)


async def test_the_assistants_words_come_back_and_can_be_cited(make: Make) -> None:
    model = scripted(
        extract=extract_history,
        plan=SOURCE,
        answer={"answer": "Ryoan-ji", "used": ["s1.2"], "sufficient": True},
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)

    answer = await memory.ask("What did you plan for day 2 in Kyoto?", at=NOW)

    assert answer.access is Access.REPLAY
    assert "Day 2: Ryoan-ji." in model.prompts[-1].user
    [citation] = answer.citations
    assert (citation.session_id, citation.turn, citation.speaker) == ("kyoto", 2, "Assistant")
    assert "Ryoan-ji" in citation.quote


async def test_the_source_is_found_without_any_card_about_it(make: Make) -> None:
    """The index of raw turns holds both sides, so a reply is found by its own words."""
    model = scripted(
        extract={"cards": ["User | was perfect | unknown | stable | fact | 3"]}, plan=SOURCE
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("On which day was Saiho-ji, the moss garden?", at=NOW)

    assert evidence.sources[0].session_id == "kyoto"


async def test_source_recovery_is_gated_by_the_question(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan=plan()))
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("When do I go to Kyoto?", at=NOW)

    assert evidence.sources == ()


async def test_a_long_conversation_is_recovered_in_part_within_the_budget(make: Make) -> None:
    filler = [
        {"role": role, "content": f"Some talk about the weather, part {n}, " + "rain " * 40}
        for n in range(30)
        for role in ("user", "assistant")
    ]
    long = {**KYOTO, "turns": [*filler, *KYOTO["turns"], *filler]}
    memory = await make(
        scripted(extract=extract_history, plan=SOURCE), budget=Budget(source_tokens=400)
    )
    await memory.remember_many([long])

    evidence = await memory.recall("What did you plan for day 2 in Kyoto?", at=NOW)

    [source] = evidence.sources
    assert not source.whole
    assert source.tokens <= 400
    assert any("Ryoan-ji" in turn.text for _, turn in source.turns)
    assert any("Plan three days" in turn.text for _, turn in source.turns), "reply and request"


async def test_a_single_turn_longer_than_the_budget_is_cut_not_lost(make: Make) -> None:
    essay = "Moss needs shade. " * 2000
    chat = [
        {"role": "user", "content": "Write an essay on moss"},
        {"role": "assistant", "content": essay},
    ]
    rows = {"cards": ["User | asked for an essay on moss | unknown | completed | interaction | 1"]}
    memory = await make(scripted(extract=rows, plan=SOURCE), budget=Budget(source_tokens=200))
    await memory.remember(chat, at="2024-05-01", id="moss")

    evidence = await memory.recall("What did your essay on moss say that moss needs?", at=NOW)

    assert sum(source.tokens for source in evidence.sources) <= 220
    assert any("Moss needs shade" in t.text for s in evidence.sources for _, t in s.turns)
    assert not any(source.whole for source in evidence.sources)


@pytest.mark.parametrize("forgotten", [{"session": "kyoto"}, {"turn": "kyoto#2"}])
async def test_a_turn_forgotten_after_recall_is_cited_without_words(
    make: Make, forgotten: dict[str, str]
) -> None:
    reply = {"answer": "Ryoan-ji", "used": ["s1.2"], "sufficient": True}
    memory = await make(scripted(extract=extract_history, plan=SOURCE, answer=reply))
    await memory.remember_many(HISTORY)
    evidence = await memory.recall("What did you plan for day 2 in Kyoto?", at=NOW)
    await memory.forget(**forgotten)

    [citation] = (await memory.answer(evidence)).citations

    assert (citation.session_id, citation.turn, citation.kept) == ("kyoto", 2, False)
    assert citation.quote == ""


async def test_the_papers_profile_replays_the_whole_session_of_the_best_card(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan=SOURCE), profile=PAPER)
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("What three-day plan for Kyoto did you give me?", at=NOW)

    [source] = evidence.sources
    assert source.whole
    assert source.session_id == evidence.cards[0].session_id == "kyoto"
