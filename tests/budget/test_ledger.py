"""Every token is on a receipt, and a limit is kept before it is passed."""

from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from justmem import Budget
from justmem.domain import SessionState
from justmem.errors import BudgetExceeded, ModelUnavailable
from justmem.testing import HashEmbedder, ScriptedModel
from stories import HISTORY, NOW, RUN, Make, extract_history, plan, scripted

ANSWER = {"answer": "1:58", "used": ["1"], "sufficient": True}


async def test_an_ask_lists_each_call_with_its_stage_and_tokens(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan=plan(), answer=ANSWER))
    await memory.remember_many(HISTORY)

    receipt = (await memory.ask("How fast was my half marathon?", at=NOW)).receipt

    assert [call.stage for call in receipt.calls] == ["plan", "answer"]
    assert all(call.tokens_in > 0 and call.tokens_out > 0 for call in receipt.calls)
    assert receipt.tokens == sum(call.tokens_in + call.tokens_out for call in receipt.calls)
    assert {"plan", "discover", "select", "answer"} <= set(receipt.seconds)
    assert [usage.model for usage in receipt.embedding] == ["hash-512"]


async def test_the_full_history_is_priced_for_comparison(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan=plan()))
    results = await memory.remember_many(HISTORY)
    evidence = await memory.recall("How fast was my half marathon?", at=NOW)
    assert evidence.receipt.history_tokens == sum(r.receipt.history_tokens for r in results) > 50


async def test_embedding_and_reranking_are_counted_apart(make: Make) -> None:
    class Reverse:
        name = "reverse"

        async def rerank(self, query, texts):
            import numpy as np

            from justmem.ports import Reranked

            return Reranked(np.arange(len(texts), dtype=np.float32), 7)

    memory = await make(scripted(extract=extract_history, plan=plan()), reranker=Reverse())
    await memory.remember_many(HISTORY)

    receipt = (await memory.recall("How fast was my half marathon?", at=NOW)).receipt

    [reranking] = receipt.reranking
    assert (reranking.model, reranking.tokens) == ("reverse", 7)
    assert receipt.tokens == receipt.calls[0].tokens_in + receipt.calls[0].tokens_out


async def test_a_failed_plan_falls_back_to_the_rules_and_is_still_paid_for(make: Make) -> None:
    memory = await make(
        scripted(extract=extract_history, plan=ModelUnavailable("Away."), answer=ANSWER)
    )
    await memory.remember_many(HISTORY)

    answer = await memory.ask("How fast was my half marathon?", at=NOW)

    assert answer.sufficient
    assert any("planned by rules" in note for note in answer.receipt.notes)
    assert answer.receipt.calls[0].error == "Away."


async def test_an_unreadable_plan_falls_back_too(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan='{"mode": "sh', answer=ANSWER))
    await memory.remember_many(HISTORY)
    answer = await memory.ask("How fast was my half marathon?", at=NOW)
    assert any("planned by rules" in note for note in answer.receipt.notes)


async def test_a_failed_answer_says_what_was_spent(make: Make) -> None:
    memory = await make(
        scripted(extract=extract_history, plan=plan(), answer=ModelUnavailable("Away."))
    )
    await memory.remember_many(HISTORY)
    with pytest.raises(ModelUnavailable) as raised:
        await memory.ask("How fast was my half marathon?", at=NOW)
    assert [call.stage for call in raised.value.calls] == ["plan", "answer"]


async def test_evidence_is_cut_to_fit_before_a_call_is_refused(make: Make) -> None:
    model = scripted(extract=extract_history, plan=plan(), answer=ANSWER)
    memory = await make(model, budget=Budget(ask_tokens=440))
    await memory.remember_many(HISTORY)

    answer = await memory.ask("How fast was my half marathon?", at=NOW)

    assert any("cut to fit" in note for note in answer.receipt.notes)
    assert all(card.text in model.prompts[-1].user for card in answer.evidence.cards)
    assert answer.receipt.tokens <= 440


async def test_a_limit_too_small_for_anything_is_an_error_and_no_call(make: Make) -> None:
    model = scripted(extract=extract_history, plan=plan(), answer=ANSWER)
    memory = await make(model, budget=Budget(ask_tokens=100))
    await memory.remember_many(HISTORY)
    made = len(model.prompts)

    with pytest.raises(BudgetExceeded, match=r"Raise Budget\.ask_tokens"):
        await memory.ask("How fast was my half marathon?", at=NOW)

    assert len(model.prompts) == made


async def test_a_days_limit_survives_a_restart(make: Make) -> None:
    day = lambda: datetime(2024, 6, 1)  # noqa: E731
    model = scripted(extract=extract_history)
    memory = await make(model, budget=Budget(day_tokens=1500), clock=day)
    assert (await memory.remember(RUN)).state is SessionState.STORED
    await memory.close()

    again = await make(model, budget=Budget(day_tokens=1500), clock=day)
    results = await again.remember_many(HISTORY[1:])
    assert SessionState.FAILED in {result.state for result in results}
    assert (await again.stats()).spent_tokens <= 1500

    next_day = await make(model, budget=Budget(day_tokens=1500), clock=lambda: datetime(2024, 6, 2))
    assert any(r.state is SessionState.STORED for r in await next_day.retry())


LINES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    limit=st.integers(1, 3000),
    question=LINES.filter(str.strip),
    wordy=st.integers(0, 4000),
    spans=st.booleans(),
    source=st.booleans(),
    number=st.integers(0, 10**6),
)
async def test_no_ask_spends_more_than_its_limit(
    make: Make,
    limit: int,
    question: str,
    wordy: int,
    spans: bool,
    source: bool,
    number: int,
) -> None:
    """Whatever is asked, whatever the model replies (up to the length it was allowed)."""

    class Wordy(ScriptedModel):
        async def complete(self, prompt):
            done = await super().complete(prompt)
            out = min(wordy, prompt.max_tokens)
            return type(done)(done.text, done.call.model_copy(update={"tokens_out": out}))

    def reply(prompt):
        if prompt.stage == "extract":
            return extract_history(prompt)
        return (
            plan(spans=spans, source=source, rewrites=["x y", "z"])
            if prompt.stage == "plan"
            else ANSWER
        )

    memory = await make(
        Wordy(reply),
        space=f"budget-{number}",
        budget=Budget(ask_tokens=limit),
        embedder=HashEmbedder(32),
    )
    await memory.remember_many(HISTORY)
    try:
        spent = (await memory.ask(question, at=NOW)).receipt.tokens
    except BudgetExceeded as error:
        spent = sum(call.tokens_in + call.tokens_out for call in error.calls)
    assert spent <= limit
