"""The caller plans: in part or in full, without a planning call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from justmem import Access, AsyncMemory, Plan
from justmem.domain import Evidence
from justmem.errors import InvalidQuestion
from justmem.intake.redaction import secrets
from justmem.ports import Embedded
from justmem.testing import HashEmbedder
from stories import HISTORY, NOW, Make, extract_history, plan, scripted

ANSWER = {"answer": "running", "used": ["1"], "sufficient": True}
REWRITES = ["User ran a race", "User joined a riding group"]


async def remembered(make: Make, **parts: Any) -> tuple[AsyncMemory, Any]:
    """With a model that would plan a LOOKUP."""
    model = scripted(extract=extract_history, plan=plan(), answer=ANSWER)
    memory = await make(model, **parts)
    await memory.remember_many(HISTORY)
    model.prompts.clear()
    return memory, model


async def test_a_plan_by_the_caller_needs_no_planning_call(make: Make) -> None:
    memory, model = await remembered(make)

    evidence = await memory.recall("Which sports do I do?", at=NOW, plan={"rewrites": REWRITES})

    assert evidence.access is Access.COMPOSE
    assert evidence.plan.rewrites == tuple(REWRITES)
    assert evidence.receipt.tokens == 0
    assert model.prompts == []

    answer = await memory.ask("Which sports do I do?", at=NOW, plan={"rewrites": REWRITES})
    assert answer.plan.rewrites == tuple(REWRITES)
    assert [prompt.stage for prompt in model.prompts] == ["answer"]


QUESTION = "How many bikes did I buy in May 2024?"  # the rules: COMPOSE, count, 2024-05


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"operation": "aggregate", "spans_sessions": True, "period": "2024-05"}),
        ({"period": "2023"}, {"operation": "aggregate", "spans_sessions": True, "period": "2023"}),
        (
            {"period": "2023-05-01/2023-05-31"},
            {"spans_sessions": True, "period": "2023-05-01/2023-05-31"},
        ),
        ({"spans_sessions": False}, {"spans_sessions": False, "rewrites": ()}),
        ({"rewrites": []}, {"spans_sessions": True, "rewrites": ()}),
        ({"rewrites": ["  a\n bike  "]}, {"rewrites": ("a bike",)}),
        ({"needs_source": True}, {"needs_source": True, "operation": "aggregate"}),
        ({"entities": ["Ana"]}, {"entities": ("Ana",), "operation": "aggregate"}),
        ({"operation": "order"}, {"operation": "order"}),
        ({"period": None, "rewrites": None}, {"spans_sessions": True, "period": "2024-05"}),
    ],
)
async def test_the_rules_fill_in_what_the_caller_left_out(
    make: Make, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    memory, _ = await remembered(make)
    made = (await memory.recall(QUESTION, at=NOW, plan=given)).plan
    found = {name: getattr(made, name) for name in expected}
    if "period" in found:
        found["period"] = str(found["period"])
    assert found == expected


async def test_a_whole_plan_is_used_as_it_is(make: Make) -> None:
    memory, _ = await remembered(make)
    first = await memory.recall(QUESTION, at=NOW, plan={"period": "2023"})
    assert first.plan.period.start == date(2023, 1, 1)
    again = await memory.recall("What hurts?", at=NOW, plan=first.plan)
    assert again.plan == first.plan
    assert (await memory.recall(QUESTION, at=NOW, plan=Plan())).plan == Plan()


async def test_an_entity_that_the_question_does_not_name_is_searched_for(make: Make) -> None:
    memory = await make()
    for name in ("Ivar", "Nora"):
        said = {"speaker": name, "text": "I keep bees in the orchard behind the mill."}
        await memory.remember({"id": name, "at": "2024-05-01", "turns": [said]})

    async def first(entities: list[str]) -> str:
        asked = "What does she keep in the orchard?"
        found: Evidence = await memory.recall(asked, plan={"entities": entities})
        return found.cards[0].subject

    assert [await first(["Ivar"]), await first(["Nora"])] == ["Ivar", "Nora"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"rewrite": ["x"]}, "no part 'rewrite'. Its parts are rewrites, needs_source,"),
        ({"rewrites": ["a", "b", "c"]}, "rewrites cannot be 3 texts. .*up to two texts"),
        ({"rewrites": "a race"}, "rewrites cannot be 'a race'. .*up to two texts"),
        ({"rewrites": ["a race", " "]}, "plan's rewrites must be a text .*, not ' '. .*up to two"),
        ({"rewrites": ["a" * 501]}, "must be a text of 1 to 500 characters, not 'aaa"),
        ({"rewrites": [7]}, "Each of the plan's rewrites must be a text .*, not 7. "),
        ({"rewrites": [["a race"]]}, "Each of the plan's rewrites must be a text .*, not a list. "),
        ({"needs_source": "no"}, "needs_source cannot be 'no'. .*true or false"),
        ({"spans_sessions": 1}, "spans_sessions cannot be 1. .*true or false"),
        ({"period": "May"}, "period cannot be 'May'. .*2023-05-01/2023-05-31"),
        ({"period": ""}, "period cannot be ''. .*2023-05"),
        ({"period": "2023-05-31/2023-05-01"}, "period cannot be '2023-05-31/2023-05-01'. "),
        ({"period": 2023}, "period cannot be 2023. .*2023-05"),
        ({"entities": [""]}, "Each of the plan's entities must be a text .*, not ''. "),
        ({"entities": ["x"] * 21}, "entities cannot be 21 texts. .*up to 20"),
        ({"operation": "song"}, "operation cannot be 'song'. .*lookup, aggregate"),
        ({"rewrites": ["a"], "spans_sessions": False}, "omit spans_sessions"),
        (["rewrites"], "A plan must be a Plan or a mapping with any of rewrites, .* not a list."),
        ("COMPOSE", "A plan must be a Plan or a mapping .* not 'COMPOSE'."),
        ({3: True}, "no part '3'"),
        (Plan(spans_sessions=True, rewrites=("a", "b", "c")), "rewrites cannot be 3 texts. "),
    ],
)
async def test_a_part_that_cannot_be_used_is_named_with_its_valid_form(
    make: Make, given: Any, why: str
) -> None:
    memory = await make()
    for verb in (memory.recall, memory.ask):
        with pytest.raises(InvalidQuestion, match=why):
            await verb("What hurts?", at=NOW, plan=given)


class Heard(HashEmbedder):
    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        self.texts += texts
        return await super().embed(texts, query=query)


async def test_what_is_redacted_is_in_no_search_of_the_callers_plan(make: Make) -> None:
    card = "4111 1111 1111 1111"
    embedder = Heard()
    memory, _ = await remembered(make, embedder=embedder, redact=secrets)
    given = {"rewrites": [f"paid with {card}"], "entities": [card]}
    evidence = await memory.recall("What did I buy?", at=NOW, plan=given)
    assert "paid with [card number]" in embedder.texts
    assert "1111" not in " ".join(embedder.texts) + evidence.model_dump_json()


async def test_evidence_can_be_answered_in_a_second_step(make: Make) -> None:
    memory, model = await remembered(make)
    evidence = await memory.recall("What hurts?", at=NOW)

    answer = await memory.answer(evidence)

    asked = await memory.ask("What hurts?", at=NOW)
    assert answer.text == asked.text
    assert answer.citations == asked.citations
    assert [call.stage for call in answer.receipt.calls] == ["answer"]
    empty = evidence.model_copy(update={"chosen": (), "cards": (), "sources": ()})
    model.prompts.clear()
    assert not (await memory.answer(empty)).sufficient
    assert model.prompts == []
