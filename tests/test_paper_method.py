"""One test per claim of the paper's method section, named after it."""

import itertools

import numpy as np
import pytest

from justmem import Access, Budget, Plan, Profile
from justmem.domain import PAPER
from justmem.ports import Reranked
from stories import HISTORY, NOW, Make, extract_history, plan, scripted


class Spy:
    """A reranker that likes what is long and remembers what it was asked."""

    name = "spy"

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def rerank(self, query, texts):
        self.queries.append(query)
        return Reranked(np.array([len(text) for text in texts], np.float32), 0)


# ---------------------------------------------------------------- Recoverable Memory Encoding


async def test_individual_memories_of_one_session_compete_globally(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan=plan()), budget=Budget(cards=2))
    await memory.remember_many(HISTORY)
    evidence = await memory.recall("a three-day plan for Kyoto, a trip booked", at=NOW)
    assert [card.session_id for card in evidence.cards] == ["kyoto", "kyoto"]


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
