"""evidence.prompt: the block for a model's prompt."""

from __future__ import annotations

import re

from justmem.runtime import tokens
from stories import HISTORY, Make


async def test_the_block_has_the_date_and_dated_and_sourced_lines(make: Make) -> None:
    memory = await make()
    await memory.remember_many(HISTORY)
    evidence = await memory.recall("What did my gravel bike cost?", at="2024-06-01T12:00")
    lead, opening, *lines, closing = evidence.prompt().splitlines()
    assert lead.startswith("Today is Saturday 2024-06-01.")
    mark = re.fullmatch(r"<memory-(\d{9})>", opening)
    assert mark
    assert closing == f"</memory-{mark[1]}>"
    days = [line for line in lines if re.match(r"\d{4}-\d\d-\d\d \[[^]]+]$", line)]
    told = [line for line in lines if re.match(r"#\d+ ", line)]
    assert len(told) == len(evidence.cards)
    assert len(days) + len(told) == len(lines)
    assert any("1,450 euros" in line for line in lines)
    assert evidence.prompt().splitlines()[1] != opening  # another tag each time


async def test_a_card_takes_less_than_thirty_tokens(make: Make) -> None:
    memory = await make()
    await memory.remember_many(HISTORY)
    evidence = await memory.recall("What did my gravel bike cost?", at="2024-06-01T12:00")
    lines = evidence.prompt().splitlines()[2:-1]
    assert tokens.count("\n".join(lines)) < 30 * len(lines)


async def test_the_block_is_cut_by_tokens_and_empty_without_evidence(make: Make) -> None:
    memory = await make()
    await memory.remember_many(HISTORY)
    evidence = await memory.recall("What did my gravel bike cost?", at="2024-06-01T12:00")
    whole = tokens.count(evidence.prompt())
    for room in (whole, whole - 1, 120, 10):
        assert tokens.count(evidence.prompt(room)) <= room
    assert evidence.prompt(10) == ""
    assert (await memory.recall("hi")).prompt() == ""
