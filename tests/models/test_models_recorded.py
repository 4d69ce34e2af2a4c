"""Replies recorded once and replayed ever after."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path

import pytest

from justmem.errors import InvalidFile, InvalidSetting, ModelUnavailable
from justmem.models.recorded import RecordedModel
from justmem.ports import Prompt
from justmem.testing import ScriptedModel

PROMPT = Prompt(
    stage="plan", system="Plan.", user="Who has a dog?", schema={"type": "object"}, max_tokens=50
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "replies.jsonl"


async def test_a_reply_is_recorded_and_replayed_with_what_it_cost(path: Path):
    live = ScriptedModel(["first"], name="live", context=4096)
    recorded = await RecordedModel(path, live).complete(PROMPT)

    replay = RecordedModel(path)
    replayed = await replay.complete(PROMPT)
    assert (replay.name, replay.context) == ("live", 4096)
    assert replayed.text == "first"
    assert replayed.call.tokens_in == recorded.call.tokens_in > 0
    assert replayed.call.tokens_out == recorded.call.tokens_out > 0
    assert replayed.call.attempts == 0  # nothing was sent


async def test_a_recorded_reply_is_not_asked_for_again(path: Path):
    live = ScriptedModel(["first", "second"])
    model = RecordedModel(path, live)
    await model.complete(PROMPT)
    again = await model.complete(PROMPT)
    later = await RecordedModel(path, live).complete(PROMPT)
    assert [again.text, later.text] == ["first", "first"]
    assert len(live.prompts) == 1


async def test_samples_are_recorded_apart(path: Path):
    model = RecordedModel(path, ScriptedModel(["first", "second"]))
    await model.complete(PROMPT, sample=0)
    await model.complete(PROMPT, sample=1)
    replay = RecordedModel(path)
    assert (await replay.complete(PROMPT, sample=1)).text == "second"
    assert (await replay.complete(PROMPT, sample=0)).text == "first"


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "answer"},
        {"system": "Plan!"},
        {"user": "Who has a cat?"},
        {"schema": {"type": "array"}},
        {"max_tokens": 51},
    ],
)
async def test_any_change_of_the_prompt_is_another_prompt(path: Path, change: dict[str, object]):
    await RecordedModel(path, ScriptedModel(["first"])).complete(PROMPT)
    other = dataclasses.replace(PROMPT, **change)  # type: ignore[arg-type]
    with pytest.raises(ModelUnavailable, match=r"holds 1 replies, but none.*`inner`"):
        await RecordedModel(path).complete(other)


async def test_failures_are_not_recorded(path: Path):
    model = RecordedModel(path, ScriptedModel([ModelUnavailable("away"), "back"]))
    with pytest.raises(ModelUnavailable, match="away"):
        await model.complete(PROMPT)
    assert (await model.complete(PROMPT)).text == "back"


async def test_calls_side_by_side_are_all_kept(path: Path):
    model = RecordedModel(path, ScriptedModel(lambda prompt: prompt.user))
    prompts = [dataclasses.replace(PROMPT, user=f"Question {n}\n“ü”") for n in range(20)]
    await asyncio.gather(*(model.complete(prompt) for prompt in prompts))
    replay = RecordedModel(path)
    assert [(await replay.complete(p)).text for p in prompts] == [p.user for p in prompts]


def tear(path: Path) -> None:
    """What a kill in the middle of a write leaves."""
    path.write_bytes(path.read_bytes()[:-40])


async def test_a_recording_killed_in_the_middle_of_a_line_goes_on(path: Path):
    live = ScriptedModel(["first", "second", "third"])
    model = RecordedModel(path, live)
    await model.complete(PROMPT, sample=0)
    await model.complete(PROMPT, sample=1)
    tear(path)

    resumed = RecordedModel(path, live)
    assert (await resumed.complete(PROMPT, sample=0)).text == "first"
    assert (await resumed.complete(PROMPT, sample=1)).text == "third"
    assert (await RecordedModel(path).complete(PROMPT, sample=1)).text == "third"


def test_a_recording_that_is_none_is_refused_at_once(path: Path):
    with pytest.raises(InvalidSetting, match="no recorded replies"):
        RecordedModel(path)
    path.parent.mkdir()
    path.write_text(json.dumps({"something": "else"}) + "\n")
    with pytest.raises(InvalidFile, match="not a recording"):
        RecordedModel(path)
