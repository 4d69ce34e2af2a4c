"""A large space with partitions and indexes of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np

from justmem.ports import View
from justmem.stores.pg import promotion
from justmem.stores.postgres import PostgresStore
from postgres import rows
from store_contract import (
    MAY,
    OpenSpace,
    card,
    facts,
    remember,
    session,
    view,
)

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it


class TestPromotion:
    async def _filled(self, store: PostgresStore, sessions: int = 60) -> None:
        for number in range(sessions):
            of = session(f"s{number}", f"turn {number}", at=MAY + timedelta(days=number))
            await remember(store, of, *(f"fact {number} {n}" for n in range(20)))

    async def _promoted(self, store: PostgresStore) -> list[promotion.Progress]:
        return [progress async for progress in store.promote()]

    async def _nearest(self, store: PostgresStore, text: str, **options: Any) -> list[int]:
        options = {"dense": 10, "until": None, **options}
        (hits,) = await store.search([view(text)], "cards", lexical=0, **options)
        return [key for key, _ in hits.dense]

    async def test_its_own_index_finds_what_the_exact_search_finds(
        self, open_postgres: OpenSpace
    ) -> None:
        store = await open_postgres()
        await self._filled(store)
        asked = [f"Ana fact {n} {n % 20}" for n in range(40)]
        exact = [await self._nearest(store, text) for text in asked]
        done = await self._promoted(store)
        await self._nearest(store, "once, to see that it has been promoted")
        near = [await self._nearest(store, text) for text in asked]
        shared = sum(len({*one} & {*other}) for one, other in zip(exact, near, strict=True))
        assert shared >= 0.98 * 400
        assert (done[-1].copied, done[-1].total) == (60, 60)
        await store.demote()
        assert [await self._nearest(store, text) for text in asked] == exact

    async def test_the_server_really_uses_the_index(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        store = await open_postgres()
        await self._filled(store)
        await self._promoted(store)
        _, asked = promotion.approximate(store.names, "cards", view("fact"), 10, 10**6)
        literal = "'[" + ",".join(map(str, view("fact").vector)) + "]'"
        sql = asked.sql.replace("$2", literal).replace("$1", str(store.names.space))
        sql = sql.replace("$3", "1000000")
        plan = await rows(database_url, f"EXPLAIN {sql}", space="ana")
        assert promotion.near_index(store.names, "cards", 8) in str(plan)
        await store.demote()

    async def test_what_comes_and_goes_afterwards_is_found_and_forgotten(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        store = await open_postgres()
        await self._filled(store, 10)
        await self._promoted(store)
        await self._nearest(store, "look")
        new = session("new")
        await remember(store, new, "likes tea", "likes rain")
        assert (await facts(store, await self._nearest(store, "Ana likes tea")))[0] == "likes tea"
        await store.forget(cards=[card(new, "likes tea").id], sessions=["s3"])
        near = await facts(store, await self._nearest(store, "Ana likes tea", dense=1000))
        assert "likes tea" not in near
        assert len(near) == 181
        left = "SELECT count(*) FROM justmem.promoted_cards"
        assert await rows(database_url, left, space="ana") == [(181,)]
        await store.demote()

    async def test_rows_that_the_index_does_not_give_are_found_exactly(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        store = await open_postgres()
        await self._filled(store, 10)
        await self._promoted(store)
        await self._nearest(store, "look")
        await rows(
            database_url,
            "DELETE FROM justmem.promoted_cards WHERE key > 5 RETURNING 1",
            space="ana",
        )
        assert len(await self._nearest(store, "Ana fact 3 3")) == 10
        early = (MAY + timedelta(days=0)).date()
        assert len(await self._nearest(store, "Ana fact 3 3", until=early)) == 10
        await store.demote()

    async def test_another_opening_does_not_stumble_over_it(self, open_postgres: OpenSpace) -> None:
        one, other = await open_postgres(), await open_postgres()
        await self._filled(one, 5)
        await self._promoted(one)
        for _ in range(2):
            assert len(await self._nearest(other, "fact")) == 10
        await one.demote()
        assert len(await self._nearest(other, "fact")) == 10

    async def test_a_space_that_is_embedded_anew_is_exact_until_promoted_again(
        self, open_postgres: OpenSpace
    ) -> None:
        store = await open_postgres()
        await remember(store, session(), "likes tea", "likes rain")
        await self._promoted(store)
        replaced: Any = {}
        for index in ("cards", "passages"):
            keys = [key for key, _ in await store.texts(index)]
            replaced[index] = keys, np.eye(16, dtype=np.float32)[: len(keys)]
        await store.replace_vectors("wider", 16, replaced)
        await self._promoted(store)
        for _ in range(2):
            asked = View(text="", vector=np.eye(16, dtype=np.float32)[1])
            (hits,) = await store.search([asked], "cards", dense=1, lexical=0, until=None)
            assert await facts(store, [hits.dense[0][0]]) == ["likes rain"]
        await store.demote()
