"""An answer that can be read while it is written: the same answer, receipt and limits."""

from __future__ import annotations

from typing import Any

import pytest

from justmem import Answer, Budget, Evidence, Plan
from justmem import answer as answering
from justmem.errors import BudgetExceeded, ModelNonsense, ModelUnavailable
from justmem.models.openai import OpenAIModel
from justmem.parts import Parts
from justmem.ports import Prompt
from justmem.testing import (
    Request,
    Respond,
    Script,
    Served,
    chat_body,
    chat_stream,
    error_body,
    serve_openai,
)
from stories import HISTORY, NOW, Make, extract_history, plan, scripted

QUESTION = "How fast was my half marathon?"
REPLY = {"answer": "You ran it in 1:58 — “sore” after.", "used": ["1"], "sufficient": True}


def speaking(answer: Any) -> Script:
    """A server that extracts and plans as usual and answers with `answer`."""

    def script(request: Request) -> Respond | dict[str, Any]:
        stage = request.body["response_format"]["json_schema"]["name"]
        if stage == "extract":
            said = Prompt("extract", "", request.body["messages"][1]["content"], {}, 0)
            return chat_body(extract_history(said))
        if stage == "plan":
            return chat_body(plan())
        return answer(request) if callable(answer) else answer

    return script


def model(server: Served) -> OpenAIModel:
    return OpenAIModel("m", base_url=server.url, attempts=2, sleep=_no_sleep)


async def _no_sleep(_: float) -> None: ...


async def steps_of(memory: Any) -> list[Any]:
    return [step async for step in memory.follow(QUESTION, at=NOW)]


async def test_the_steps_come_in_order_and_the_pieces_make_up_the_answer(make: Make) -> None:
    with serve_openai(speaking(Respond(chat_stream(REPLY, size=3)))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        understood, evidence, *pieces, answer = await steps_of(memory)
    assert isinstance(understood, Plan)
    assert isinstance(evidence, Evidence)
    assert isinstance(answer, Answer)
    assert len(pieces) > 5
    assert "".join(pieces) == answer.text == REPLY["answer"]
    assert answer.citations[0].quote == "I ran my first half marathon yesterday, in 1:58!"


async def test_a_streamed_answer_is_counted_as_the_provider_counts_it(make: Make) -> None:
    with serve_openai(speaking(Respond(chat_stream(REPLY, usage=(321, 45))))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        *_, answer = await steps_of(memory)
    call = answer.receipt.calls[-1]
    assert (call.stage, call.tokens_in, call.tokens_out, call.estimated) == (
        "answer",
        321,
        45,
        False,
    )
    assert list(answer.receipt.seconds) == ["plan", "discover", "select", "answer"]


async def test_a_server_that_gives_no_usage_in_a_stream_is_counted_here(make: Make) -> None:
    def answer(request: Request) -> Respond:
        if "stream_options" in request.body:
            return Respond(error_body("Unknown parameter: stream_options"), status=400)
        return Respond(chat_stream(REPLY, usage=None))

    with serve_openai(speaking(answer)) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        *_, reply = await steps_of(memory)
    assert reply.text == REPLY["answer"]
    assert reply.receipt.calls[-1].estimated
    assert reply.receipt.calls[-1].tokens_in > 100


async def test_a_server_that_does_not_stream_answers_at_once(make: Make) -> None:
    with serve_openai(speaking(chat_body(REPLY))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        _, _, *pieces, answer = await steps_of(memory)
    assert pieces == [answer.text] == [REPLY["answer"]]


async def test_a_model_that_cannot_stream_answers_at_once(make: Make) -> None:
    memory = await make(scripted(extract=extract_history, plan=plan(), answer=REPLY))
    await memory.remember_many(HISTORY)
    _, _, *pieces, answer = await steps_of(memory)
    assert pieces == [answer.text]
    assert answer.text == (await memory.ask(QUESTION, at=NOW)).text


async def test_what_turns_out_not_to_be_in_memory_is_said_in_the_answer(make: Make) -> None:
    guess = {"answer": "Perhaps 2:10", "used": [], "sufficient": False}
    with serve_openai(speaking(Respond(chat_stream(guess)))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        *_, answer = await steps_of(memory)
    assert not answer.sufficient
    assert answer.text == "That is not in memory."


async def test_a_reply_in_prose_is_passed_on_when_it_is_complete(make: Make) -> None:
    with serve_openai(speaking(Respond(chat_stream("You ran it in 1:58.")))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        _, _, *pieces, answer = await steps_of(memory)
    assert pieces == ["You ran it in 1:58."]
    assert answer.text == pieces[0]


async def test_a_stream_that_breaks_off_is_an_error_that_still_counts(make: Make) -> None:
    with serve_openai(speaking(Respond(chat_stream(REPLY), cut="inside"))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        with pytest.raises(ModelUnavailable, match="stopped in the middle") as caught:
            await steps_of(memory)
    assert [call.stage for call in caught.value.calls] == ["plan", "answer"]
    assert caught.value.calls[-1].tokens_in > 100
    spent = (await memory.stats()).spent_tokens
    assert spent >= sum(call.tokens_in + call.tokens_out for call in caught.value.calls)


async def test_a_whole_reply_that_breaks_off_is_tried_again(make: Make) -> None:
    """From a server that does not stream though it was asked to."""
    replies = iter([Respond(chat_body(REPLY), cut="inside"), Respond(chat_body(REPLY))])
    with serve_openai(speaking(lambda _: next(replies))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        *_, answer = await steps_of(memory)
    assert answer.text == REPLY["answer"]
    assert answer.receipt.calls[-1].attempts == 2


async def test_a_stream_that_never_starts_is_tried_again(make: Make) -> None:
    replies = iter([Respond(status=503), Respond(chat_stream(REPLY))])
    with serve_openai(speaking(lambda _: next(replies))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        *_, answer = await steps_of(memory)
    assert answer.text == REPLY["answer"]
    assert answer.receipt.calls[-1].attempts == 2


async def test_the_limit_holds_for_a_streamed_answer(make: Make) -> None:
    with serve_openai(speaking(Respond(chat_stream(REPLY)))) as server:
        memory = await make(model(server), budget=Budget(ask_tokens=300))
        await memory.remember_many(HISTORY)
        sent = len(server.requests)
        with pytest.raises(BudgetExceeded):
            await steps_of(memory)
    assert len(server.requests) == sent


async def test_asking_without_following_does_not_stream(make: Make) -> None:
    with serve_openai(speaking(chat_body(REPLY))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        await memory.ask(QUESTION, at=NOW)
        assert "stream" not in server.requests[-1].body


async def test_leaving_early_gives_back_what_was_set_aside(make: Make) -> None:
    memory = await make(
        scripted(extract=extract_history, plan=plan(), answer=REPLY),
        budget=Budget(day_tokens=100_000, ask_tokens=5_000),
    )
    await memory.remember_many(HISTORY)
    before = (await memory.stats()).spent_tokens
    steps = memory.follow(QUESTION, at=NOW)
    await anext(steps)
    await steps.aclose()
    planned = (await memory.stats()).spent_tokens - before
    assert 0 < planned < 1_000
    assert (await memory.ask(QUESTION, at=NOW)).sufficient


def test_the_synchronous_face_follows_too(tmp_path: Any) -> None:
    import asyncio

    from justmem import AsyncMemory, Memory
    from justmem.store.sqlite import open_store
    from justmem.testing import HashEmbedder
    from stories import by_model

    told = scripted(extract=extract_history, plan=plan(), answer=REPLY)
    store = asyncio.run(open_store(tmp_path, "sync"))
    parts = Parts(HashEmbedder(512), **by_model(told))
    with Memory(AsyncMemory(store, parts)) as memory:
        memory.remember_many(HISTORY)
        kinds = [type(step).__name__ for step in memory.follow(QUESTION, at=NOW)]
    assert kinds == ["Plan", "Evidence", "str", "Answer"]


async def test_a_long_answer_is_not_read_anew_for_each_of_its_pieces(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = " ".join(f"word{n}" for n in range(800))
    read: list[int] = []
    parse = answering.from_json

    def counted(text: str, **options: Any) -> Any:
        read.append(len(text))
        return parse(text, **options)

    monkeypatch.setattr(answering, "from_json", counted)
    with serve_openai(speaking(Respond(chat_stream(REPLY | {"answer": told}, size=2)))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        _, _, *pieces, answer = await steps_of(memory)
    assert "".join(pieces) == answer.text == told
    assert len(pieces) > 50
    assert sum(read) < 50 * len(told), "it is read some times over, however small the pieces"


async def test_a_stream_far_longer_than_was_allowed_is_broken_off(make: Make) -> None:
    endless = REPLY | {"answer": "word " * 50_000}
    with serve_openai(speaking(Respond(chat_stream(endless, size=5_000)))) as server:
        memory = await make(model(server))
        await memory.remember_many(HISTORY)
        with pytest.raises(ModelNonsense, match="it was not read") as caught:
            await steps_of(memory)
    assert caught.value.calls[-1].undelivered, "it may be billed all the same"
