"""Limits hold whatever a provider does: silence, false usage, calls broken off, many attempts."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from justmem import Budget
from justmem.budget import check_usage
from justmem.domain import Call, Candidate, Card, Evidence, Plan, SessionState, Source
from justmem.errors import BudgetExceeded, ModelUnavailable
from justmem.models.openai import OpenAIModel
from justmem.ports import Completion, Prompt
from justmem.prompts.evidence import drop_least_important
from justmem.runtime import tokens
from justmem.testing import ScriptedModel
from justmem_eval.loopback import Respond, chat_body, serve_openai
from stores import spent
from stories import HISTORY, NOW, RUN, Make, extract_history, plan, scripted

DAY = datetime(2024, 6, 1)
ANSWER = {"answer": "1:58", "used": ["1"], "sufficient": True}


def usage(text: str, tokens_in: Any, tokens_out: Any) -> Completion:
    call = Call.model_construct(
        stage="plan",
        model="liar",
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        undelivered=0,
        cached=0,
        estimated=False,
        attempts=1,
        seconds=0.0,
        error="",
    )
    return Completion(text, call)


# ---------------------------------------------------------------- what is reported


async def test_more_than_was_allowed_is_entered_noted_and_stops_the_next_call(make: Make) -> None:
    from json import dumps

    model = scripted(
        extract=extract_history, plan=lambda _: usage(dumps(plan()), 2500, 50), answer=ANSWER
    )
    memory = await make(model, budget=Budget(ask_tokens=2000), clock=lambda: DAY)
    await memory.remember_many(HISTORY)
    before = (await memory.stats()).spent_tokens

    with pytest.raises(BudgetExceeded) as raised:
        await memory.ask("How fast was my half marathon?", at=NOW)

    assert [call.tokens_in for call in raised.value.calls] == [2500]
    assert model.prompts[-1].stage == "plan"
    assert (await memory.stats()).spent_tokens - before == 2550
    evidence = await memory.recall("How fast was my half marathon?", at=NOW)
    assert "the plan call used 2550 tokens, 2000 were allowed" in evidence.receipt.notes


@pytest.mark.parametrize(
    ("told_in", "told_out"), [(-900, -5), (10**15, 1), (0, 0), (None, None), (1, 1), ("9", 2.5)]
)
async def test_a_count_that_cannot_be_true_is_replaced_by_our_own(
    make: Make, told_in: Any, told_out: Any
) -> None:
    from json import dumps

    text = dumps(plan(spans=True, rewrites=["ran a race in spring", "took part in a marathon"]))
    model = scripted(extract=extract_history, plan=lambda _: usage(text, told_in, told_out))
    memory = await make(model)
    await memory.remember_many(HISTORY)
    receipt = (await memory.recall("How fast was my half marathon?", at=NOW)).receipt
    (call,) = receipt.calls
    assert call.estimated
    assert call.tokens_in == model.prompts[-1].tokens
    assert call.tokens_out == tokens.count(text)
    assert "impossible usage reported for the plan call: counted here" in receipt.notes


def test_a_report_is_believed_from_half_of_our_own_count_on() -> None:
    prompt = Prompt("plan", "Plan this. " * 50, "When did Ana move? " * 50, {"x": "y " * 999}, 100)
    reply = "She moved to Porto in May. " * 20
    words = tokens.count(prompt.system) + tokens.count(prompt.user)
    half_in, half_out = (words + 1) // 2, (tokens.count(reply) + 1) // 2

    def counted(told_in: int, told_out: int) -> tuple[int, int, bool]:
        call = check_usage(usage(reply, told_in, told_out).call, prompt, reply, [])
        return call.tokens_in, call.tokens_out, call.estimated

    assert counted(half_in, half_out) == (half_in, half_out, False), "the schema may be free"
    ours_in, ours_out = prompt.tokens, tokens.count(reply)
    assert counted(half_in - 1, half_out) == (ours_in, half_out, True)
    assert counted(half_in, half_out - 1) == (half_in, ours_out, True)


# ---------------------------------------------------------------- what never came


PROMPT = Prompt("plan", "Plan.", "When?", {"type": "object"}, 100)


async def test_a_lost_attempt_is_not_repeated_where_another_could_pass_the_limit() -> None:
    async def nothing(_: float) -> None: ...

    once = PROMPT.tokens + PROMPT.max_tokens
    for limit, requests in ((once, 1), (3 * once, 3), (None, 4)):
        with serve_openai(lambda _: Respond(status=504)) as server:
            model = OpenAIModel("m", base_url=server.url, sleep=nothing)
            prompt = PROMPT.within(limit, least=10)
            with pytest.raises(ModelUnavailable) as raised:
                await model.complete(prompt)
            await model.close()
            (call,) = raised.value.calls
            assert len(server.requests) == call.attempts == requests
            assert call.undelivered == requests * PROMPT.max_tokens
            assert limit is None or call.counted <= limit


async def test_what_was_lost_before_an_answer_counts_too() -> None:
    async def nothing(_: float) -> None: ...

    replies = [Respond(status=504), Respond(chat_body("{}", usage=(30, 5)))]
    with serve_openai(replies) as server:
        model = OpenAIModel("m", base_url=server.url, sleep=nothing)
        done = await model.complete(PROMPT)
        await model.close()
    assert (done.call.tokens_out, done.call.undelivered) == (5, 100)
    assert done.call.tokens_in > 30


# ---------------------------------------------------------------- broken off


class Slow(ScriptedModel):
    """Replies to an answer call when told to, or never."""

    def __init__(self) -> None:
        super().__init__(lambda p: extract_history(p) if p.stage == "extract" else plan())
        self.asked = asyncio.Event()

    async def complete(self, prompt: Prompt) -> Completion:
        done = await super().complete(prompt)
        if prompt.stage == "answer":
            self.asked.set()
            await asyncio.Event().wait()
        return done


async def test_a_cancelled_call_stays_counted_at_its_longest(make: Make) -> None:
    model = Slow()
    memory = await make(model, budget=Budget(day_tokens=50_000), clock=lambda: DAY)
    await memory.remember_many(HISTORY)
    before = (await memory.stats()).spent_tokens
    asking = asyncio.create_task(memory.ask("How fast was my half marathon?", at=NOW))
    await model.asked.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    first, last = model.prompts[-2:]
    spent = (await memory.stats()).spent_tokens - before
    longest = last.tokens + last.max_tokens
    planned = tokens.count(first.system) + tokens.count(first.user)
    assert longest < spent - planned < longest + 200


# ---------------------------------------------------------------- attempts and days


async def test_a_session_that_fails_again_and_again_is_not_paid_for_again_and_again(
    make: Make,
) -> None:
    model = scripted(extract="no cards in here")
    budget = Budget(session_tokens=3000)
    memory = await make(model, budget=budget, clock=lambda: DAY)
    await memory.remember(RUN)
    for _ in range(20):
        await memory.retry()
    spent = (await memory.stats()).spent_tokens
    assert 1500 < spent <= 3000
    again = await make(model, budget=budget, clock=lambda: DAY)
    (done,) = await again.retry()
    assert done.state is SessionState.FAILED
    assert (await again.stats()).spent_tokens == spent
    assert f"earlier attempts used {spent} tokens of the limit" in done.receipt.notes
    # A raised limit lets it go on, and a text that changed begins anew.
    more = await make(scripted(extract=extract_history), budget=Budget(session_tokens=9000))
    assert [each.state for each in await more.retry()] == [SessionState.STORED]


async def test_a_kill_keeps_what_was_set_aside_counted_for_the_day(make: Make) -> None:
    budget = Budget(day_tokens=2000, ask_tokens=1500)
    memory = await make(
        scripted(extract=extract_history, plan=plan(), answer=ANSWER), budget=Budget()
    )
    await memory.remember_many(HISTORY)
    day = datetime(2024, 6, 2)
    killed = await make(scripted(), budget=budget, clock=lambda: day)
    # ... and then nothing any more.
    assert await killed._store.spend(day.date(), reserve=1500, limit=2000)

    model = scripted(plan=plan(), answer=ANSWER)
    later = await make(model, budget=budget, clock=lambda: day)
    receipt = (await later.ask("How fast was my half marathon?", at=NOW)).receipt
    assert receipt.tokens <= 500
    assert "the daily limit left 500 of 1500 tokens" in receipt.notes
    # It does not leak into the next day.
    tomorrow = await make(model, budget=budget, clock=lambda: datetime(2024, 6, 3))
    assert (await tomorrow.ask("How fast was my half marathon?", at=NOW)).receipt.tokens > 500


async def test_a_day_that_ends_in_the_middle_gives_back_what_it_lent(make: Make) -> None:
    now = [datetime(2024, 6, 1, 23, 59)]

    def at_midnight(prompt: Prompt) -> Any:
        now[0] = datetime(2024, 6, 2)
        return extract_history(prompt)

    budget = Budget(day_tokens=100_000)
    memory = await make(scripted(extract=at_midnight), budget=budget, clock=lambda: now[0])
    done = await memory.remember(RUN)
    store = memory._store
    assert await spent(store, datetime(2024, 6, 1).date()) == done.receipt.tokens
    assert await spent(store, datetime(2024, 6, 2).date()) == 0


def test_evidence_is_cut_from_the_least_of_it() -> None:
    def candidate(fact: str, score: float) -> Candidate:
        card = Card(
            id=fact,
            subject="Ana",
            fact=fact,
            session_id="s",
            said_at=datetime(2024, 5, 1),
            turns=(1,),
        )
        return Candidate(card=card, score=score)

    runs, rests, swims, dives = (
        candidate(fact, score)
        for fact, score in (("runs", 5), ("rests", 2), ("swims", 4), ("dives", 1))
    )
    source = Source(session_id="s", at=datetime(2024, 5, 1), turns=())
    evidence = Evidence(
        question="?",
        at=datetime(2024, 6, 1),
        plan=Plan(),
        chosen=(runs, swims),
        cards=tuple(each.card for each in (runs, rests, swims, dives)),
        sources=(source,),
        candidates=(runs, swims, rests, dives),
    )
    left = []
    while evidence.chosen:
        left.append(([card.fact for card in evidence.cards], len(evidence.sources)))
        evidence = drop_least_important(evidence)
    assert left == [
        (["runs", "rests", "swims", "dives"], 1),
        (["runs", "rests", "swims"], 1),
        (["runs", "swims"], 1),
        (["runs", "swims"], 0),
        (["runs"], 0),
    ]
    assert evidence.cards == ()
