"""Batch models: calls collected, sent as one file, waited for, and taken up again after a kill."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from batch_server import Batches, serve_batches
from eval_server import SPENT, described, played

from justmem.errors import ModelUnavailable
from justmem.ports import Prompt
from justmem_eval import batch, runs
from justmem_eval.batch import BatchModel
from justmem_eval.loopback import Request, chat_body
from justmem_eval.models import Cap, CapReached
from justmem_eval.records import Lines, Reply
from justmem_eval.results import measured


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "QUIET", 0.05)
    monkeypatch.setattr(batch, "POLL", 0.01)


def echo(request: Request) -> dict[str, object]:
    return chat_body(request.body["messages"][1]["content"].upper(), usage=(10, 2))


def asked(text: str) -> Prompt:
    return Prompt("answer", "Say it.", text, {}, 50)


def model(served: Batches, folder: Path, cap: Cap | None = None) -> BatchModel:
    replies = Lines(folder / "replies.jsonl", Reply)
    return BatchModel(
        f"batch:small@{served.url}", replies, cap or Cap(None), folder / "batches.jsonl"
    )


async def test_calls_made_together_are_one_batch(tmp_path: Path) -> None:
    with serve_batches(echo) as served:
        own = model(served, tmp_path)
        said = await asyncio.gather(*(own.complete(asked(text)) for text in ("a", "b", "c")))
        assert [each.text for each in said] == ["A", "B", "C"]
        assert said[0].call.tokens_in == 10
        assert [len(lines) for lines in served.requests()] == [3]
        assert (await own.complete(asked("b"))).call.attempts == 0  # it is known already
        assert len(served.batches) == 1
        await own.complete(asked("b"), sample=2)  # another sample is another call
        assert len(served.batches) == 2
        await own.close()


async def test_a_batch_of_a_killed_process_is_waited_for_and_not_paid_again(tmp_path: Path) -> None:
    ledger = tmp_path / "spent.txt"
    with serve_batches(echo, polls=10**6) as served:
        own = model(served, tmp_path, Cap(None, ledger))
        task = asyncio.create_task(own.complete(asked("a")))
        await asyncio.to_thread(served.looked.wait)
        task.cancel()
        await own.close()
        served.batches["batch_0"]["left"] = 0
        cap = Cap(None, ledger)
        again = model(served, tmp_path, cap)
        assert (await again.complete(asked("a"))).text == "A"
        assert len(served.batches) == 1
        assert cap.spent == 12
        await again.close()


async def test_a_batch_that_could_pass_the_cap_is_not_sent(tmp_path: Path) -> None:
    with serve_batches(echo) as served:
        own = model(served, tmp_path, Cap(100))
        with pytest.raises(CapReached):
            await asyncio.gather(*(own.complete(asked(text)) for text in ("a", "b")))
        assert not served.batches
        await own.close()


async def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with serve_batches(echo) as served:
        gone = served.url
    own = BatchModel(f"batch:small@{gone}", Lines(tmp_path / "r", Reply), Cap(None), tmp_path / "b")
    with pytest.raises(ModelUnavailable, match="did not answer"):
        await own.complete(asked("a"))
    await own.close()


def test_a_run_with_a_batch_model_sends_a_few_large_batches(data: Path, tmp_path: Path) -> None:
    with serve_batches(played) as served:
        name = f"batch:small@{served.url}"
        given = described(data, model=name, judge=name, runs=2)
        asyncio.run(runs.run(given, tmp_path / "run", tmp_path / "c"))
        sizes = [len(lines) for lines in served.requests()]
    found = measured(tmp_path / "run", given.benchmark)
    assert found.errors == {}
    assert found["accuracy"].n == 15
    assert found["tokens.construction"].value == 4 * SPENT
    # Cards, plans, two runs of answers, each judged by two judges, and their planted answers.
    assert sum(sizes) == 4 + 17 + 2 * 17 + 2 * 2 * 15 + 2 * 4
    assert len(sizes) < 20
