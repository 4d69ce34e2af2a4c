"""The two faces, the embedder's identity, and questions that are not questions."""

import inspect
import itertools
from datetime import datetime
from pathlib import Path

import pytest

from justmem import AsyncMemory, Memory
from justmem.errors import (
    EmbedderMismatch,
    InputError,
    InvalidQuestion,
    StoreError,
)
from justmem.memory_parts import Parts
from justmem.store.sqlite import open_store
from justmem.testing import HashEmbedder
from stories import HISTORY, NOW, RUN, Make, by_model, extract_history, plan, scripted


def public(kind: type) -> dict[str, str]:
    return {
        name: str(inspect.signature(member)).replace("AsyncGenerator", "Iterator")
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_synchronous_face_has_every_method_with_its_signature() -> None:
    assert public(Memory) == public(AsyncMemory)


def test_the_synchronous_face_remembers_and_asks(tmp_path: Path) -> None:
    import asyncio

    model = scripted(
        extract=extract_history,
        plan=plan(),
        answer={"answer": "1:58", "used": ["1"], "sufficient": True},
    )
    store = asyncio.run(open_store(tmp_path, "sync"))
    parts = Parts(HashEmbedder(512), **by_model(model))
    with Memory(AsyncMemory(store, parts)) as memory:
        memory.remember_many(HISTORY)
        assert memory.ask("How fast was my half marathon?", at=NOW).text == "1:58"
        assert len(memory.cards(kind="event")) == 3
    with pytest.raises(StoreError, match="closed"):
        memory.stats()
    memory.close()  # closing twice is fine


async def test_another_embedder_is_a_clear_error_and_reembed_repairs_it(make: Make) -> None:
    model = scripted(extract=extract_history, plan=plan())
    memory = await make(model)
    await memory.remember_many(HISTORY)
    await memory.close()

    other = await make(model, embedder=HashEmbedder(64))
    with pytest.raises(EmbedderMismatch, match="reembed"):
        await other.recall("half marathon", at=NOW)
    with pytest.raises(EmbedderMismatch):
        await other.remember(RUN)

    assert await other.reembed() == 7 + 9  # cards and turns
    evidence = await other.recall("half marathon", at=NOW)
    assert "half marathon" in evidence.cards[0].fact


@pytest.mark.parametrize("question", ["", "   ", "\n", None, 7])
async def test_an_empty_question_is_refused(make: Make, question: object) -> None:
    memory = await make(scripted())
    with pytest.raises(InvalidQuestion):
        await memory.ask(question)


async def test_an_absurdly_long_question_is_refused_and_a_long_one_is_not(make: Make) -> None:
    model = scripted(extract=extract_history, plan=plan())
    memory = await make(model)
    await memory.remember_many(HISTORY)
    with pytest.raises(InvalidQuestion, match="remember"):
        await memory.recall("x" * 100_001)
    await memory.recall("How fast was my half marathon? " * 1000, at=NOW)
    assert len(model.prompts[-1].user) < 3000, "the planner reads its two ends"


async def test_without_a_time_it_is_now(make: Make) -> None:
    memory = await make(clock=lambda: datetime(2025, 3, 8, 9, 30, 15, 250))
    done = await memory.remember("I moved to Ghent.")
    (card,) = await memory.cards()
    assert card.said_at == datetime(2025, 3, 8, 9, 30, 15, 250)
    assert (await memory.session(done.session_id)).turns[0].role == "user"
    assert (await memory.recall("Where did I move?")).at == datetime(2025, 3, 8, 9, 30, 15, 250)


async def test_the_own_time_of_a_session_wins_over_now(make: Make) -> None:
    memory = await make(clock=lambda: datetime(2025, 3, 8))
    await memory.remember({"at": "2024-05-20", "turns": [{"role": "user", "content": "I ran."}]})
    assert [f"{record.at:%Y-%m-%d}" for record in await memory.sessions()] == ["2024-05-20"]


async def test_a_session_known_by_its_id_keeps_its_time(make: Make) -> None:
    seconds = itertools.count()
    memory = await make(clock=lambda: datetime(2025, 3, 8, second=next(seconds)))
    first = await memory.remember("I moved to Ghent.", id="move")
    again = await memory.remember("I moved to Ghent.", id="move")
    assert (first.unchanged, again.unchanged) == (False, True)


@pytest.mark.parametrize("where", [{"kind": "bogus"}, {"status": "bogus"}])
async def test_an_unknown_kind_or_status_is_an_error(make: Make, where: dict[str, str]) -> None:
    memory = await make()
    with pytest.raises(InputError, match="choose one of"):
        await memory.cards(**where)


async def test_a_model_that_answers_in_prose_is_taken_at_its_word_and_cited(make: Make) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(),
        answer="You ran your first half marathon in 1:58.",
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)
    answer = await memory.ask("How fast was my half marathon?", at=NOW)
    assert answer.text == "You ran your first half marathon in 1:58."
    assert "1:58" in answer.citations[0].quote


async def test_a_model_cannot_cite_what_it_was_not_shown(make: Make) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(),
        answer={"answer": "1:58", "used": ["99", "s7.1", "1"], "sufficient": True},
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)
    answer = await memory.ask("How fast was my half marathon?", at=NOW)
    assert len(answer.citations) == 1
    assert any("2 citations named no evidence" in note for note in answer.receipt.notes)
