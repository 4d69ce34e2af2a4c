"""The audit of a memory: whose name stands there, what is entered, and what tampering shows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from justmem import AsyncMemory
from justmem.domain import Checked
from justmem.errors import NotInMemory, StoreError
from justmem.stores.opening import open_store
from stories import BIKE, HISTORY, NOW, RUN, Make, extract_history, scripted

MODEL = scripted(extract=extract_history)


def clock() -> datetime:
    return datetime(2024, 6, 1, 12, 0, tzinfo=UTC)


async def lines(memory: AsyncMemory) -> list[str]:
    return [f"{entry.actor} {entry.verb}" for entry in await memory.audit()]


async def test_what_was_read_and_written_stands_under_the_name_of_who_did_it(make: Make) -> None:
    memory = await make(
        MODEL,
        clock=clock,
        actor="ana",
        planner=_rules("planner"),
        answerer=_rules("answerer"),
    )
    await memory.remember(BIKE)
    ben = memory.by("ben")
    evidence = await ben.recall("What did the bike cost?", at=NOW)
    await ben.ask("What did the bike cost?", at=NOW)
    (first, _) = await memory.cards(session="bike")
    await ben.source(first.id)
    await ben.card("bike#3")
    await ben.session("bike")
    await ben.quarantined("bike")
    await ben.waiting()
    await ben.about("bike")
    [line async for line in ben.export()]
    await ben.forget(card=first.id)
    await memory.reembed()
    assert await lines(memory) == [
        "ana keep", "ana settle", "ben recall", "ben ask", "ana cards", "ben source", "ben card",
        "ben session", "ben quarantined", "ben waiting", "ben about", "ben export", "ben forget",
        "ana reembed",
    ]  # fmt: skip
    recalled = (await memory.audit())[2]
    assert recalled.counts["cards"] == len(evidence.cards)
    assert recalled.at == clock()


def _rules(stage: str) -> object:
    from stories import by_rules

    return by_rules()[stage]


async def test_following_an_answer_is_reading_even_if_it_is_left_halfway(make: Make) -> None:
    memory = await make()
    await memory.remember(RUN)
    steps = memory.follow("What hurts?", at=NOW)
    async for _ in steps:
        break
    await steps.aclose()
    assert "program ask" not in await lines(memory)  # the plan alone shows nothing
    async for step in memory.follow("What hurts?", at=NOW):
        if not isinstance(step, str):
            continue
        break
    assert (await lines(memory))[-1] == "program ask"


async def test_no_word_of_memory_or_of_a_question_is_in_the_audit(make: Make) -> None:
    memory = await make()
    await memory.remember_many(HISTORY)
    await memory.ask("Which zither did I not buy in Kyoto?", at=NOW)
    await memory.about("Kyoto")
    await memory.forget(session="kyoto")
    text = "".join(entry.model_dump_json() for entry in await memory.audit()).lower()
    assert not [word for word in ("kyoto", "zither", "garden", "user", "bike") if word in text]


async def test_who_has_seen_a_card_can_be_asked(make: Make) -> None:
    memory = await make(MODEL)
    await memory.remember(BIKE)
    (bought, joined) = await memory.by("ana").cards()
    await memory.by("ben").source(joined.id)
    assert [entry.actor for entry in await memory.audit(of=joined.id)] == ["program", "ana", "ben"]
    assert [entry.actor for entry in await memory.audit(of=bought.id)] == ["program", "ana"]
    assert [entry.verb for entry in await memory.audit(of="bike")] == ["keep", "settle", "source"]
    await memory.forget(session="bike")
    assert [entry.verb for entry in await memory.audit(of="bike")][-1] == "forget"


async def test_an_entry_names_a_hundred_things_at_most(make: Make) -> None:
    turns = [{"role": "user", "content": f"I like the number {n}."} for n in range(120)]
    memory = await make()
    await memory.remember({"id": "long", "at": "2024-03-11T18:00", "turns": turns})
    found = await memory.cards()
    assert len(found) > 100
    entry = (await memory.audit())[-1]
    assert (entry.targets, entry.counts) == ((), {"cards": len(found)})


async def test_the_audit_is_paged_backwards(make: Make) -> None:
    memory = await make()
    await memory.remember(RUN)
    for _ in range(5):
        await memory.cards()
    page = await memory.audit(limit=3)
    assert [entry.number for entry in page] == [5, 6, 7]
    assert [e.number for e in await memory.audit(limit=3, before=page[0].number)] == [2, 3, 4]


# ---------------------------------------------------------------- where nothing can be written


async def test_a_store_that_cannot_be_written_is_still_read(make: Make, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "memory", "test")
    memory = await make(MODEL, store=store, planner=_rules("planner"))
    await memory.remember(BIKE)
    writer = store._db._writer
    writer.execute("PRAGMA query_only = ON")
    evidence = await memory.recall("What did the bike cost?", at=NOW)
    assert evidence.cards
    assert [entry.verb for entry in await memory.audit()] == ["keep", "settle"]
    with pytest.raises(StoreError):
        await memory.remember(RUN)
    writer.execute("PRAGMA query_only = OFF")
    await memory.stats()
    assert [entry.verb for entry in await memory.audit()] == ["keep", "settle", "recall"]


async def test_a_reader_does_not_wait_for_another_process_that_writes(
    make: Make, tmp_path: Path
) -> None:
    memory = await make(MODEL)
    await memory.remember(BIKE)
    with closing(sqlite3.connect(tmp_path / "memory" / "test.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await memory.cards()  # its entry waits, it does not
        other.execute("ROLLBACK")
    assert (await lines(memory))[-1] == "program cards"


# ---------------------------------------------------------------- tampering


Tamper = Callable[[sqlite3.Connection], object]


async def tampered(make: Make, tmp_path: Path, *statements: str) -> tuple[str, Checked, Checked]:
    """The hash of the last entry before, and what checking says without and with it."""
    memory = await make(MODEL)
    await memory.remember_many(HISTORY)
    last = (await memory.audit())[-1].hash
    await memory.close()
    with closing(sqlite3.connect(tmp_path / "memory" / "test.db")) as db, db:
        for name in ("audit_is_not_changed", "audit_is_not_cut"):
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
    again = await make(MODEL)
    return last, await again.check_audit(), await again.check_audit(last=last)


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'nobody'",
        "verb = 'fail'",
        "at = '2020-01-01T00:00:00.000+00:00'",
        "at = 'never'",
        "targets = ''",
        """counts = '{"turns": 1}'""",
        "counts = 'none'",
        "hash = iif(hash LIKE '0%', '1', '0') || substr(hash, 2)",
    ],
)
async def test_an_edited_entry_is_named(make: Make, tmp_path: Path, change: str) -> None:
    _, checked, _ = await tampered(make, tmp_path, f"UPDATE audit SET {change} WHERE number = 3")
    assert (checked.whole, checked.entries) == (False, 2)
    assert checked.problem == "entry 3 was changed"


async def test_an_entry_taken_out_is_missed(make: Make, tmp_path: Path) -> None:
    _, checked, _ = await tampered(make, tmp_path, "DELETE FROM audit WHERE number IN (3, 4)")
    assert checked.problem == "missing: 3 to 4, before entry 5"


async def test_closing_the_gap_breaks_the_chain(make: Make, tmp_path: Path) -> None:
    _, checked, _ = await tampered(
        make,
        tmp_path,
        "DELETE FROM audit WHERE number = 3",
        "UPDATE audit SET number = number - 1 WHERE number > 3",
    )
    assert checked.problem == "entry 3 does not follow the one before it"


async def test_a_first_entry_taken_out_is_missed(make: Make, tmp_path: Path) -> None:
    _, checked, _ = await tampered(make, tmp_path, "DELETE FROM audit WHERE number = 1")
    assert checked.problem == "missing: 1, before entry 2"


async def test_a_cut_end_shows_only_to_who_kept_the_last_hash(make: Make, tmp_path: Path) -> None:
    last, alone, kept = await tampered(make, tmp_path, "DELETE FROM audit WHERE number > 4")
    assert (alone.whole, alone.entries) == (True, 4)  # this is the limit of a chain
    assert not kept.whole
    assert last in kept.problem


async def test_a_log_that_was_left_alone_is_whole_and_goes_on(make: Make) -> None:
    memory = await make(MODEL)
    await memory.remember_many(HISTORY)
    first = await memory.check_audit()
    assert (first.whole, first.entries) == (True, 6)
    await memory.cards()
    second = await memory.check_audit(last=first.last)
    assert (second.whole, second.entries) == (True, 7)
    assert second.last != first.last


def test_the_file_refuses_to_have_the_audit_changed_by_mistake(tmp_path: Path) -> None:
    import asyncio

    async def keep() -> None:
        store = await open_store(tmp_path, "ana")
        await store.close()

    asyncio.run(keep())
    with closing(sqlite3.connect(tmp_path / "ana.db")) as db:
        db.execute("INSERT INTO audit VALUES (1, '', '', '', '', '', '', '')")
        for statement in ("UPDATE audit SET actor = 'x'", "DELETE FROM audit"):
            with pytest.raises(sqlite3.IntegrityError, match="only added to"):
                db.execute(statement)


# ---------------------------------------------------------------- the end


async def test_the_log_survives_forgetting_and_ends_with_the_space(make: Make) -> None:
    memory = await make(MODEL)
    await memory.remember(BIKE)
    gone = await memory.forget(session="bike")
    assert gone.entry == (await memory.audit())[-1]
    assert (gone.entry.verb, gone.entry.counts["cards"]) == ("forget", 2)
    last = await memory.forget(everything=True)
    assert (last.entry.verb, last.entry.before) == ("erase", gone.entry.hash)
    fresh = await make(MODEL)
    assert await fresh.audit() == []


async def test_what_is_not_there_leaves_no_trace_of_having_been_read(make: Make) -> None:
    memory = await make()
    with pytest.raises(NotInMemory):
        await memory.source("c123")
    assert await memory.audit() == []
