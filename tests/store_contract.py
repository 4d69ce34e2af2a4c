"""What every store must do, whatever it is made of.

A test module subclasses `StoreContract` and gives it the fixture `open_space`: an asynchronous
function that opens a space by name, again and again onto the same memory, and closes what it
opened when the test ends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, cast

import numpy as np
import pytest

from justmem.domain import (
    Card,
    Correction,
    EventDate,
    Passage,
    Quarantined,
    Session,
    SessionState,
    Turn,
    card_id,
    marks,
)
from justmem.errors import (
    EmbedderMismatch,
    InvalidSession,
    NotInMemory,
)
from justmem.ports import (
    BEGUN,
    Author,
    CardFilter,
    Derived,
    SearchLimits,
    Snapshot,
    Store,
    Vectors,
    View,
    card_in,
    session_in,
    texts_of,
    whole_session_in,
)
from justmem.store import engine
from justmem.store.erase import text_pieces, vector_pieces
from stores import (
    append,
    cards_at,
    fail,
    passages_at,
    search,
    settle,
    spent,
    spent_on,
    waiting,
)

DIM = 8
MAY = datetime(2023, 5, 7, 14, 30, tzinfo=UTC)

OpenSpace = Callable[..., Awaitable[Any]]

# ---------------------------------------------------------------- things to remember


def vector(seed: str) -> Vectors:
    """The same unit vector for the same seed."""
    drawn = np.random.default_rng(list(seed.encode())).standard_normal(DIM).astype(np.float32)
    return drawn / np.linalg.norm(drawn)


def session(id: str = "s1", *texts: str, at: datetime = MAY) -> Session:
    said = texts or ("I adopted a kitten called Pesto.", "How lovely!")
    turns = (Turn(speaker="Ana" if n % 2 == 0 else "Ben", text=t) for n, t in enumerate(said))
    return Session(id=id, at=at, turns=tuple(turns))


def card(of: Session, fact: str, subject: str = "Ana", **fields: Any) -> Card:
    fields.setdefault("turns", (1,))
    return Card(
        id=card_id(of.id, subject, fact),
        subject=subject,
        fact=fact,
        session_id=of.id,
        said_at=of.at,
        **fields,
    )


def correction(before: Card, after: Card) -> Correction:
    return Correction(
        original=before.id, before=before, after=after, marks=("m.1",), at=MAY, by="ana"
    )


def derived(of: Session, *cards: Card, **fields: Any) -> Derived:
    """Vectors come from the texts; every turn is a passage."""
    passages = tuple(
        Passage(session_id=of.id, turn=n, start=0, end=len(turn.text))
        for n, turn in enumerate(of.turns, 1)
    )
    fields.setdefault("state", SessionState.STORED if cards else SessionState.EMPTY)
    return Derived(
        cards=cards,
        card_vectors=matrix([card.text for card in cards]),
        passages=passages,
        passage_vectors=matrix([turn.text for turn in of.turns]),
        **fields,
    )


def matrix(texts: Sequence[str]) -> Vectors:
    return np.stack([vector(t) for t in texts]) if texts else np.zeros((0, DIM), np.float32)


async def remember(store: Store, of: Session, *facts: str) -> None:
    await store.keep(of)
    await settle(store, of, derived(of, *(card(of, fact) for fact in facts)))


async def kept(store: Store, of: Session) -> Session:
    """The session as it is kept."""
    await store.keep(of)
    return (await texts_of(store, [of.id]))[of.id]


async def corrections(store: Store) -> list[Correction]:
    return [*(await store.look()).corrections]


async def revise(store: Store, old: Card, new: Card, made: Correction) -> None:
    """Replaces a card of session s1, or of its own session."""
    (whole,) = await store.read([old.session_id])
    own = whole.derived
    place = [each.id for each in own.cards].index(old.id)
    cards, vectors = [*own.cards], own.card_vectors.copy()
    cards[place], vectors[place] = new, vector(new.dated)
    after = replace(own, cards=cards, card_vectors=vectors, corrections=[*own.corrections, made])
    assert await store.settle(whole, after)


async def held_aside(store: Store) -> list[Quarantined]:
    """The quarantined cards of session s1."""
    return [each for whole in await store.read(["s1"]) for each in whole.derived.quarantined]


def view(text: str) -> View:
    return View(text=text, vector=vector(text))


async def found(store: Store, text: str, index: Any = "cards", until: date | None = None) -> Any:
    """(dense, lexical) keys for one view."""
    (hits,) = await search(store, [view(text)], index, dense=5, lexical=5, until=until)
    return [key for key, _ in hits.dense], [key for key, _ in hits.lexical]


async def facts(store: Store, keys: Sequence[int]) -> list[str]:
    return [card.fact for card in (await cards_at(store, keys)).values()]


async def all_facts(store: Store) -> list[str]:
    return [card.fact for card in await store.cards(CardFilter())]


# ---------------------------------------------------------------- the contract


class KeepingContract:
    @pytest.fixture
    async def store(self, open_space: OpenSpace) -> Any:
        return await open_space()

    async def test_a_kept_session_is_pending_and_its_words_can_be_read(self, store: Store) -> None:
        record = await store.keep(session())
        assert (record.state, record.turns, record.digest) == ("pending", 2, session().digest)
        assert await session_in(store, "s1") == session()

    async def test_a_kept_session_outlives_the_store_that_kept_it(
        self, open_space: OpenSpace
    ) -> None:
        store = await open_space()
        await store.keep(session())
        await store.close()
        assert await waiting(await open_space()) == [session()]

    async def test_times_zones_roles_and_odd_characters_come_back_as_they_were(
        self, store: Store
    ) -> None:
        at = datetime(2024, 2, 29, 23, 59, 1, 17, tzinfo=timezone(timedelta(hours=-9, minutes=-30)))
        turns = (
            Turn(speaker='Zoë "Z"', text="naïve \N{PILE OF POO}\r\n\\u0041 'quoted'", at=at),
            Turn(speaker="", role="assistant", text=""),
        )
        odd = Session(id="weird/\n id", at=datetime(2024, 1, 1), turns=turns)
        await remember(store, odd)
        assert await session_in(store, odd.id) == odd

    async def test_text_that_is_not_unicode_is_refused_and_nothing_is_kept(
        self, store: Store
    ) -> None:
        with pytest.raises(InvalidSession, match="not valid Unicode"):
            await store.keep(session("s1", "broken \ud800 text"))
        assert await store.sessions() == []

    async def test_keeping_a_stored_session_again_changes_nothing(self, store: Store) -> None:
        await remember(store, session(), "adopted a kitten")
        record = await store.keep(session())
        assert (record.state, record.cards) == ("stored", 1)
        assert await waiting(store) == []

    async def test_a_failed_session_kept_again_unchanged_stays_failed(self, store: Store) -> None:
        await store.keep(session())
        await fail(store, "s1", "the model stayed away")
        record = await store.keep(session())
        assert (record.state, record.reason) == ("failed", "the model stayed away")
        assert await waiting(store) == [session()]

    async def test_a_changed_session_loses_its_cards_and_waits_for_new_ones(
        self, store: Store
    ) -> None:
        old, new = session(), session("s1", "I adopted two kittens.")
        await remember(store, old, "adopted a kitten")
        record = await store.keep(new)
        assert (record.state, record.digest, record.turns) == ("pending", new.digest, 1)
        assert await session_in(store, "s1") == new
        assert list((await store.look(waiting=9)).waiting) == await waiting(store) == [new]
        assert await all_facts(store) == []
        assert await found(store, "kitten") == await found(store, "kitten", "passages") == ([], [])
        await fail(store, "s1", "nonsense")
        (record,) = await store.sessions()
        assert (record.state, record.reason, record.cards) == ("failed", "nonsense", 0)
        assert await session_in(store, "s1") == new
        assert (await store.keep(old)).state == "pending"
        assert await session_in(store, "s1") == old
        assert (await store.check()).sound

    async def test_a_session_with_more_turns_keeps_its_cards(self, store: Store) -> None:
        await remember(store, session(), "adopted a kitten")
        grown = session("s1", *(turn.text for turn in session().turns), "And a dog.")
        assert (await store.keep(grown)).state == "pending"
        (left,) = (await store.look(waiting=9)).waiting
        assert [turn.text for turn in left.turns] == ["", "", "And a dog."]
        await fail(store, "s1", "nonsense")
        (record,) = await store.sessions()
        assert (record.state, record.cards) == ("failed", 1)
        assert await all_facts(store) == ["adopted a kitten"]
        assert len((await found(store, "kitten", "passages"))[1]) == 1
        await settle(store, grown, derived(grown, card(grown, "has a dog", turns=(3,))))
        assert await all_facts(store) == ["has a dog"]
        assert not (await store.look(waiting=9)).waiting

    async def test_a_rebuilt_session_keeps_its_cards_until_there_are_new_ones(
        self, store: Store
    ) -> None:
        await remember(store, session("s1"), "adopted a kitten")
        await remember(store, session("s2"), "likes tea")
        await store.keep(session("s3"))
        assert await store.rebuild() == ["s1", "s2", "s3"]
        await fail(store, "s1", "nonsense")
        await settle(store, session("s2"), derived(session("s2")))
        assert await store.rebuild("s1") == await store.rebuild() == ["s1"]
        assert [each.id for each in await waiting(store)] == ["s1", "s3"]
        assert [each.id for each in (await store.look(waiting=9)).waiting] == ["s3"]
        assert await all_facts(store) == ["adopted a kitten"]
        with pytest.raises(NotInMemory):
            await store.rebuild("s9")

    async def test_failing_cannot_take_the_cards_of_a_stored_session(self, store: Store) -> None:
        await remember(store, session(), "adopted a kitten")
        await fail(store, "s1", "too late")
        assert (await store.sessions())[0].state == "stored"

    async def test_an_unknown_session_is_not_in_memory(self, store: Store) -> None:
        for attempt in (
            session_in(store, "s9"),
            whole_session_in(store, "s9"),
            store.forget(sessions=["s9"]),
        ):
            with pytest.raises(NotInMemory, match="s9"):
                await attempt

    async def test_sessions_come_in_order_of_time_whatever_their_zone(self, store: Store) -> None:
        east = timezone(timedelta(hours=9))
        for id, at in (
            ("noon in utc", datetime(2023, 5, 7, 12, tzinfo=UTC)),
            ("evening in tokyo", datetime(2023, 5, 7, 20, tzinfo=east)),
            ("morning, no zone", datetime(2023, 5, 7, 8)),
        ):
            await store.keep(session(id, at=at))
        in_order = ["morning, no zone", "evening in tokyo", "noon in utc"]
        assert [record.id for record in await store.sessions()] == in_order
        assert [each.id for each in await waiting(store)] == in_order
        assert [each.id for each in (await store.look(waiting=2)).waiting] == in_order[-2:]

    async def test_the_extent_follows_what_is_remembered_changed_and_forgotten(
        self, store: Store
    ) -> None:
        one, two = session("s1"), session("s2")
        assert await store.look() == Snapshot(0, 0, None)
        for of, *said in ((one, "ran", "swam"), (two, "slept"), (one, "ran", "swam", "sang")):
            await store.keep(of)
            await settle(store, of, derived(of, *(card(of, fact) for fact in said), tokens=20))
        assert await store.look() == Snapshot(4, 40, "Ana")
        await store.forget(cards=[card(one, "sang").id], sessions=["s2"])
        assert await store.look() == Snapshot(2, 20, "Ana")


class SettlingContract:
    async def test_settling_stores_cards_as_they_are(self, store: Store) -> None:
        of = session()
        cards = (
            card(of, "ran a marathon", event_date=EventDate.parse("2023-05"), kind="event"),
            card(of, "will move", event_date=EventDate.parse("2023-06-01/2023-06-03")),
            card(of, "likes tea", "Ben", kind="preference", status="ongoing"),
        )
        await store.keep(of)
        await settle(store, of, derived(of, *cards, tokens=40, card_tokens=12))
        assert await store.cards(CardFilter()) == list(cards)
        assert await card_in(store, cards[1].id) == cards[1]
        (record,) = await store.sessions()
        assert (record.state, record.cards, record.tokens) == ("stored", 3, 40)
        assert await waiting(store) == []

    async def test_a_session_may_move_to_another_day(self, store: Store) -> None:
        new = session("s1", "I adopted two kittens.", at=MAY + timedelta(days=1))
        await remember(store, session(), "adopted a kitten")
        await remember(store, new, "adopted two kittens")
        assert await session_in(store, "s1") == new
        assert await waiting(store) == []
        assert await all_facts(store) == ["adopted two kittens"]
        assert len(await store.sessions()) == 1

    async def test_replaced_cards_are_found_by_neither_vector_nor_word(self, store: Store) -> None:
        await remember(store, session(), "plays the theremin")
        await found(store, "theremin")
        await remember(store, session("s1", "No, the zither."), "plays the zither")
        dense, lexical = await found(store, "Ana plays the theremin")
        assert await facts(store, dense) == ["plays the zither"]
        assert (await found(store, "theremin"))[1] == []
        assert (await found(store, "kitten", "passages"))[1] == []
        assert await facts(store, lexical) == ["plays the zither"]  # "plays"

    async def test_a_session_with_nothing_durable_is_empty_yet_its_turns_are_found(
        self, store: Store
    ) -> None:
        await remember(store, session())
        assert (await store.sessions())[0].state == "empty"
        assert len((await found(store, "kitten", "passages"))[1]) == 1

    async def test_a_text_replaced_while_its_cards_were_made_does_not_come_back(
        self, store: Store
    ) -> None:
        stale = session("s1", "stale")
        await store.keep(stale)
        await store.keep(session("s1", "fresh"))
        assert not await settle(store, stale, derived(stale, card(stale, "stale fact")))
        assert await waiting(store) == [session("s1", "fresh")]
        assert await all_facts(store) == []

    async def test_a_session_forgotten_while_its_cards_were_made_stays_forgotten(
        self, store: Store
    ) -> None:
        of = session()
        await store.keep(of)
        await store.forget(sessions=["s1"])
        assert not await settle(store, of, derived(of, card(of, "adopted a kitten")))

    async def test_a_card_given_twice_is_stored_once(self, store: Store) -> None:
        await remember(store, session(), "likes tea", "likes rain", "likes tea")
        assert await all_facts(store) == ["likes tea", "likes rain"]
        dense, _ = await found(store, "Ana likes rain")
        assert await facts(store, dense[:1]) == ["likes rain"]

    async def test_unsupported_cards_are_kept_aside(self, store: Store) -> None:
        held = Quarantined(subject="Ana", fact="owns a yacht", reason="no turn says so")
        of = session()
        await store.keep(of)
        await settle(store, of, derived(of, quarantined=[held]))
        assert await held_aside(store) == [held]
        assert (await store.sessions())[0].quarantined == 1
        assert await found(store, "yacht") == ([], [])

    async def test_a_refused_settle_leaves_everything_as_it_was(self, store: Store) -> None:
        of = session()
        await store.bind("one", DIM)
        await remember(store, of, "adopted a kitten")
        wrong = Derived(
            state=SessionState.STORED,
            cards=[card(of, "adopted a dog")],
            card_vectors=np.ones((1, DIM + 1), np.float32),
        )
        with pytest.raises(EmbedderMismatch):
            await settle(store, of, wrong)
        assert await all_facts(store) == ["adopted a kitten"]
        assert (await found(store, "kitten", "passages"))[1] != []

    async def test_a_card_is_revised_and_found_by_its_new_words(self, store: Store) -> None:
        await remember(store, said := session(), "lives in Graz", "plays the accordion")
        old, new = card(said, "lives in Graz"), card(said, "lives in Vienna")
        made = correction(old, new)
        await revise(store, old, new, made)
        assert await corrections(store) == [made]
        assert await all_facts(store) == ["lives in Vienna", "plays the accordion"]
        _, by_word = await found(store, "Vienna")
        assert await facts(store, by_word) == ["lives in Vienna"]
        assert (await store.check()).damage == ()
        (whole,) = await store.read(["s1"])
        assert list(whole.derived.corrections) == [made]

    async def test_a_revision_of_what_changed_meanwhile_changes_nothing(self, store: Store) -> None:
        await remember(store, said := session(), "lives in Graz", "plays the accordion")
        old, new = card(said, "lives in Graz"), card(said, "lives in Vienna")
        made = correction(old, new)
        (stale,) = await store.read(["s1"])
        await revise(store, old, new, made)
        again = replace(stale.derived, corrections=[correction(old, new)])
        assert not await store.settle(stale, again)
        assert await corrections(store) == [made]
        assert await all_facts(store) == ["lives in Vienna", "plays the accordion"]

    async def test_cards_made_before_a_correction_do_not_replace_it(self, store: Store) -> None:
        await remember(store, said := session(), "lives in Graz")
        old, new = card(said, "lives in Graz"), card(said, "lives in Vienna")
        await revise(store, old, new, correction(old, new))
        assert not await settle(store, said, derived(said, old))
        assert await all_facts(store) == ["lives in Vienna"]


class SearchContract:
    async def test_the_nearest_vector_comes_first_with_its_cosine(self, store: Store) -> None:
        await remember(store, session(), "likes tea", "likes rain", "likes chess")
        (hits,) = await search(
            store, [view("Ana likes rain")], "cards", dense=2, lexical=0, until=None
        )
        assert len(hits.dense) == 2
        assert await facts(store, [hits.dense[0][0]]) == ["likes rain"]
        assert hits.dense[0][1] == pytest.approx(1.0, abs=1e-3)
        assert hits.lexical == []

    async def test_each_view_is_answered_on_its_own(self, store: Store) -> None:
        await remember(store, session(), "likes tea", "likes rain")
        views = [view("Ana likes rain"), view("Ana likes tea")]
        hits = await search(store, views, "cards", dense=1, lexical=1, until=None)
        firsts = [await facts(store, [each.dense[0][0]]) for each in hits]
        assert firsts == [["likes rain"], ["likes tea"]]

    async def test_words_are_found_by_their_stem_without_accents_or_case(
        self, store: Store
    ) -> None:
        await remember(store, session(), "was painting at the Café", "plays chess")
        _, lexical = await found(store, "Who PAINTED in a cafe?")
        assert await facts(store, lexical) == ["was painting at the Café"]

    async def test_a_rare_word_outweighs_a_common_one(self, store: Store) -> None:
        common = [f"walks the dog on street {n}" for n in range(20)]
        await remember(store, session(), *common, "walks to the observatory")
        _, lexical = await found(store, "walks dog observatory")
        assert (await facts(store, lexical))[0] == "walks to the observatory"
        (hits,) = await search(store, [view("dog")], "cards", dense=0, lexical=3, until=None)
        assert len(hits.lexical) == 3
        assert all(score > 0 for _, score in hits.lexical)

    @pytest.mark.parametrize(
        "text",
        [
            '"',
            "NOT",
            "a AND",
            "NEAR(tea, 2)",
            "tea*",
            "text:tea",
            "^tea",
            "(",
            "'; DROP",
            "",
            "-",
            "the of",
        ],
    )
    async def test_no_question_is_taken_for_query_syntax(self, store: Store, text: str) -> None:
        await remember(store, session(), "likes tea")
        _, lexical = await found(store, text)
        assert await facts(store, lexical) == (["likes tea"] if "tea" in text else [])

    async def test_turns_are_found_word_by_word_and_lead_back_to_their_place(
        self, store: Store
    ) -> None:
        of = session("s1", "First a walk. Then we saw Pesto.", "Nice.")
        passages = (
            Passage(session_id="s1", turn=1, start=0, end=13),
            Passage(session_id="s1", turn=1, start=14, end=32),
        )
        await store.keep(of)
        await settle(
            store,
            of,
            Derived(
                state=SessionState.EMPTY,
                passages=passages,
                passage_vectors=matrix(["walk", "pesto"]),
            ),
        )
        dense, lexical = await found(store, "pesto", "passages")
        assert await passages_at(store, lexical) == {lexical[0]: passages[1]}
        assert dense[0] == lexical[0]
        assert list((await passages_at(store, dense)).values()) == [passages[1], passages[0]]

    async def test_passages_without_vectors_are_still_found_by_word(self, store: Store) -> None:
        of = session()
        passages = (Passage(session_id="s1", turn=1, start=0, end=10),)
        await store.keep(of)
        await settle(store, of, Derived(state=SessionState.EMPTY, passages=passages))
        dense, lexical = await found(store, "adopted", "passages")
        assert (dense, len(lexical)) == ([], 1)

    @pytest.mark.parametrize("index", ["cards", "passages"])
    async def test_nothing_said_after_the_day_is_found(self, store: Store, index: Any) -> None:
        """The day is the one on the wall where it was said: 1 May in Honolulu is 2 May in UTC."""
        honolulu = timezone(timedelta(hours=-10))
        for id, at in (
            ("first", datetime(2023, 5, 1, 20, tzinfo=honolulu)),
            ("second", datetime(2023, 5, 2, 9, tzinfo=UTC)),
        ):
            await remember(store, session(id, f"{id} swim", at=at), f"{id} swim")
        everything = await found(store, "swim", index, date(2023, 5, 2))
        assert [len(keys) for keys in everything] == [2, 2]
        dense, lexical = await found(store, "swim", index, date(2023, 5, 1))
        assert dense == lexical
        assert dense == [min(everything[0])]
        assert await found(store, "swim", index, date(2023, 4, 30)) == ([], [])

    async def test_turns_are_found_by_word_alone_while_their_sessions_change(
        self, store: Store
    ) -> None:
        async def said(text: str) -> int:
            (hits,) = await search(store, [view(text)], "passages", dense=0, lexical=9, until=None)
            return len(hits.lexical)

        for id in ("s1", "s2", "s3"):
            await remember(store, session(id, f"The theremin of {id}."))
        assert await said("theremin") == 3
        await remember(store, session("s1", "No, the zither."))
        assert (await said("theremin"), await said("zither")) == (2, 1)
        await store.forget(sessions=["s2"])
        assert (await said("theremin"), await said("zither")) == (1, 1)

    async def test_an_empty_space_finds_nothing(self, store: Store) -> None:
        assert await found(store, "anything") == ([], [])
        assert await found(store, "anything", "passages") == ([], [])
        assert await search(store, [], "cards", dense=5, lexical=5, until=None) == []

    async def test_a_question_gets_cards_vectors_and_turns_of_one_moment(
        self, store: Store
    ) -> None:
        """Found by vector or word: the cards; by the words of a turn: the cards on it, and the
        turn itself where there is none."""
        told = session("s1", "We drank oolong", "Nobody wrote down the ferry")
        await store.keep(told)
        await settle(store, told, derived(told, card(told, "likes tea"), card(told, "ran", "Ben")))
        other = session("s2", "Rain again")
        await remember(store, other, "likes rain")

        async def find(text: str, **given: Any) -> Any:
            asked = SearchLimits(dense=0, lexical=5, spoken=5, quotes=5)
            return await store.find([view(text)], replace(asked, **given))

        by_turn = await find("oolong")
        assert [c.fact for c in by_turn.cards.values()] == ["likes tea", "ran"]
        assert (set(by_turn.by_words[0]), by_turn.bare) == ({("s1", 1)}, [])
        np.testing.assert_allclose(
            by_turn.vectors, np.stack([vector("Ana likes tea"), vector("Ben ran")]), atol=1e-3
        )
        np.testing.assert_allclose(
            by_turn.turns["s1", 1], np.stack([vector("We drank oolong")]), atol=1e-3
        )
        bare = await find("ferry")
        assert (bare.cards, bare.bare) == ({}, [(told, 2)])
        assert set(bare.turns) == {("s1", 2)}
        unquoted = await find("ferry", quotes=0)
        assert (unquoted.bare, unquoted.turns) == ([], {})
        assert (await find("oolong", spoken=0)).cards == {}
        near = await find("likes rain", dense=1, lexical=0, spoken=0)
        assert [c.fact for c in near.cards.values()] == ["likes rain"]
        assert [len(hits.dense) for hits in near.hits] == [1]
        early = await find("oolong ferry rain", until=MAY.date() - timedelta(days=400))
        assert (early.cards, early.bare, early.turns) == ({}, [], {})

    async def test_a_search_can_be_held_to_sessions_and_days(self, store: Store) -> None:
        for number in range(4):
            at = MAY + timedelta(days=number)
            await remember(store, session(f"s{number}", "word", at=at), f"fact {number}")

        async def find(**given: Any) -> list[str]:
            asked = SearchLimits(dense=9, lexical=9, spoken=9, quotes=9, passages=9)
            found = await store.find([view("Ana fact word")], replace(asked, **given))
            said = {passage.session_id for passage in found.passages.values()}
            assert said == {one.session_id for one in found.cards.values()}
            return [one.fact for one in found.cards.values()]

        day = MAY.date() + timedelta(days=2)
        assert await find(since=day) == ["fact 2", "fact 3"]
        assert await find(since=day, until=day) == ["fact 2"]
        assert await find(sessions=frozenset({"s0", "s3"})) == ["fact 0", "fact 3"]
        assert await find(sessions=frozenset({"s0", "s3"}), since=day) == ["fact 3"]
        assert await find(sessions=frozenset()) == []

    async def test_a_row_has_the_day_of_its_turn_or_card(self, store: Store) -> None:
        later = MAY + timedelta(days=3)
        said = session("s1", "word one", "word two")
        turns = said.turns[0], said.turns[1].model_copy(update={"at": later})
        said = said.model_copy(update={"turns": turns})
        one, two = card(said, "fact one"), card(said, "fact two", turns=(1, 2))
        two = two.model_copy(update={"said_at": later})
        await store.keep(said)
        await settle(store, said, derived(said, one, two))
        asked = SearchLimits(dense=9, lexical=9, spoken=9, quotes=9, passages=9)
        for days, numbers in (
            ({"until": MAY.date()}, [1]),
            ({"since": later.date()}, [2]),
            ({}, [1, 2]),
        ):
            found = await store.find([view("Ana fact word")], replace(asked, **days))
            assert sorted(each.turn for each in found.passages.values()) == numbers
            assert len(found.cards) == len(numbers)
        assert (await store.check()).sound

    async def test_labels_and_ends_are_kept(self, store: Store) -> None:
        labels, until = {"b": "1", "a": "é"}, MAY + timedelta(days=9)
        told = session("s1", "Hello there").model_copy(update={"labels": labels, "until": until})
        made = card(told, "likes tea", until=until)
        assert (await store.keep(told)).labels == labels
        await settle(store, told, derived(told, made))
        assert (await texts_of(store, ["s1"]))["s1"] == told
        assert (await store.cards(CardFilter())) == [made]
        (record,) = await store.sessions()
        assert (record.labels, record.until) == (labels, until)
        await store.keep(told.model_copy(update={"labels": {"c": "2"}}))
        assert (await store.sessions())[0].labels == {"c": "2"}
        await append(store, "s1", told.turns, MAY)
        assert (await store.sessions())[0].labels == {"c": "2"}
        (whole,) = await store.read(["s1"])
        assert (whole.session.labels, whole.session.until) == ({"c": "2"}, until)
        assert (await store.check()).sound

    async def test_of_what_was_said_between_two_days_more_is_found(self, store: Store) -> None:
        for number in range(8):
            at = MAY + timedelta(days=number)
            await remember(store, session(f"s{number}", f"word{number}", at=at), f"fact {number}")

        async def find(dense: int, *days: int, until: int = 99) -> list[list[str]]:
            first, last = (MAY.date() + timedelta(days=each) for each in days)
            reach = SearchLimits(
                dense=dense,
                lexical=0,
                spoken=0,
                quotes=0,
                until=MAY.date() + timedelta(days=until),
                during=(first, last),
            )
            found = await store.find([view("Ana fact 7"), view("Ana fact 6")], reach)
            return [
                [found.cards[key].fact for key, _ in hits.dense if key in found.cards]
                for hits in found.hits
            ]

        assert await find(1, 2, 2) == [["fact 7", "fact 2"], ["fact 6", "fact 2"]]
        assert await find(1, 7, 7) == [["fact 7"], ["fact 6", "fact 7"]]
        assert [len(found) for found in await find(4, 0, 7)] == [4, 4]
        assert {"fact 0", "fact 1"} <= set((await find(4, 0, 1))[0])
        assert await find(1, 90, 99) == [["fact 7"], ["fact 6"]]
        assert "fact 5" not in (await find(8, 5, 5, until=4))[0]
        assert await find(0, 0, 7) == [[], []]

    async def test_sessions_can_be_read_several_at_once(self, store: Store) -> None:
        await store.keep(session("s1"))
        await store.keep(session("s2", "Rain again"))
        assert await texts_of(store, ["s2", "nowhere"]) == {"s2": session("s2", "Rain again")}
        assert await texts_of(store, []) == {}

    async def test_what_another_opening_adds_or_forgets_shows_in_the_next_search(
        self, open_space: OpenSpace
    ) -> None:
        one, other = await open_space(), await open_space()
        await remember(one, session("s1"), "likes tea")
        assert len((await found(other, "tea"))[0]) == 1
        await remember(one, session("s2"), "likes rain")
        dense, lexical = await found(other, "rain")
        assert (len(dense), len(lexical)) == (2, 1)
        await one.forget(sessions=["s2"])
        assert len((await found(other, "rain"))[0]) == 1

    async def test_search_agrees_with_brute_force_through_random_changes(
        self, open_space: OpenSpace
    ) -> None:
        """Two openings of one space settle, replace and forget in turn; both always find what
        an exhaustive comparison over the stored cards finds."""
        stores, draw = [await open_space(), await open_space()], random.Random(7)
        for step in range(120):
            store = draw.choice(stores)
            await _change(store, draw, step)
            if step % 3 == 0:
                await _compare(draw.choice(stores), f"Ana fact {draw.randrange(200)}")


async def _change(store: Store, draw: random.Random, step: int) -> None:
    known = await store.sessions()
    cards = await store.cards(CardFilter())
    kinds = ["add", "add", "add", "replace", "forget session", "forget card", "forget turn"]
    match draw.choice(kinds):
        case "replace" if known:
            of = session(draw.choice(known).id, f"changed at {step}")
            await remember(store, of, *(f"fact {draw.randrange(200)}" for _ in range(3)))
        case "forget session" if known:
            await store.forget(sessions=[draw.choice(known).id])
        case "forget card" if cards:
            await store.forget(cards=[draw.choice(cards).id])
        case "forget turn" if cards:
            on = draw.choice(cards)
            await store.forget(turns=[(on.session_id, on.turns[0])])
        case _:
            of = session(f"s{step}", at=MAY + timedelta(days=draw.randrange(9)))
            await remember(store, of, *(f"fact {draw.randrange(200)}" for _ in range(4)))


async def _compare(store: Store, text: str) -> None:
    until = date(2023, 5, 11)
    kept = [c for c in await store.cards(CardFilter()) if c.said_at.date() <= until]
    scores = sorted((float(vector(c.text) @ vector(text)) for c in kept), reverse=True)
    (hits,) = await search(store, [view(text)], "cards", dense=10, lexical=100, until=until)
    assert [s for _, s in hits.dense] == pytest.approx(scores[:10], abs=1e-3)
    hit = await cards_at(store, [key for key, _ in hits.dense])
    assert {c.id for c in hit.values()} <= {c.id for c in kept}
    words = set(text.lower().split())
    expected = {c.id for c in kept if words & set(c.text.lower().split())}
    lexical = await cards_at(store, [key for key, _ in hits.lexical])
    assert {c.id for c in lexical.values()} <= expected
    assert len(lexical) == min(100, len(expected))


class CardsContract:
    @pytest.mark.parametrize("at_once", [1, 500])
    async def test_cards_can_be_filtered(
        self, store: Store, at_once: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The result does not depend on how many keys one statement names."""
        monkeypatch.setattr(engine, "_AT_ONCE", at_once)
        one, two = session("s1"), session("s2", at=MAY - timedelta(days=1))
        await store.keep(one)
        await settle(
            store,
            one,
            derived(one, card(one, "likes tea", kind="preference"), card(one, "ran", "Ben")),
        )
        await store.keep(two)
        await settle(
            store, two, derived(two, card(two, "likes green tea", "Zoë", status="ongoing"))
        )

        async def those(**where: Any) -> list[str]:
            return [card.fact for card in await store.cards(CardFilter(**where))]

        assert await those() == ["likes green tea", "likes tea", "ran"]
        assert await those(subject="ben") == ["ran"]
        assert await those(subject="ZOË") == ["likes green tea"]
        assert await those(kind="preference") == ["likes tea"]
        assert await those(status="ongoing") == ["likes green tea"]
        assert await those(session_id="s1") == ["likes tea", "ran"]
        assert await those(text="tea") == ["likes green tea", "likes tea"]
        assert await those(text="tea green") == ["likes green tea"]
        assert await those(text="tea", subject="Ana") == ["likes tea"]
        assert await those(text="tea", limit=1, offset=1) == ["likes tea"]
        assert await those(text="!!!") == []
        assert await those(limit=1, offset=1) == ["likes tea"]

    async def test_an_unknown_card_is_not_in_memory(self, store: Store) -> None:
        with pytest.raises(NotInMemory, match="c0ffee"):
            await card_in(store, "c0ffee")
        assert await cards_at(store, [1, 2]) == {}
        assert await passages_at(store, [1, 2]) == {}


class ForgettingContract:
    async def test_a_forgotten_card_leaves_search_and_lists(self, store: Store) -> None:
        of = session()
        await remember(store, of, "likes tea", "likes rain")
        gone = (await store.forget(cards=[card(of, "likes tea").id])).forgotten
        assert (gone.cards, gone.sessions, gone.turns) == (1, 0, 0)
        dense, lexical = await found(store, "Ana likes tea")
        assert await facts(store, dense) == await facts(store, lexical) == ["likes rain"]
        assert (await store.sessions())[0].cards == 1
        with pytest.raises(NotInMemory):
            await card_in(store, card(of, "likes tea").id)

    async def test_a_forgotten_card_stays_forgotten_when_its_session_is_remembered_again(
        self, store: Store
    ) -> None:
        of = session()
        await remember(store, of, "likes tea", "likes rain")
        await store.forget(cards=[card(of, "likes tea").id])
        again = session("s1", "said differently")
        await remember(store, again, "likes tea", "likes rain")
        assert await all_facts(store) == ["likes rain"]
        dense, lexical = await found(store, "Ana likes rain")
        assert await facts(store, dense) == await facts(store, lexical) == ["likes rain"]

    async def test_a_forgotten_session_takes_everything_with_it(self, store: Store) -> None:
        await remember(store, session(), "likes tea")
        await append(store, "s1", session("s1", "A turn that waits.").turns, MAY)
        gone = (await store.forget(sessions=["s1"])).forgotten
        assert (gone.cards, gone.sessions, gone.turns) == (1, 1, 3)
        assert await store.sessions() == await waiting(store) == await all_facts(store) == []
        assert await found(store, "tea") == ([], [])
        assert await found(store, "kitten", "passages") == ([], [])
        with pytest.raises(NotInMemory):
            await session_in(store, "s1")

    async def test_a_forgotten_session_may_be_remembered_anew(self, store: Store) -> None:
        await remember(store, session(), "likes tea")
        await store.forget(sessions=["s1"])
        await remember(store, session(), "likes tea")
        assert await all_facts(store) == ["likes tea"]

    async def test_forgetting_is_all_or_nothing(self, store: Store) -> None:
        await remember(store, session(), "likes tea")
        with pytest.raises(NotInMemory, match="s2"):
            await store.forget(sessions=["s1", "s2"])
        assert await all_facts(store) == ["likes tea"]

    async def test_a_forgotten_turn_takes_its_words_and_what_rests_on_it(
        self, store: Store
    ) -> None:
        of = session("s1", "I play the theremin.", "I collect stamps.", "And I bake bread.")
        on = [card(of, f"rests on {turns}", turns=turns) for turns in ((1,), (1, 2), (3,))]
        await store.keep(of)
        held = [Quarantined(subject="Ana", fact="hears voices", reason="no turn says so")]
        await settle(store, of, derived(of, *on, quarantined=held))
        _, (passage,) = await found(store, "stamps", "passages")
        gone = (await store.forget(turns=[("s1", 2)])).forgotten
        assert (gone.cards, gone.turns, gone.sessions, gone.quarantined) == (1, 1, 0, 1)
        assert await session_in(store, "s1") == of.without([2])
        assert await all_facts(store) == ["rests on (1,)", "rests on (3,)"]
        assert await found(store, "stamps", "passages") != ([], [passage])
        assert (await found(store, "stamps", "passages"))[1] == []
        (whole,) = await store.read(["s1"])
        assert [passage.turn for passage in whole.derived.passages] == [1, 3]
        kept = matrix(["I play the theremin.", "And I bake bread."])
        np.testing.assert_allclose(whole.derived.passage_vectors, kept, atol=1e-3)
        assert await passages_at(store, [passage]) == {}
        _, (other,) = await found(store, "bread", "passages")
        assert (await passages_at(store, [other]))[other].turn == 3
        assert await held_aside(store) == []
        (record,) = await store.sessions()
        assert (record.state, record.turns, record.cards) == ("stored", 3, 2)
        assert record.quarantined == 0

    async def test_a_forgotten_turn_does_not_come_back_with_its_session(self, store: Store) -> None:
        of = session("s1", "I play the theremin.", "Yes.", "I collect stamps.", "Yes.")
        await remember(store, of, "plays the theremin")
        await store.forget(turns=[("s1", 2)])
        assert (await store.keep(of)).state == "stored"  # nothing is new in it
        moved = session("s1", "Hello.", *(turn.text for turn in of.turns))
        # No one can tell which it was.
        assert await kept(store, moved) == moved.without([3, 5])
        grown = session("s1", "And more.").turns
        longer = of.without([2]).model_copy(
            update={"turns": (*of.without([2]).turns, *of.turns[3:], *grown)}
        )
        assert await kept(store, longer) == longer
        other = session("s2", *(turn.text for turn in of.turns))
        assert await kept(store, other) == other

    async def test_a_turn_of_a_session_that_waits_is_forgotten(self, store: Store) -> None:
        of = session("s1", "Hi!", "I play the Theremin.", "Oh!")
        await remember(store, of, "plays")
        changed = session("s1", "Hello.", "i play  the theremin.", "Oh!", "And xylophones.")
        await store.keep(changed)
        await fail(store, "s1", "broke on theremin")
        await store.forget(turns=[("s1", 2)])
        assert await waiting(store) == [changed.without([2])]
        assert "theremin" not in (await store.sessions())[0].reason
        assert await kept(store, of) == of.without([2])

    async def test_corrections_outlast_the_cards_of_a_changed_session(self, store: Store) -> None:
        made = []
        for id in ("s1", "s2", "s3"):
            await remember(store, said := session(id), "lives in Graz")
            old, new = card(said, "lives in Graz"), card(said, "lives in Vienna")
            change = correction(old, new).model_copy(update={"marks": (marks.mark(said, 1),)})
            await revise(store, old, new, change)
            await store.keep(session(id, *(turn.text for turn in said.turns[:1]), "Changed."))
            made.append(change)
        assert await corrections(store) == made
        await store.forget(turns=[("s1", 1)])
        assert await corrections(store) == made[1:]
        await store.forget(turns=[("s2", 2)])
        assert await corrections(store) == made[1:]
        removed = await store.forget(subjects=["Vienna"], dry_run=True)
        assert ("Ana", "lives in Graz") in removed.facts
        await store.forget(sessions=["s2"])
        assert await corrections(store) == made[2:]
        await store.forget(subjects=["vienna"])
        assert await corrections(store) == []

    async def test_a_turn_forgotten_while_its_cards_are_made_does_not_come_back(
        self, store: Store
    ) -> None:
        of = session()
        await store.keep(of)
        await store.forget(turns=[("s1", 1)])
        assert not await settle(store, of, derived(of, card(of, "has a kitten")))
        assert await waiting(store) == [of.without([1])]

    async def test_a_turn_that_is_not_there_cannot_be_forgotten(self, store: Store) -> None:
        await remember(store, session(), "likes tea")
        for place in (("s1", 3), ("s1", 0), ("s2", 1)):
            with pytest.raises(NotInMemory):
                await store.forget(turns=[place])
        await store.forget(turns=[("s1", 2)])
        with pytest.raises(NotInMemory, match="forgotten before"):
            await store.forget(turns=[("s1", 2)])

    async def test_forgetting_a_subject_takes_its_quarantined_cards(self, store: Store) -> None:
        of = session()
        await store.keep(of)
        held = [
            Quarantined(subject=subject, fact="hears voices", reason="no turn says so")
            for subject in ("ANA", "Ben")
        ]
        await settle(store, of, derived(of, quarantined=held))
        assert (await store.forget(subjects=["Ana"])).forgotten.quarantined == 1
        assert [each.subject for each in await held_aside(store)] == ["Ben"]
        assert (await store.sessions())[0].quarantined == 1

    async def test_what_is_left_of_a_text_is_found_wherever_a_store_keeps_words(
        self, store: Store
    ) -> None:
        """The proof is worth as much as it can fail."""
        one = session("s1", "I play the theremin at night.", "Oh!")
        held = [Quarantined(subject="Ana", fact="hears bassoons upstairs", reason="unsupported")]
        await store.keep(one)
        made = derived(one, card(one, "owns a glockenspiel"), quarantined=held)
        await settle(store, one, made)
        await append(store, "s1", session("s1", "A didgeridoo was meant.").turns, MAY)
        texts = ["I play the theremin at night.", "owns a glockenspiel", "hears bassoons upstairs"]
        texts.append("A didgeridoo was meant.")
        for text in texts:
            assert (await cast(Any, store)._search_bytes(text_pieces(text))).remains, text
            assert (await store.remains([text])).held == {0: "session s1"}
        for vectors in (made.card_vectors, made.passage_vectors[:1]):
            assert (await cast(Any, store)._search_bytes(vector_pieces(vectors))).remains
        await store.forget(sessions=["s1"])
        searched = await store.remains(texts, [made.card_vectors, made.passage_vectors])
        assert (searched.remains, searched.held) == ((), {})
        assert searched.tables
        assert searched.bytes > 0

    async def test_words_that_were_replaced_are_gone_when_one_looks_for_what_remains(
        self, store: Store
    ) -> None:
        await remember(store, session("s1", "I play the theremin."), "plays the theremin")
        await remember(store, session("s1", "I meant the violin."), "plays the violin")
        await store.keep(session("s1", "Or the didgeridoo."))
        await store.keep(session("s1", "I meant the violin."))
        texts = ["I play the theremin.", "plays the theremin", "Or the didgeridoo."]
        assert (await store.remains(texts)).remains == ()

    async def test_nothing_remains_of_an_erased_space(self, store: Store) -> None:
        await remember(store, session("s1", "I play the theremin."), "plays the theremin")
        await store.forget(everything=True)
        assert (await store.remains(["I play the theremin."])).remains == ()

    async def test_an_erased_space_is_gone_and_can_be_started_anew(
        self, open_space: OpenSpace
    ) -> None:
        store = await open_space()
        await remember(store, session(), "likes tea")
        gone = (await store.forget(everything=True)).forgotten
        assert (gone.cards, gone.sessions, gone.turns) == (1, 1, 2)
        assert await (await open_space()).sessions() == []

    async def test_spaces_do_not_see_each_other(self, open_space: OpenSpace) -> None:
        ana, ben = await open_space("ana"), await open_space("ben")
        await remember(ana, session(), "likes tea")
        assert await ben.sessions() == []
        assert await found(ben, "tea") == ([], [])
        await ben.forget(everything=True)
        assert await all_facts(ana) == ["likes tea"]


class EmbedderContract:
    async def test_another_embedder_is_refused_by_name_with_the_command_that_helps(
        self, store: Store
    ) -> None:
        await store.bind("onnx:small", DIM)
        await remember(store, session(), "likes tea")
        await store.bind("onnx:small", DIM)
        with pytest.raises(EmbedderMismatch, match=r"onnx:small.*onnx:large.*justmem reembed"):
            await store.bind("onnx:large", 2 * DIM)

    async def test_a_space_without_vectors_takes_any_embedder(self, store: Store) -> None:
        await store.bind("onnx:small", DIM)
        await store.bind("onnx:large", 2 * DIM)
        assert (await store.metadata()).stats.embedder == "onnx:large"

    async def test_everything_can_be_embedded_again(self, store: Store) -> None:
        await store.bind("old", DIM)
        for n in range(5):
            await remember(store, session(f"s{n}", f"turn {n}"), f"fact {n}", f"more {n}")
        await found(store, "anything")

        async def doubled(index: str, texts: Sequence[str]) -> Vectors:
            made: Vectors = np.hstack([matrix(texts)] * 2) / np.float32(np.sqrt(2))
            return made

        assert await store.bind("new", 2 * DIM, doubled) == 15
        await store.bind("new", 2 * DIM)
        query = View(text="", vector=np.tile(vector("Ana more 3"), 2) / np.float32(np.sqrt(2)))
        (hits,) = await search(store, [query], "cards", dense=1, lexical=0, until=None)
        assert await facts(store, [hits.dense[0][0]]) == ["more 3"]
        assert hits.dense[0][1] == pytest.approx(1.0, abs=1e-3)


class LedgerContract:
    async def test_spending_adds_up_by_day_and_survives_closing(
        self, open_space: OpenSpace
    ) -> None:
        store = await open_space()
        await store.spend(date(2023, 5, 7), 100)
        await store.spend(date(2023, 5, 7), 20)
        await store.spend(date(2023, 5, 8), 3)
        await store.close()
        store = await open_space()
        assert await spent(store, date(2023, 5, 7)) == 120
        assert await spent(store, date(2023, 5, 9)) == 0
        assert (await store.metadata()).stats.spent_tokens == 123

    async def test_a_reservation_holds_its_share_of_the_day_until_the_cost_is_entered(
        self, open_space: OpenSpace
    ) -> None:
        store, other, day = await open_space(), await open_space(), date(2023, 5, 7)
        assert await store.spend(day, reserve=101, limit=100, least=101) == 0
        assert await store.spend(day, reserve=60, limit=100) == 60
        assert await other.spend(day, reserve=60, limit=100, least=60) == 0
        assert await spent(store, day) == 60
        await store.spend(day, 25, reserve=-60)
        assert await spent(store, day) == 25
        assert await other.spend(day, reserve=90, limit=100) == 75
        assert (await store.metadata()).stats.spent_tokens == 25

    async def test_stats_count_what_is_there(self, open_space: OpenSpace) -> None:
        store, of = await open_space("ana"), session()
        await store.bind("onnx:small", DIM)
        await store.keep(of)
        held = Quarantined(subject="Ana", fact="owns a yacht", reason="no turn says so")
        cards = card(of, "likes tea", kind="preference"), card(of, "ran"), card(of, "swam")
        await settle(store, of, derived(of, *cards, quarantined=[held], tokens=30, card_tokens=12))
        await remember(store, session("s2"))
        await store.keep(session("s3"))
        stats = (await store.metadata()).stats
        assert stats.space == "ana"
        assert stats.sessions == {"stored": 1, "empty": 1, "pending": 1}
        assert (stats.turns, stats.cards, stats.quarantined) == (6, 3, 1)
        assert stats.kinds == {"fact": 2, "preference": 1}
        assert (stats.history_tokens, stats.card_tokens) == (30, 12)
        assert stats.embedder == "onnx:small"
        assert stats.bytes > 0


class LabelsContract:
    async def test_a_forgotten_label_stays_away_and_the_rest_stays(self, store: Store) -> None:
        of = session().model_copy(update={"labels": {"title": "Kittens of Ana", "topic": "pets"}})
        await remember(store, of, "adopted a kitten")
        would = await store.forget(labels=[("s1", "title")], dry_run=True)
        gone = await store.forget(labels=[("s1", "title")])
        assert gone.forgotten.model_copy(update={"entry": None}) == would.forgotten
        assert (gone.forgotten.labels, gone.texts) == (1, ["Kittens of Ana"])
        await store.keep(of)
        (record,) = await store.sessions()
        assert (record.labels, record.state) == ({"topic": "pets"}, "stored")
        assert await session_in(store, "s1") == of.without_labels({"title"})
        assert await all_facts(store) == ["adopted a kitten"]
        assert not (await store.remains(gone.texts)).remains


class WordsContract:
    async def test_the_words_of_a_session_go_and_its_cards_stay(self, store: Store) -> None:
        of = session()
        await remember(store, of, "adopted a kitten")
        gone = (await store.forget(words=["s1"])).forgotten
        assert (gone.turns, gone.sessions, gone.cards) == (2, 0, 0)
        left = await session_in(store, "s1")
        assert [(turn.speaker, turn.text, turn.forgotten) for turn in left.turns] == [
            ("Ana", "", True),
            ("Ben", "", True),
        ]
        assert await found(store, "kitten", "passages") == ([], [])
        asked = await store.find(
            [view("kitten")], SearchLimits(dense=5, lexical=5, spoken=5, quotes=5)
        )
        assert [each.fact for each in asked.cards.values()] == ["adopted a kitten"]
        assert (asked.by_words, asked.turns, asked.bare) == ([{}], {}, [])
        assert (await store.check()).sound
        (record,) = await store.sessions()
        assert (record.turns, record.cards, record.state) == (2, 1, "stored")
        assert (await store.forget(words=["s1"])).forgotten.turns == 0

    async def test_words_that_went_do_not_come_back_with_their_session(self, store: Store) -> None:
        await remember(store, session(), "adopted a kitten")
        await store.forget(words=["s1"])
        assert (await store.keep(session())).state == "stored"
        grown = session("s1", *(turn.text for turn in session().turns), "And a dog.")
        assert (await store.keep(grown)).state == "pending"
        (left,) = await waiting(store)
        assert [turn.text for turn in left.turns] == ["", "", "And a dog."]

    async def test_turns_without_cards_keep_their_words(self, store: Store) -> None:
        await remember(store, session(), "adopted a kitten")
        await append(store, "s1", session("s1", "More.").turns, MAY)
        await store.forget(words=["s1"])
        (left,) = await waiting(store)
        assert [turn.text for turn in left.turns] == ["", "", "More."]
        changed = session("s1", "I adopted a cat.", "How lovely!", "More.")
        await store.keep(changed)
        (left,) = await waiting(store)
        assert [turn.text for turn in left.turns] == ["I adopted a cat.", "", "More."]

    async def test_a_card_stays_if_its_words_went_and_the_session_changed(
        self, store: Store
    ) -> None:
        await remember(store, session(), "adopted a kitten")
        await store.forget(words=["s1"])
        changed = session("s1", *(turn.text for turn in session().turns), "Later.")
        await store.keep(changed.model_copy(update={"at": MAY + timedelta(days=1)}))
        assert await all_facts(store) == ["adopted a kitten"]
        assert (await store.check()).sound

    async def test_all_vectors_can_be_made_anew_without_words(self, store: Store) -> None:
        await remember(store, session(), "adopted a kitten")
        await store.forget(words=["s1"])
        asked: dict[str, list[str]] = {}

        async def embed(index: str, texts: Sequence[str]) -> Vectors:
            asked[index] = [*texts]
            return matrix(texts)

        assert await store.bind("other", DIM, embed) == 1
        (text,) = asked.pop("cards")
        assert asked == {}
        assert await facts(store, (await found(store, text))[0]) == ["adopted a kitten"]


class AppendContract:
    async def test_turns_are_added_to_a_session_and_a_new_one_is_made(self, store: Store) -> None:
        said = session("s1", "one", "two", "three").turns
        assert (await append(store, "s1", said[:1], MAY)).state == "pending"
        record = await append(store, "s1", said[1:], MAY)
        assert (record.turns, await waiting(store)) == (3, [session("s1", "one", "two", "three")])

    async def test_cards_stay_while_what_was_added_waits(self, store: Store) -> None:
        await remember(store, session("s1", "one"), "says one")
        await append(store, "s1", session("s1", "", "two").turns[1:], MAY)
        await append(store, "s1", session("s1", "three").turns, MAY)
        assert await waiting(store) == [session("s1", "one", "two", "three")]
        assert await all_facts(store) == ["says one"]
        assert (await store.check()).sound

    async def test_a_turn_with_a_known_key_is_dropped(self, store: Store) -> None:
        one, two = (Turn(speaker="Ana", text="the same", key=key) for key in ("k1", "k2"))
        await append(store, "s1", [one, one], MAY)
        record = await append(store, "s1", [one, two, Turn(speaker="Ana", text="the same")], MAY)
        assert record.turns == 3
        assert (await append(store, "s1", [two], MAY)).turns == 3
        await settle(store, kept := (await waiting(store))[0], derived(kept))
        assert (await append(store, "s1", [one], MAY)).state == "empty"
        assert [turn.key for turn in (await session_in(store, "s1")).turns] == ["k1", "k2", None]

    async def test_no_append_is_lost_when_many_come_at_once(self, open_space: OpenSpace) -> None:
        stores = [await open_space(), await open_space()]
        await asyncio.gather(
            *(
                append(stores[n % 2], "s1", [Turn(speaker="Ana", text=f"said {n}")], MAY)
                for n in range(10)
            )
        )
        texts = [turn.text for turn in (await session_in(stores[0], "s1")).turns]
        assert sorted(texts) == [f"said {n}" for n in range(10)]


class ClaimContract:
    async def test_one_of_two_makes_the_cards_of_a_session(self, open_space: OpenSpace) -> None:
        one, other = await open_space(), await open_space()
        await one.keep(session())
        async with one.claim("s1") as mine:
            assert mine
            async with other.claim("s1") as theirs:
                assert not theirs
        async with other.claim("s1") as theirs:
            assert theirs
            await settle(other, session(), derived(session()))
        async with one.claim("s1") as mine:
            assert not mine  # its cards are made

    async def test_what_is_at_work_is_marked(self, store: Store) -> None:
        await store.keep(session())
        async with store.claim("s1"):
            (record,) = await store.sessions()
            assert (record.state, record.reason) == ("pending", BEGUN)
            await fail(store, "s1", "it broke")
        async with store.claim("s1") as mine:
            assert mine
            assert (await store.sessions())[0].reason == "it broke"

    async def test_a_changed_text_can_be_claimed_again(self, open_space: OpenSpace) -> None:
        one, other = await open_space(), await open_space()
        await one.keep(session())
        async with one.claim("s1"):
            await other.keep(session("s1", "changed"))
            async with other.claim("s1") as theirs:
                assert theirs


class LogContract:
    async def test_entries_come_back_in_order(self, open_space: OpenSpace) -> None:
        store = await open_space()
        await store.keep(session("before"))
        store.author = Author("Ana's phone", lambda: MAY)
        for n in range(1, 6):
            await store.keep(session(f"s{n}"))
        entries = await store.log()
        assert [entry.targets for entry in entries] == [(f"s{n}",) for n in range(1, 6)]
        assert {(entry.actor, entry.verb, entry.at) for entry in entries} == {
            ("Ana's phone", "keep", MAY)
        }
        assert await store.log(after=1, before=4) == entries[1:3]
        assert await store.log(limit=2) == entries[3:]
        assert await (await open_space("ben")).log() == []

    async def test_what_is_not_done_is_not_logged(self, store: Store) -> None:
        store.author = Author("Ana", lambda: MAY)
        await store.keep(session())
        await store.keep(session())
        with pytest.raises(NotInMemory):
            await store.forget(sessions=["s1", "nowhere"])
        assert [entry.verb for entry in await store.log()] == ["keep"]


class TransferContract:
    async def test_whole_sessions_arrive_as_they_were(self, open_space: OpenSpace) -> None:
        store, other = await open_space(), await open_space("ben")
        of, held = session(), [Quarantined(subject="Ana", fact="owns a yacht", reason="no turn")]
        await store.keep(of)
        await settle(store, of, derived(of, card(of, "likes tea"), quarantined=held, tokens=7))
        await append(store, "s1", session("s1", "more").turns, MAY)
        await fail(store, "s1", "nonsense")
        await store.keep(session("s2", "waits"))
        await other.put(await store.read(["s1", "s2", "nowhere"]))
        assert await other.sessions() == await store.sessions()
        held = await store.read(["s1", "s2"])
        for one, two in zip(held, await other.read(["s1", "s2"]), strict=True):
            assert (one.session, one.done) == (two.session, two.done)
            assert one.derived.cards == two.derived.cards
            assert one.derived.quarantined == two.derived.quarantined
            np.testing.assert_array_equal(one.derived.card_vectors, two.derived.card_vectors)
            np.testing.assert_array_equal(one.derived.passage_vectors, two.derived.passage_vectors)

    async def test_what_was_forgotten_here_does_not_arrive(self, open_space: OpenSpace) -> None:
        store, other = await open_space(), await open_space("ben")
        of = session("s1", "I play the theremin.", "I bake bread.")
        await store.keep(of)
        cards = card(of, "plays", turns=(1,)), card(of, "bakes", turns=(2,)), card(of, "sings")
        await settle(store, of, derived(of, *cards))
        await other.keep(of)
        await settle(other, of, derived(of, *cards))
        await other.forget(cards=[cards[1].id], turns=[("s1", 1)])
        metadata = await other.metadata()
        assert cards[1].id in metadata.forgotten
        await store.put([], forgotten=metadata.forgotten)
        assert (await store.metadata()).forgotten == metadata.forgotten
        await other.put(await store.read(["s1"]))
        assert await all_facts(other) == []
        assert await session_in(other, "s1") == of.without([1])


class SpentOnContract:
    async def test_attempts_at_a_sessions_cards_add_up_until_they_are_made(
        self, open_space: OpenSpace
    ) -> None:
        store, of, day = await open_space(), session(), date(2024, 6, 1)
        await store.keep(of)
        await store.spend(day, 40, session="s1")
        await fail(store, "s1", "away")
        await store.spend(day, 2, session="s1")
        again = await open_space()
        assert (await spent_on(again, "s1"), await spent(again, day)) == (42, 42)
        await again.keep(of)
        assert await spent_on(again, "s1") == 42
        await settle(again, of, derived(of))
        assert await spent_on(again, "s1") == 0

    async def test_a_changed_text_starts_anew(self, store: Store) -> None:
        day = date(2024, 6, 1)
        await store.keep(session())
        await store.spend(day, 40, session="s1")
        await store.keep(session("s1", "Another text."))
        assert await spent_on(store, "s1") == 0
        await remember(store, session("s1", "Another text."), "said something")
        await store.keep(session("s1", "A third."))
        await store.spend(day, 7, session="s1")
        assert await spent_on(store, "s1") == 7
        await remember(store, session("s1", "A third."))
        assert await spent_on(store, "s1") == 0

    async def test_what_a_forgotten_session_cost_is_still_the_days(self, store: Store) -> None:
        day = date(2024, 6, 1)
        await store.spend(day, 5, session="never there")
        assert (await spent(store, day), await spent_on(store, "never there")) == (5, 0)


class CheckContract:
    async def test_a_space_that_was_worked_with_is_sound(self, store: Store) -> None:
        await remember(store, session("s1"), "likes tea", "adopted a kitten")
        await remember(store, session("s2", "I ran.", "How far?"), "ran")
        await remember(store, session("s2", "I ran a lot."), "ran a lot")
        await append(store, "s1", session("s1", "I adopted two.").turns, MAY)
        await store.keep(session("s3"))
        await fail(store, "s3", "the model stayed away")
        await remember(store, session("s4"), "gone soon")
        await store.forget(cards=[card(session("s1"), "likes tea").id], sessions=["s4"])
        checked = await store.check()
        assert checked.sound, checked.damage
        assert (checked.space, checked.sessions, checked.cards) == ("ana", 3, 2)
        assert checked.passages == 3

    async def test_cards_without_vectors_are_named(self, store: Store) -> None:
        of = session("s1")
        await store.keep(of)
        await store.bind("none", DIM)
        none = np.zeros((0, 0), np.float32)
        made = replace(derived(of, card(of, "likes tea")), card_vectors=none, passage_vectors=none)
        await settle(store, of, made)
        whats = [each.what for each in (await store.check()).damage]
        assert whats == [
            "session 's1': the cards have no sound vectors",
            "session 's1': the passages have no sound vectors",
        ]

    async def test_a_card_on_turns_that_are_not_there_is_named(self, store: Store) -> None:
        of = session("s1")
        stray = card(of, "likes tea").model_copy(update={"turns": (7,)})
        await store.keep(of)
        await settle(store, of, derived(of, stray))
        (found,) = (await store.check()).damage
        assert found.what == "session 's1': a card names turns that do not exist"
        assert "forget that session" in found.fix


class StoreContract(
    CheckContract,
    KeepingContract,
    SettlingContract,
    SearchContract,
    CardsContract,
    ForgettingContract,
    EmbedderContract,
    LedgerContract,
    AppendContract,
    ClaimContract,
    LogContract,
    TransferContract,
    LabelsContract,
    WordsContract,
    SpentOnContract,
):
    """All of it."""
