"""Cards that Spaces makes in the background: turns of the spaces, crashes, forgetting, erasing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import justmem
from justmem import Session
from justmem.errors import NotInMemory, TooSlow
from justmem.ports import Extraction
from justmem.testing import HashEmbedder


class Gated:
    """An extractor that notes what it reads and waits until the gate is open."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.seen: list[str] = []
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()

    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Extraction:
        self.seen.append(f"{session.id}:{session.turns[-1].text}")
        async with asyncio.timeout(20):  # a test that failed ends
            await self.gate.wait()
        return Extraction(cards=[])


def spaces_with(folder: Path, extractor: Any, workers: int = 1) -> justmem.Spaces:
    spaces = justmem.Spaces(
        folder=folder,
        embedder=HashEmbedder(64),
        reranker=None,
        model=None,
        concurrency=workers,
        most_open=2,
        on_error=lambda space, id, error: None,
    )
    spaces.parts = replace(spaces.parts, extractor=extractor)
    return spaces


async def keep(spaces: justmem.Spaces, space: str, *ids: str, text: str = "hello") -> None:
    for id in ids:
        await spaces.remember(space, text, id=id, at="2024-05-20")


async def until(check: Callable[[], bool]) -> None:
    for _ in range(500):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


def ids(gated: Gated) -> list[str]:
    return [each.partition(":")[0] for each in gated.seen]


async def test_spaces_take_turns(tmp_path: Path) -> None:
    gated = Gated()
    async with spaces_with(tmp_path, gated) as spaces:
        await keep(spaces, "a", "a0", "a1", "a2")
        await keep(spaces, "b", "b0")
        await until(lambda: len(gated.seen) == 1)
        gated.gate.set()
        await spaces.drain()
    assert ids(gated) == ["a0", "b0", "a1", "a2"]


async def test_one_space_never_has_all_the_workers(tmp_path: Path) -> None:
    gated = Gated()
    async with spaces_with(tmp_path, gated, workers=3) as spaces:
        await keep(spaces, "a", *(f"a{n}" for n in range(5)))
        await until(lambda: len(gated.seen) == 2)
        await keep(spaces, "b", "b0")
        await until(lambda: len(gated.seen) == 3)
        assert set(ids(gated)) == {"a0", "a1", "b0"}
        assert (spaces.background.waiting, spaces.background.working) == (3, 3)
        gated.gate.set()
        await spaces.drain()
    assert len(gated.seen) == 6


async def test_sessions_in_work_when_the_process_died_come_last(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_with(tmp_path, gated)
    await keep(spaces, "a", "poison", "a1")
    await keep(spaces, "b", "b1")
    await until(lambda: gated.seen == ["poison:hello"])
    await spaces.background.stop(0)  # as if killed: nothing is settled
    await spaces.close()

    again = Gated(is_open=True)
    async with spaces_with(tmp_path, again) as spaces:
        await spaces.background.add_pending(2)
        await spaces.drain()
        async with spaces.use("a") as memory:
            assert {each.state for each in await memory.sessions()} == {"empty"}
    assert ids(again)[-1] == "poison"


async def test_only_the_pending_sessions_of_one_space_are_added(tmp_path: Path) -> None:
    gated = Gated(is_open=True)
    async with spaces_with(tmp_path, gated) as spaces:
        for space in ("mine", "theirs"):
            async with spaces.use(space) as memory:
                await memory.keep("hello", id=space, at="2024-05-20")
        for only in ("mine", "nobody"):
            await spaces.background.add_pending(10, only)
        await spaces.drain()
    assert ids(gated) == ["mine"]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), TooSlow("It took too long.")])
async def test_a_session_whose_cards_cannot_be_made_fails_alone(
    tmp_path: Path, error: Exception
) -> None:
    class Broken(Gated):
        async def extract(
            self, session: Session, *, limit: int | None, after: int = 0
        ) -> Extraction:
            if session.id == "bad":
                raise error
            return await super().extract(session, limit=limit)

    async with spaces_with(tmp_path, Broken(is_open=True)) as spaces:
        await keep(spaces, "a", "bad", "good")
        await spaces.drain()
        async with spaces.use("a") as memory:
            states = {each.id: each for each in await memory.sessions()}
        assert (states["good"].state, states["bad"].state) == ("empty", "failed")
        assert "its cards could not be made" in states["bad"].reason
        await spaces.background.add_pending(10)  # as at the next start
        assert spaces.background.waiting == 0


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "in work"])
async def test_the_newest_text_is_the_one_that_gets_cards(tmp_path: Path, waits: bool) -> None:
    gated = Gated()
    async with spaces_with(tmp_path, gated) as spaces:
        if waits:
            await keep(spaces, "a", "busy")
        await until(lambda: len(gated.seen) == int(waits))
        await keep(spaces, "a", "x", text="one")
        if not waits:
            await until(lambda: len(gated.seen) == 1)
        await keep(spaces, "a", "x", text="two")
        gated.gate.set()
        await spaces.drain()
        async with spaces.use("a") as memory:
            assert (await memory.session("x")).turns[0].text == "two"
            assert await memory.waiting() == []
    assert gated.seen[-1] == "x:two"
    assert waits == ("x:one" not in gated.seen)


async def test_a_session_forgotten_while_it_waits_does_not_come_back(tmp_path: Path) -> None:
    gated = Gated()
    async with spaces_with(tmp_path, gated) as spaces:
        await keep(spaces, "a", "busy")
        await keep(spaces, "a", "x", "y", text="a secret")
        async with spaces.use("a") as memory:
            assert (await memory.forget(session="x")).sessions == 1
            assert (await memory.forget(turn="y#1")).turns == 1
        gated.gate.set()
        await spaces.drain()
        async with spaces.use("a") as memory:
            assert [each.id for each in await memory.sessions()] == ["busy", "y"]
            assert (await memory.session("y")).turns[0].forgotten
    assert "secret" not in str(gated.seen)


async def test_an_erased_space_stays_erased_although_sessions_waited(tmp_path: Path) -> None:
    gated = Gated()
    async with spaces_with(tmp_path, gated) as spaces:
        await keep(spaces, "a", *(f"x{number}" for number in range(5)))
        await until(lambda: len(gated.seen) == 1)
        await spaces.erase("a")
        gated.gate.set()
        await spaces.drain()
        assert await spaces.names() == []


@pytest.mark.parametrize("last", [True, False], ids=["reads again", "has read all"])
async def test_using_an_erased_space_fails(tmp_path: Path, last: bool) -> None:
    async with spaces_with(tmp_path, Gated()) as spaces:

        async def use() -> None:
            async with spaces.use("a") as memory:
                await memory.keep("hello", at="2024-05-20")
                await spaces.erase("a")
                if last:
                    await memory.sessions()

        with pytest.raises(NotInMemory):
            await use()
        assert await spaces.names() == []
        async with spaces.use("a") as memory:
            assert await memory.sessions() == []


async def test_a_cancelled_user_of_a_space_is_cancelled(tmp_path: Path) -> None:
    async with spaces_with(tmp_path, Gated()) as spaces:
        inside = asyncio.Event()

        async def use() -> None:
            async with spaces.use("a"):
                inside.set()
                await asyncio.Event().wait()

        user = asyncio.create_task(use())
        await inside.wait()
        user.cancel()
        with pytest.raises(asyncio.CancelledError):
            await user


async def test_a_pause_begins_again_with_each_text(tmp_path: Path) -> None:
    gated = Gated(is_open=True)
    async with spaces_with(tmp_path, gated) as spaces:
        async with spaces.use("a") as memory:
            await memory.append("one", id="x", at="2024-05-20", cards=False)
            first = spaces.background.add("a", "x", pause=0.2)
            await memory.append("two", id="x", cards=False)
            assert spaces.background.add("a", "x", pause=0.2) is first
        await first
    assert gated.seen == ["x:two"]
