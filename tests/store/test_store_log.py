"""The change log: whose name stands there, what is entered, and what tampering shows."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from justmem import AsyncMemory, acting_as
from justmem.domain import Checked
from justmem.errors import NotInMemory
from stories import BIKE, HISTORY, NOW, RUN, Make, by_rules, extract_history, scripted

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it
MODEL = scripted(extract=extract_history)
NOON = datetime(2024, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgres"])
async def memory(request: pytest.FixtureRequest, make: Make) -> Any:
    if request.param == "sqlite":
        yield await make(MODEL, clock=lambda: NOON)
        return
    from justmem.store.postgres import open_store as open_postgres

    store = await open_postgres(request.getfixturevalue("database_url"), "logged")
    found = await make(MODEL, store=store, clock=lambda: NOON)
    yield found
    await store.forget(everything=True)


async def lines(memory: AsyncMemory) -> list[str]:
    return [f"{entry.actor} {entry.verb}" for entry in await memory.log()]


async def test_changes_stand_under_the_name_of_who_made_them(memory: AsyncMemory) -> None:
    await memory.remember(BIKE)
    with acting_as("ben"):
        (first, _) = await memory.cards(session="bike")
        await memory.forget(card=first.id)
    await memory.reembed()
    await memory.recall("What did the bike cost?", at=NOW)
    assert await lines(memory) == [
        "program keep", "program settle", "ben forget", "program reembed",
    ]  # fmt: skip
    _, settled, forgotten, _ = await memory.log()
    assert (settled.at, dict(settled.counts)) == (NOON, {"cards": 2})
    assert settled.targets[0] == "bike"
    assert forgotten.targets == (first.id,)
    assert (await memory.check_log()).whole


async def test_tasks_at_the_same_time_keep_their_names(make: Make) -> None:
    memory = await make(MODEL)

    async def remember(name: str) -> None:
        with acting_as(name):
            await memory.remember({**RUN, "id": name})

    names = [f"actor {number}" for number in range(8)]
    await asyncio.gather(*map(remember, names))
    for name in names:
        assert {entry.actor for entry in await memory.log(of=name)} == {name}
    assert (await memory.check_log()).entries == 16


async def test_several_processes_write_one_chain(make: Make) -> None:
    one, other = await make(MODEL), await make(MODEL)
    for number in range(6):
        await (one, other)[number % 2].keep({**RUN, "id": f"s{number}"})
    await asyncio.gather(*(m.keep({**RUN, "id": f"t{n}"}) for n in range(5) for m in (one, other)))
    checked = await one.check_log()
    assert (checked.problem, checked.entries > 10) == ("", True)


async def test_what_changes_nothing_leaves_no_entry(memory: AsyncMemory) -> None:
    await memory.remember(BIKE)
    before = await memory.log()
    assert (await memory.remember(BIKE)).unchanged
    with pytest.raises(NotInMemory):
        await memory.forget(session="never there")
    await memory.expire(at=NOW)
    assert await memory.log() == before


async def test_reads_are_entered_on_request(make: Make) -> None:
    memory = await make(MODEL, log_reads=True, **by_rules())
    await memory.remember(BIKE)
    (bought, joined) = await memory.cards()
    with acting_as("ben"):
        await memory.source(joined.id)
        await memory.recall("What did the bike cost?", at=NOW)
    named = [entry for entry in await memory.log(of=joined.id) if entry.verb == "read"]
    assert [actor for actor, _ in groupby(entry.actor for entry in named)] == ["program", "ben"]
    assert "ben" in {entry.actor for entry in await memory.log(of=bought.id)}
    assert [line async for line in memory.export()]
    assert (await memory.log())[-1].targets == ("bike",)


async def test_no_word_of_memory_or_of_a_question_is_in_the_log(make: Make) -> None:
    memory = await make(log_reads=True)
    await memory.remember_many(HISTORY)
    await memory.ask("Which zither did I not buy in Kyoto?", at=NOW)
    await memory.about("garden")
    await memory.forget(subject="User")
    text = "".join(entry.model_dump_json() for entry in await memory.log()).lower()
    assert not [word for word in ("zither", "garden", "user", "gravel") if word in text]


async def test_an_entry_names_a_hundred_things_at_most(make: Make) -> None:
    turns = [{"role": "user", "content": f"I like the number {n}."} for n in range(120)]
    memory = await make()
    await memory.remember({"id": "long", "at": "2024-03-11T18:00", "turns": turns})
    entry = (await memory.log())[-1]
    assert (entry.targets, entry.counts["cards"] > 100) == ((), True)


async def test_the_log_is_paged_backwards_and_filtered(make: Make) -> None:
    memory = await make(MODEL, clock=lambda: NOON)
    for number in range(7):
        await memory.keep({**RUN, "id": f"s{number}"})
    page = await memory.log(limit=3)
    assert [entry.number for entry in page] == [5, 6, 7]
    assert [e.number for e in await memory.log(limit=3, before=page[0].number)] == [2, 3, 4]
    assert [entry.number for entry in await memory.log(of="s3")] == [4]
    assert len(await memory.log(since=NOON)) == 7
    assert await memory.log(since=NOON + timedelta(seconds=1)) == []


async def test_a_session_with_a_name_that_json_escapes_is_found(make: Make) -> None:
    memory = await make(MODEL)
    name = 'Zoë "and" \\ \N{PILE OF POO}'
    await memory.keep({**RUN, "id": name})
    assert [entry.targets for entry in await memory.log(of=name)] == [(name,)]
    assert (await memory.check_log()).whole


# ---------------------------------------------------------------- tampering


async def tampered(make: Make, tmp_path: Path, *statements: str) -> tuple[str, Checked, Checked]:
    """The hash of the last entry before, and what checking says without and with it."""
    memory = await make(MODEL)
    await memory.remember_many(HISTORY)
    last = (await memory.log())[-1].hash
    await memory.close()
    with closing(sqlite3.connect(tmp_path / "memory" / "test.db")) as db, db:
        for statement in statements:
            db.execute(statement)
    again = await make(MODEL)
    return last, await again.check_log(), await again.check_log(last=last)


@pytest.mark.parametrize(
    "change",
    [
        """replace(entry, '"actor":"program"', '"actor":"nobody"')""",
        """replace(entry, '"verb":"', '"verb":"un')""",
        """replace(entry, '"turns":3', '"turns":2')""",
        """replace(entry, '"hash":"', '"hash":"0')""",
        "'none'",
        "''",
    ],
)
async def test_an_edited_entry_is_named(make: Make, tmp_path: Path, change: str) -> None:
    edit = f"UPDATE log SET entry = {change} WHERE number = 1"
    _, checked, _ = await tampered(make, tmp_path, edit)
    assert (checked.whole, checked.entries) == (False, 0)
    assert checked.problem == "entry 1 was changed"


async def test_an_entry_taken_out_is_missed(make: Make, tmp_path: Path) -> None:
    _, checked, _ = await tampered(make, tmp_path, "DELETE FROM log WHERE number IN (3, 4)")
    assert checked.problem == "missing: 3 to 4, before entry 5"


async def test_a_cut_end_shows_only_to_who_kept_the_last_hash(make: Make, tmp_path: Path) -> None:
    last, alone, kept = await tampered(make, tmp_path, "DELETE FROM log WHERE number > 4")
    assert (alone.whole, alone.entries) == (True, 4)  # this is the limit of a chain
    assert not kept.whole
    assert last in kept.problem


async def test_an_entry_that_was_rewritten_breaks_the_chain(make: Make, tmp_path: Path) -> None:
    swap = "UPDATE log SET entry = (SELECT entry FROM log WHERE number = 4) WHERE number = 3"
    _, checked, _ = await tampered(make, tmp_path, swap)
    assert not checked.whole


# ---------------------------------------------------------------- the end


async def test_the_log_survives_forgetting_and_ends_with_the_space(make: Make) -> None:
    memory = await make(MODEL)
    await memory.remember(BIKE)
    gone = await memory.forget(session="bike")
    assert gone.entry is not None
    assert gone.entry == (await memory.log())[-1]
    assert (gone.entry.verb, gone.entry.counts["cards"]) == ("forget", 2)
    last = await memory.forget(everything=True)
    assert last.entry is not None
    assert (last.entry.verb, last.entry.before) == ("erase", gone.entry.hash)
    assert last.entry.hash == last.entry.digest
    fresh = await make(MODEL)
    assert await fresh.log() == []
