"""What every store must do for the audit. Part of the contract in store_contract.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from justmem import auditing
from justmem.domain import Card as _Card
from justmem.domain import Passage, Quarantined, Session, SessionState, Turn, card_id
from justmem.errors import NotInMemory
from justmem.ports import Author, Digested, EntryFilter, Store

OpenSpace = Callable[..., Awaitable[Any]]
NOON = datetime(2024, 6, 1, 12, 0, tzinfo=UTC)


def said(id: str = "s1", text: str = "I adopted a kitten.") -> Session:
    return Session(id=id, at=datetime(2023, 5, 7), turns=(Turn(speaker="Ana", text=text),))


def made(of: Session, fact: str = "adopted a kitten") -> Digested:
    """One card and one passage, without vectors."""
    card = _Card(
        id=card_id(of.id, "Ana", fact),
        subject="Ana",
        fact=fact,
        session_id=of.id,
        said_at=of.at,
        turns=(1,),
    )
    held = Quarantined(subject="Ana", fact="owns a yacht", reason="no turn says so")
    whole = Passage(session_id=of.id, turn=1, start=0, end=len(of.turns[0].text))
    return Digested(state=SessionState.STORED, cards=[card], passages=[whole], quarantined=[held])


def author(actor: str = "ana", **options: Any) -> Author:
    return Author(actor, lambda: NOON, **options)


async def logged(store: Store) -> list[tuple[str, str, dict[str, int]]]:
    return [(e.actor, e.verb, dict(e.counts)) async for e in auditing.entries(store)]


class AuditContract:
    async def test_each_change_leaves_its_entry(self, open_space: OpenSpace) -> None:
        store = (await open_space()).by(author())
        await store.keep(said())
        await store.fail("s1", "the model stayed away")
        await store.settle(said(), made(said()))
        await store.forget(cards=[card_id("s1", "Ana", "adopted a kitten")])
        await store.by(author("ben")).forget(sessions=["s1"])
        await store.replace_vectors("other", 4, {})
        assert await logged(store) == [
            ("ana", "keep", {"turns": 1}),
            ("ana", "fail", {}),
            ("ana", "settle", {"cards": 1, "quarantined": 1}),
            ("ana", "forget", {"cards": 1, "sessions": 0, "turns": 0}),
            ("ben", "forget", {"cards": 0, "sessions": 1, "turns": 1, "quarantined": 1}),
            ("ana", "reembed", {"texts": 0}),
        ]

    async def test_what_changes_nothing_leaves_no_entry(self, open_space: OpenSpace) -> None:
        store = (await open_space()).by(author())
        await store.keep(said())
        await store.settle(said(), made(said()))
        before = await logged(store)
        await store.keep(said())
        await store.fail("s1", "too late")
        await store.forget()
        with pytest.raises(NotInMemory):
            await store.forget(sessions=["s1", "s9"])
        assert await logged(store) == before
        await store.keep(said(text="I adopted two kittens."))
        await store.keep(said(text="I adopted two kittens."))
        await store.keep(said())
        assert [verb for _, verb, _ in await logged(store)] == ["keep", "settle", "keep", "keep"]

    async def test_a_change_that_fails_leaves_neither_itself_nor_an_entry(
        self, open_space: OpenSpace
    ) -> None:
        store = (await open_space()).by(author())
        with pytest.raises(NotInMemory):
            await store.settle(said(), made(said()))
        assert await logged(store) == []

    async def test_entries_are_chained_and_hold_no_words_nor_ids(
        self, open_space: OpenSpace
    ) -> None:
        store = (await open_space()).by(author("Zoë \0 \N{PILE OF POO}"))
        await store.keep(said("holiday-with-ben"))
        await store.settle(said("holiday-with-ben"), made(said("holiday-with-ben")))
        first, second = [entry async for entry in auditing.entries(store)]
        assert (first.number, first.before, second.before) == (1, "", first.hash)
        assert (first.hash, second.hash) == (first.digest, second.digest)
        assert (first.at, first.actor) == (NOON, "Zoë \0 \N{PILE OF POO}")
        assert len(second.targets) == 2
        assert "holiday" not in first.model_dump_json() + second.model_dump_json()
        assert (await auditing.check(store, second.hash)).whole

    async def test_entries_are_found_by_what_they_are_about(self, open_space: OpenSpace) -> None:
        store = (await open_space()).by(author())
        for id in ("s1", "s2"):
            await store.keep(said(id))
            await store.settle(said(id), made(said(id)))
        store.note(author("ben").did("source", [card_id("s2", "Ana", "adopted a kitten")]))

        async def found(**where: Any) -> list[int]:
            return [entry.number for entry in await store.entries(EntryFilter(**where))]

        assert await found(target="s1") == [1, 2]
        assert await found(target=card_id("s2", "Ana", "adopted a kitten")) == [4, 5]
        assert await found(target="s9") == []
        assert await found(after=1, before=4) == [2, 3]
        assert await found(latest=True, limit=2) == [4, 5]
        assert await found(limit=2) == [1, 2]
        assert await found(since=NOON) == [1, 2, 3, 4, 5]
        assert await found(since=NOON + timedelta(seconds=1)) == []

    async def test_two_spaces_mark_the_same_id_differently(self, open_space: OpenSpace) -> None:
        marks = []
        for space in ("ana", "ben"):
            store = (await open_space(space)).by(author())
            await store.keep(said())
            marks += (await store.entries(EntryFilter()))[0].targets
        assert len(set(marks)) == 2

    async def test_what_was_read_is_entered_beside_the_reading(self, open_space: OpenSpace) -> None:
        store = (await open_space()).by(author())
        for number in range(50):
            store.note(author(f"reader {number}").did("recall", cards=number))
        assert [counts["cards"] for _, _, counts in await logged(store)] == list(range(50))
        store.note(author().did("ask"))
        await store.close()
        again = await open_space()
        assert len(await logged(again)) == 51
        assert (await auditing.check(again, None)).whole

    async def test_a_change_is_entered_after_what_was_read_before_it(
        self, open_space: OpenSpace
    ) -> None:
        store = (await open_space()).by(author())
        await store.keep(said())
        for change in (
            store.fail("s1", "the model stayed away"),
            store.settle(said(), made(said())),
            store.replace_vectors("other", 4, {}),
            store.forget(sessions=["s1"]),
            store.keep(said()),
        ):
            store.note(author().did("ask", ["s1"]))
            await change
        verbs = [verb for _, verb, _ in await logged(store)]
        assert verbs[1::2] == ["ask"] * 5
        changes = ["keep", "fail", "settle", "reembed", "forget", "keep"]
        assert verbs[0::2] == changes

    async def test_many_names_write_one_chain(self, open_space: OpenSpace) -> None:
        one, other = await open_space(), await open_space()
        for number in range(6):
            store = (one, other)[number % 2].by(author(f"actor {number}"))
            await store.keep(said(f"s{number}"))
            store.note(author(f"reader {number}").did("ask"))
        await other.entries(EntryFilter())
        checked = await auditing.check(one, None)
        assert (checked.entries, checked.problem) == (12, "")

    async def test_a_setting_leaves_entries_out_but_never_forgetting(
        self, open_space: OpenSpace
    ) -> None:
        store = await open_space()
        quiet = store.by(author(audit="off"))
        await quiet.keep(said())
        quiet.note(author(audit="writes").did("recall"))
        await quiet.forget(sessions=["s1"])
        assert [verb for _, verb, _ in await logged(store)] == ["forget"]

    async def test_erasing_a_space_takes_its_audit_and_gives_back_the_last_entry(
        self, open_space: OpenSpace
    ) -> None:
        store = (await open_space()).by(author())
        await store.keep(said())
        store.note(author("ben").did("recall"))
        gone = await store.erase()
        assert (gone.sessions, gone.entry.verb, gone.entry.number) == (1, "erase", 3)
        assert gone.entry.hash == gone.entry.digest
        assert await logged(await open_space()) == []

    async def test_every_passage_that_names_something_is_found(self, open_space: OpenSpace) -> None:
        store = await open_space()
        for id, text in (
            ("s1", "Ana Lopez came."),
            ("s2", "The Lopezes came, without Ben."),
            ("s3", "Lopez, and the café; later Ana."),
        ):
            await store.keep(said(id, text))
            await store.settle(said(id, text), made(said(id, text), f"fact {id}"))

        async def naming(text: str) -> list[str]:
            return [passage.session_id for passage in await store.mentions(text)]

        assert await naming("ana lopez") == ["s1", "s3"]
        assert await naming("Café") == ["s3"]
        assert await naming("the") == await naming("") == await naming("?!") == []
