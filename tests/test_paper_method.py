"""One test per claim of the paper's method section, named after it."""

import itertools
from datetime import datetime

import numpy as np
import pytest

from justmem import Access, Budget, Plan, Profile
from justmem.domain import PAPER
from justmem.ports import Reranked
from stories import HISTORY, KYOTO, NOW, RUN, Make, extract_history, plan, scripted


class Spy:
    """A reranker that likes what is long and remembers what it was asked."""

    name = "spy"

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def rerank(self, query, texts):
        self.queries.append(query)
        return Reranked(np.array([len(text) for text in texts], np.float32), 0)


# ---------------------------------------------------------------- Recoverable Memory Encoding


async def test_all_cards_of_a_session_are_produced_jointly_in_a_single_extraction_call(
    make: Make,
) -> None:
    model = scripted(extract=extract_history)
    memory = await make(model)
    result = await memory.remember(KYOTO)
    assert len(model.prompts) == 1
    assert len(result.cards) == 3


async def test_each_card_contains_content_temporal_information_provenance_and_metadata(
    make: Make,
) -> None:
    memory = await make(scripted(extract=extract_history))
    card = (await memory.remember(RUN)).cards[0]
    assert card.text == "User ran a first half marathon in 1:58"
    assert (str(card.event_date), card.said_at) == ("2024-03-10", datetime(2024, 3, 11, 18))
    assert (card.session_id, card.turns) == ("run", (1,))
    assert (card.kind, card.status) == ("event", "completed")


async def test_individual_memories_of_one_session_compete_globally(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan=plan()), budget=Budget(cards=2))
    await memory.remember_many(HISTORY)
    evidence = await memory.recall("a three-day plan for Kyoto, a trip booked", at=NOW)
    assert [card.session_id for card in evidence.cards] == ["kyoto", "kyoto"]


async def test_provenance_makes_the_compact_representation_recoverable(make: Make) -> None:
    memory = await make(scripted(extract=extract_history))
    [asked, *_] = (await memory.remember(KYOTO)).cards
    source = await memory.source(asked.id)
    assert any("Saiho-ji" in turn.text for _, turn in source.turns)


# ---------------------------------------------------------------- Access Planning


async def test_specification_demands_and_rewrites_come_from_a_single_planner_call(
    make: Make,
) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(
            op="aggregate",
            period="2024-05",
            spans=True,
            rewrites=["User bought something"],
        ),
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)
    before = len(model.prompts)

    evidence = await memory.recall("What did I buy in May?", at=NOW)

    assert len(model.prompts) == before + 1
    assert evidence.plan.operation == "aggregate"
    assert str(evidence.plan.period) == "2024-05"
    assert evidence.plan.rewrites == ("User bought something",)


@pytest.mark.parametrize(("f", "d"), list(itertools.product([False, True], repeat=2)))
def test_equation_1_maps_the_two_demands_to_an_access(f: bool, d: bool) -> None:
    expected = Access.REPLAY if f else Access.COMPOSE if d else Access.LOOKUP
    assert Plan(needs_source=f, spans_sessions=d).access is expected


async def test_the_planner_receives_the_question_with_its_time(make: Make) -> None:
    model = scripted(extract=extract_history, plan=plan())
    memory = await make(model)
    await memory.remember_many(HISTORY)
    await memory.recall("What did I buy?", at="2024-05-30")
    assert "Thursday 2024-05-30" in model.prompts[-1].user
    assert "What did I buy?" in model.prompts[-1].user


# ---------------------------------------------------------------- LOOKUP, COMPOSE


async def test_lookup_reranks_candidates_against_the_query_to_a_bounded_set(make: Make) -> None:
    spy = Spy()
    memory = await make(
        scripted(extract=extract_history, plan=plan()), reranker=spy, budget=Budget(cards=2)
    )
    await memory.remember_many(HISTORY)
    evidence = await memory.recall("What did I buy?", at=NOW)
    assert spy.queries == ["What did User buy?"]
    assert len(evidence.chosen) == 2


async def test_equation_2_candidates_are_the_deduplicated_union_over_all_views(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the three views finds one card. Two of them find the same one."""
    monkeypatch.setattr("justmem.retrieve._DENSE", 1)
    monkeypatch.setattr("justmem.retrieve._LEXICAL", 0)
    spread = plan(spans=True, rewrites=["User loves gardens", "half marathon"])
    memory = await make(scripted(extract=extract_history, plan=spread))
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("User loves gardens", at=NOW)

    facts = [candidate.card.fact for candidate in evidence.candidates]
    assert sorted(facts) == ["loves gardens", "ran a first half marathon in 1:58"]


async def test_equation_3_the_paper_reranks_the_union_against_the_question_alone(
    make: Make,
) -> None:
    spy = Spy()
    spread = plan(spans=True, rewrites=["User loves gardens", "half marathon"])
    memory = await make(scripted(extract=extract_history, plan=spread), reranker=spy, profile=PAPER)
    await memory.remember_many(HISTORY)
    await memory.recall("What do I like?", at=NOW)
    assert spy.queries == ["What do I like?"]


async def test_our_default_selects_against_all_views(make: Make) -> None:
    """What only a rewrite asks for is chosen before what only the question's words are in."""
    spread = plan(spans=True, rewrites=["half marathon", "ran a first half marathon"])
    memory = await make(scripted(extract=extract_history, plan=spread), budget=Budget(cards=1))
    await memory.remember_many(HISTORY)
    evidence = await memory.recall("Which sport, booked or not?", at=NOW)
    assert evidence.cards[0].fact == "ran a first half marathon in 1:58"


# ---------------------------------------------------------------- REPLAY


async def test_selected_cards_are_both_compact_evidence_and_provenance_anchors(make: Make) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(source=True),
        answer={"answer": "x", "used": ["1"], "sufficient": True},
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)

    answer = await memory.ask("Which three-day plan for Kyoto did you give me?", at=NOW)

    shown = model.prompts[-1].user
    assert "User asked for a three-day plan for Kyoto" in shown
    assert "Saiho-ji" in shown
    assert answer.evidence.sources[0].session_id == answer.evidence.cards[0].session_id


async def test_without_the_demand_the_answer_model_reads_only_the_compact_evidence(
    make: Make,
) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(),
        answer={"answer": "x", "used": ["1"], "sufficient": True},
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)
    await memory.ask("Which three-day plan for Kyoto did you give me?", at=NOW)
    assert "Saiho-ji" not in model.prompts[-1].user


async def test_under_replay_the_paper_uses_no_rewrites_and_we_do_where_evidence_is_spread(
    make: Make,
) -> None:
    both = plan(source=True, spans=True, rewrites=["half marathon"])
    for profile, views in ((PAPER, 1), (Profile(), 2)):
        memory = await make(
            scripted(extract=extract_history, plan=both), profile=profile, space=profile.name
        )
        await memory.remember_many(HISTORY)
        evidence = await memory.recall("What did you plan?", at=NOW)
        assert evidence.receipt.embedding[0].items == views


# ---------------------------------------------------------------- Answering


async def test_the_answer_model_receives_question_time_operation_and_evidence(make: Make) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(op="temporal"),
        answer={"answer": "10 March 2024", "used": ["1"], "sufficient": True},
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)
    await memory.ask("When did I run?", at=NOW)
    prompt = model.prompts[-1]
    assert "Turn relative time into a date" in prompt.system
    assert "Saturday 2024-06-01" in prompt.user
    assert "half marathon" in prompt.user


async def test_evidence_is_fixed_at_ten_cards_by_default() -> None:
    assert Budget().cards == 10
