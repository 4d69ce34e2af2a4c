"""COMPOSE: the evidence is spread; discovery widens, the number of cards does not."""

from collections.abc import Sequence

import pytest

from justmem import Access, Budget
from justmem.domain import Profile, Weights
from justmem.language.languages import LANGUAGES
from justmem.plan import ModelPlanner
from justmem.ports import Embedded
from justmem.testing import HashEmbedder
from stories import HISTORY, NOW, Make, extract_history, plan, scripted

SPREAD = plan(
    op="aggregate",
    spans=True,
    rewrites=["User ran a race", "User joined a riding group"],
)


async def test_rewrites_find_what_the_question_alone_does_not(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("justmem.retrieve._DENSE", 1)
    monkeypatch.setattr("justmem.retrieve._LEXICAL", 1)
    memory = await make(scripted(extract=extract_history, plan=SPREAD))
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("Which sports do I do?", at=NOW)

    assert evidence.access is Access.COMPOSE
    facts = {card.fact for card in evidence.cards}
    assert "ran a first half marathon in 1:58" in facts
    assert "joined the Tuesday riding group" in facts


async def test_lookup_uses_no_rewrites_even_if_the_plan_holds_some(make: Make) -> None:
    local = {**SPREAD, "spans": False}
    memory = await make(scripted(extract=extract_history, plan=local))
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("Which sports do I do?", at=NOW)

    assert evidence.access is Access.LOOKUP
    assert evidence.plan.rewrites == ()
    [usage] = evidence.receipt.embedding
    assert usage.items == 1


async def test_broader_discovery_does_not_add_cards(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan=SPREAD), budget=Budget(cards=3))
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("Which sports do I do?", at=NOW)

    assert len(evidence.chosen) == 3
    assert len(evidence.cards) <= 7
    assert len(evidence.candidates) > 3


async def test_at_most_two_rewrites_are_kept(make: Make) -> None:
    many = {**SPREAD, "rewrites": ["a", "b", "c", "d"]}
    memory = await make(scripted(extract=extract_history, plan=many))
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("Which sports do I do?", at=NOW)

    assert evidence.plan.rewrites == ("a", "b")


async def test_evidence_to_add_up_is_shown_in_order_of_time_with_its_instruction(
    make: Make,
) -> None:
    model = scripted(
        extract=extract_history,
        plan=SPREAD,
        answer={"answer": "running and cycling", "used": ["1", "2"], "sufficient": True},
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)

    answer = await memory.ask("Which sports do I do?", at=NOW)

    prompt = model.prompts[-1]
    assert "every distinct matching item" in prompt.system
    order = [prompt.user.index(word) for word in ("half marathon", "loves gardens", "gravel bike")]
    assert order == sorted(order)
    assert len(answer.citations) >= 2


async def test_a_remark_finds_what_lies_behind_it_and_gets_a_reply(make: Make) -> None:
    remark = plan(
        op="reply",
        spans=True,
        rewrites=["User has a knee that hurts"],
    )
    model = scripted(
        extract=extract_history,
        plan=remark,
        answer={"answer": "Mind your knee on those steps!", "used": ["1"], "sufficient": True},
    )
    memory = await make(model, budget=Budget(cards=2))
    await memory.remember_many(HISTORY)

    answer = await memory.ask("We are climbing the tower tomorrow, all 400 steps!", at=NOW)

    assert "has a knee that hurts on stairs" in {card.fact for card in answer.evidence.cards}
    assert "This is a remark" in model.prompts[-1].system
    assert answer.text == "Mind your knee on those steps!"


class Asked(HashEmbedder):
    """Keeps what it was given as questions."""

    def __init__(self) -> None:
        super().__init__(512)
        self.questions: list[str] = []

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        self.questions += texts if query else ()
        return await super().embed(texts, query=query)


async def test_a_remark_is_compared_as_the_statement_it_is(make: Make) -> None:
    embedder = Asked()
    memory = await make(embedder=embedder)
    await memory.remember_many(HISTORY)

    await memory.recall("We are climbing the tower tomorrow, all 400 steps!", at=NOW)
    assert embedder.questions == []

    await memory.recall("Which races did I run?", at=NOW)
    assert "Which races did" in embedder.questions[0]


@pytest.mark.parametrize("spans", [True, False])
async def test_the_cards_chosen_lie_in_more_sessions(make: Make, spans: bool) -> None:
    """One session tells much of what is asked about, nine others a little each."""
    told = [f"I bought a red bike light, number {n}, for my bike." for n in range(12)]
    others = [f"I bought a bell {n} at a fair on the way to town." for n in range(9)]
    sessions = {}
    for discount in (0.0, 0.4):
        asked = plan(op="aggregate", spans=spans)
        memory = await make(
            space=f"spread-{discount > 0}",
            planner=ModelPlanner(scripted(plan=asked), LANGUAGES),
            profile=Profile(weights=Weights(session=discount)),
        )
        turns = [{"role": "user", "content": text} for text in told]
        await memory.remember(turns, at="2024-05-01", id="much")
        for number, text in enumerate(others):
            turns = [{"role": "user", "content": text}]
            await memory.remember(turns, at="2024-05-02", id=f"little-{number}")
        evidence = await memory.recall("Which red light for my bike have I bought?", at=NOW)
        sessions[discount] = len({each.card.session_id for each in evidence.chosen})
        chosen = {each.card.id for each in evidence.chosen}
        near = [card.session_id for card in evidence.cards if card.id not in chosen]
        assert set(near) <= {"much"}  # the rest of that session is read all the same
    assert sessions[0.0] < sessions[0.4]
