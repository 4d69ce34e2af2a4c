"""Copying spaces between stores: everything arrives, interrupted copies go on, both sides agree."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from justmem.cli.app import app
from justmem.domain import EventDate, Quarantined
from justmem.errors import StoreError
from justmem.ports import CardFilter, Store, StoredSession, session_in
from justmem.store.engine import Storage, storage
from justmem.store.files import Keyring
from justmem.transfer import Copied, copy
from justmem.transfer.lines import SessionLine
from store_contract import MAY, all_facts, card, derived, found, remember, session
from stores import append, fail, settle, waiting

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it
DAY = date(2023, 5, 7)


KEYS = Keyring(SecretStr("5f" * 32))
WAYS = (
    *("sqlite to postgres", "postgres to sqlite", "sqlite to sqlite"),
    *("locked to postgres", "postgres to locked"),
)


@pytest.fixture(params=WAYS)
async def sides(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where from and where to."""
    first, _, second = request.param.partition(" to ")
    server = request.getfixturevalue("database_url") if "postgres" in request.param else ""
    places = {"postgres": server, "sqlite": str(tmp_path / "one"), "locked": str(tmp_path / "one")}
    target = places[second] if first != second else str(tmp_path / "two")
    keys = KEYS if "locked" in request.param else None
    one, other = storage(places[first], keys), storage(target, keys)
    yield one, other
    for side in (one, other):
        for space in await side.spaces():
            await (await side.open(space)).forget(everything=True)
        await side.close()


async def filled(store: Store, sessions: int = 6) -> None:
    """A bit of everything that a store can hold."""
    await store.bind("onnx:small", 8)
    for number in range(sessions):
        of = session(f"s{number}", f"turn {number}", "zero and more", at=MAY + timedelta(number))
        await remember(store, of, f"fact {number}", "likes tea")
    odd = session("odd", "I ran.", "How far?")
    held = Quarantined(subject="Ana", fact="owns a yacht", reason="no turn says so")
    cards = (
        card(odd, "ran", kind="event", event_date=EventDate.parse("2023-05")),
        card(odd, "swam", event_date=EventDate.parse("2023-05-01/2023-05-03")),
    )
    await store.keep(odd)
    await settle(store, odd, derived(odd, *cards, quarantined=[held], tokens=9, card_tokens=4))
    await append(store, "odd", session("odd", "I ran a lot.").turns, MAY)  # a turn that waits
    await fail(store, "odd", "the model stayed away")
    await store.keep(session("pending"))
    await store.keep(session("failed", "again and again"))
    await fail(store, "failed", "nonsense")
    await store.forget(cards=[card(session("s1"), "fact 1").id], sessions=["s2"])
    await store.spend(DAY, 120)
    await store.spend(DAY + timedelta(1), 3)


async def test_forgotten_words_are_copied_as_forgotten(sides: Any) -> None:
    one, other = sides
    source = await one.open("ana")
    await source.bind("onnx:small", 8)
    for number in range(3):
        await remember(source, session(f"s{number}", f"turn {number}"), f"fact {number}")
    await source.forget(words=["s0", "s1"])
    await append(source, "s1", session("s1", "more, and waiting").turns, MAY)
    report = await copied(one, other)
    assert (report.sessions, report.cards) == (3, 3)
    target = await other.open("ana")
    assert await target.sessions() == await source.sessions()
    assert await all_facts(target) == await all_facts(source)
    assert await session_in(target, "s0") == await session_in(source, "s0")
    assert [each.id for each in await waiting(target)] == ["s1"]
    assert (await copied(one, other)).brought == 0


async def copied(one: Storage, other: Storage, space: str = "ana") -> Copied:
    left, right = await one.open(space), await other.open(space)
    try:
        return await copy(left, right)
    finally:
        await left.close()
        await right.close()


async def test_everything_arrives(sides: Any) -> None:
    one, other = sides
    source, target = await one.open("ana"), await other.open("ana")
    await filled(source)
    report = await copied(one, other)
    assert (report.sessions, report.brought, report.cards) == (8, 8, 11)
    assert report.forgotten == 1
    assert await target.sessions() == await source.sessions()
    assert await waiting(target) == await waiting(source)
    assert await all_facts(target) == await all_facts(source)
    left, right = [await found(store, "Who ran and likes tea?") for store in (source, target)]
    assert [len(keys) for keys in right] == [len(keys) for keys in left]
    stats = [(await store.metadata()).stats for store in (source, target)]
    assert stats[0].model_copy(update={"bytes": 0}) == stats[1].model_copy(update={"bytes": 0})
    # A card that was forgotten on its own stays forgotten over there too.
    again = session("s1", "said differently", at=MAY + timedelta(1))
    await remember(target, again, "fact 1", "new")
    assert "fact 1" not in [c.fact for c in await target.cards(_of("s1"))]
    await source.close()
    await target.close()


def _of(session_id: str) -> CardFilter:
    return CardFilter(session_id=session_id)


class SwitchedOff(Exception):
    pass


class Interrupted:
    """A target whose machine is switched off after so many batches."""

    def __init__(self, target: Store, batches: int) -> None:
        self._target = target
        self._left = batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    async def put(self, sessions: Sequence[StoredSession], **more: Any) -> None:
        self._left -= bool(sessions)
        if self._left < 0:
            raise SwitchedOff
        await self._target.put(sessions, **more)


async def test_an_interrupted_copy_continues(sides: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("justmem.transfer.BATCH", 2)
    one, other = sides
    source = await one.open("ana")
    await filled(source)
    target = await other.open("ana")
    with pytest.raises(SwitchedOff):
        await copy(source, Interrupted(target, 2))  # type: ignore[arg-type]
    report = await copy(source, target)
    assert report.sessions == 8
    assert 4 <= report.brought < 8
    again = await copy(source, target)
    assert (again.brought, again.digest) == (0, report.digest)
    await source.close()
    await target.close()


async def test_sessions_that_changed_since_are_copied_again(sides: Any) -> None:
    one, other = sides
    source = await one.open("ana")
    await filled(source)
    await copied(one, other)
    await remember(source, session("s0", "No, differently."), "another fact")
    report = await copied(one, other)
    assert report.brought == 1
    target = await other.open("ana")
    assert "another fact" in await all_facts(target)
    assert "fact 0" not in await all_facts(target)
    await source.close()
    await target.close()


async def test_a_target_with_other_sessions_is_not_changed(sides: Any) -> None:
    one, other = sides
    source, target = await one.open("ana"), await other.open("ana")
    await remember(source, session("s1"), "likes tea")
    await remember(target, session("s9"), "likes rain")
    with pytest.raises(StoreError, match="s9"):
        await copied(one, other)
    assert await all_facts(target) == ["likes rain"]
    await source.close()
    await target.close()


async def test_a_difference_in_any_field_is_noticed(sides: Any) -> None:
    """Whatever differs, in whichever field."""
    one, _ = sides
    source = await one.open("ana")
    await filled(source)
    (whole,) = await source.read(["odd"])
    made = whole.derived
    for other in (
        replace(whole, done=1),
        replace(whole, derived=replace(made, reason="")),
        replace(whole, derived=replace(made, tokens=10)),
        replace(whole, derived=replace(made, cards=made.cards[:1])),
        replace(whole, derived=replace(made, card_vectors=made.card_vectors + 1e-3)),
        replace(whole, derived=replace(made, passages=[])),
        replace(whole, derived=replace(made, quarantined=[])),
    ):
        assert SessionLine.of(other, vectors=True) != SessionLine.of(whole, vectors=True)
    await source.close()


def test_the_command_copies_and_reports(database_url: str, tmp_path: Path) -> None:
    async def fill() -> None:
        for space in ("copied one", "copied two"):
            store = await storage(tmp_path).open(space)
            await filled(store, 3)
            await store.close()

    async def clean() -> None:
        place = storage(database_url)
        for space in ("copied one", "copied two"):
            await (await place.open(space)).forget(everything=True)
        await place.close()

    run = CliRunner()
    asyncio.run(fill())
    done = run.invoke(app, ["copy", str(tmp_path), database_url])
    assert done.exit_code == 0, done.output
    assert "the same on both sides" in done.output
    again = run.invoke(app, ["copy", database_url, str(tmp_path / "back"), "--only", "copied one"])
    assert again.exit_code == 0, again.output
    assert "copied one" in again.output
    assert "copied two" not in again.output
    wrong = run.invoke(app, ["copy", "mysql://x", str(tmp_path)])
    assert wrong.exit_code == 2
    asyncio.run(clean())


async def test_forgotten_turns_arrive_as_such_and_stay_forgotten(sides: Any) -> None:
    one, other = sides
    source, target = await one.open("ana"), await other.open("ana")
    of = session("s1", "I play the theremin.", "Oh!")
    await remember(source, of, "plays the theremin")
    await source.forget(turns=[("s1", 1)])
    assert (await copied(one, other)).forgotten == 2  # the turn, and the card that rested on it
    assert await session_in(target, "s1") == of.without([1])
    await remember(target, of.without([1]))
    assert (await target.keep(of)).digest == of.without([1]).digest


async def test_a_copy_does_not_bring_back_what_its_target_has_forgotten(sides: Any) -> None:
    one, other = sides
    source, target = await one.open("ana"), await other.open("ana")
    of = session("s1", "I play the theremin.", "Oh!", "I collect stamps.")
    cards = [card(of, "plays"), card(of, "collects", turns=(3,))]
    await source.keep(of)
    await settle(source, of, derived(of, *cards))
    await append(source, "s1", session("s1", "More.").turns, MAY)
    await copied(one, other)
    await target.forget(turns=[("s1", 1)])
    with pytest.raises(StoreError, match="has forgotten cards or turns"):
        await copied(one, other)
    left, right = await one.open("ana"), await other.open("ana")
    await right.put(await left.read(["s1"]))  # as an import would
    (left_over,) = await waiting(target)
    assert [turn.text for turn in left_over.turns] == ["", "Oh!", "I collect stamps.", "More."]
    assert await all_facts(target) == ["collects"]
    assert (await found(target, "theremin", "passages"))[1] == []
    assert (await found(target, "stamps", "passages"))[1] != []
    for copy_of in (left, right):
        await copy_of.close()


async def test_batches_that_arrive_at_once_are_each_taken_once(sides: Any) -> None:
    one, other = sides
    source, target = await one.open("ana"), await other.open("ana")
    await filled(source, 12)
    left, right = await one.open("ana"), await other.open("ana")
    some = await left.read([f"s{number}" for number in range(12) if number != 2])
    batches = [some[:6], some[3:9], some[6:], some]  # as of copies that know nothing
    await asyncio.gather(*(right.put(batch) for batch in batches))
    ids = sorted(record.id for record in await target.sessions())
    assert ids == sorted(whole.session.id for whole in some)
    expected = sorted(card.id for whole in some for card in whole.derived.cards)
    assert sorted(card.id for card in await target.cards(CardFilter())) == expected
    assert (await target.look()).cards == len(expected)
    assert not (await target.check()).damage
    for copy_of in (left, right):
        await copy_of.close()
