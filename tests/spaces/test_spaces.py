"""Spaces: many users in one process."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Any

import pytest

import justmem
from justmem.errors import InputError, ModelUnavailable, NotInMemory, StoreError
from justmem.testing import HashEmbedder, ScriptedModel

pytest_plugins = ["postgres_fixtures"]


def spaces_in(folder: Path | None = None, **settings: Any) -> justmem.Spaces:
    settings = {"embedder": HashEmbedder(64), "reranker": None, "model": None, **settings}
    return justmem.Spaces(folder=folder, **settings)


def said(text: str, speaker: str = "Ana") -> list[dict[str, str]]:
    return [{"speaker": speaker, "text": text}]


async def test_each_user_has_a_memory_and_all_share_the_models(tmp_path: Path) -> None:
    async with spaces_in(tmp_path) as spaces:
        for name, town in (("ana", "Porto"), ("ben", "Graz")):
            async with spaces.use(name) as memory:
                await memory.remember(said(f"I live in {town}."), at="2024-05-01")
        async with spaces.use("ben") as memory:
            (card,) = await memory.cards()
            assert "Graz" in card.fact
        assert await spaces.names() == ["ana", "ben"]


async def test_cards_are_made_in_the_background(tmp_path: Path) -> None:
    async with spaces_in(tmp_path) as spaces:
        record = await spaces.remember("ana", said("I live in Porto."), at="2024-05-01", id="one")
        kept = await spaces.append("ana", said("I own a boat."), id="two", at="2024-05-02")
        assert [record.state, kept.state] == ["pending", "pending"]
        async with spaces.use("ana") as memory:
            assert (await memory.recall("Where does Ana live?")).cards  # found by its words
        await spaces.drain()
        async with spaces.use("ana") as memory:
            assert [card.session_id for card in await memory.cards()] == ["one", "two"]


async def test_errors_of_the_background_go_to_the_hook(tmp_path: Path) -> None:
    told: list[tuple[str, str, str]] = []

    def on_error(space: str, session: str, error: Exception) -> None:
        told.append((space, session, str(error)))

    model = ScriptedModel(lambda prompt: ModelUnavailable("The model stayed away."))
    async with spaces_in(tmp_path, model=model, on_error=on_error) as spaces:
        await spaces.append("ana", said("I live in Porto."), id="one", at="2024-05-01")
        await spaces.drain()
        async with spaces.use("ana") as memory:
            assert [each.id for each in await memory.waiting()] == ["one"]
    assert told == [("ana", "one", "The model stayed away.")]


async def test_several_spaces_are_recalled_in_one_ranking(tmp_path: Path) -> None:
    async with spaces_in(tmp_path) as spaces:
        for space, texts in {
            "ana": ["I live in Porto.", "I own a red boat.", "My sister sings."],
            "team": ["The budget of the boat club is 900 euros.", "We meet on Mondays."],
        }.items():
            async with spaces.use(space) as memory:
                for n, text in enumerate(texts):
                    # The same session ids in both spaces.
                    await memory.remember(said(text), at="2024-05-01", id=f"s{n}")
        found = await spaces.recall("What is the budget of the boat club?", ["ana", "team"])
        assert found.cards[0].space == "team"
        assert "900 euros" in found.cards[0].card.fact
        assert {one.space for one in found.cards} == {"ana", "team"}
        assert [one.score for one in found.cards] == sorted(
            (one.score for one in found.cards), reverse=True
        )
        assert "team: 2024-05-01 Ana: The budget of the boat club" in found.prompt()
        assert found.prompt(10) == ""


async def test_pinned_cards_are_in_the_recall_of_several_spaces(tmp_path: Path) -> None:
    async with spaces_in(tmp_path, budget={"cards": 2}) as spaces:
        for name in ("ana", "ben"):
            async with spaces.use(name) as memory:
                await memory.remember(said("I am allergic to walnuts.", name), at="2024-05-01")
                await memory.pin((await memory.cards())[0].id)
                for n in range(3):
                    await memory.remember(
                        said(f"I painted {n} boats.", name), at=f"2024-06-0{n + 1}"
                    )
        found = await spaces.recall("Which boats did Ana paint?", ["ana", "ben"])
        assert len(found.cards) == 3
        assert (found.cards[-1].space, found.cards[-1].card.fact) == (
            "ana",
            "said: I am allergic to walnuts.",
        )
        assert "each line is from its space and [source]" in found.prompt()


async def test_pinned_cards_stay_longest_in_a_prompt_of_several_spaces(tmp_path: Path) -> None:
    async with spaces_in(tmp_path) as spaces:
        for name in ("ana", "ben"):
            async with spaces.use(name) as memory:
                await memory.remember(said("I am allergic to walnuts.", name), at="2024-05-01")
                for n in range(6):
                    day = f"2024-06-0{n + 1}"
                    await memory.remember(said(f"Ana painted boat {n}.", name), at=day)
                if name == "ana":
                    await memory.pin((await memory.cards(text="walnuts"))[0].id)
        found = await spaces.recall("Which boats did Ana paint?", ["ana", "ben"])
        (pinned,) = (one for one in found.cards if one.pinned)
        assert (pinned.space, pinned.card.fact) == ("ana", "said: I am allergic to walnuts.")
        small = [text for size in range(60, 400, 10) if (text := found.prompt(size))]
        assert small[0].count("ana: ") + small[0].count("ben: ") < len(found.cards)
        assert all("walnuts" in text for text in small)


async def test_a_model_plans_a_question_about_several_spaces_once(tmp_path: Path) -> None:
    reply = {"op": "lookup", "period": "", "spans": False, "source": False, "rewrites": ["a boat"]}
    planner = ScriptedModel(lambda prompt: reply)
    async with spaces_in(tmp_path, planner=planner) as spaces:
        for name in ("ana", "ben", "cleo"):
            async with spaces.use(name) as memory:
                await memory.remember(said("I own a red boat.", name), at="2024-05-01")
        found = await spaces.recall("Who owns a red boat?", ["ana", "ben", "cleo"])
        assert {one.space for one in found.cards} == {"ana", "ben", "cleo"}
        assert len(planner.prompts) == len(found.receipt.calls) == 1


async def test_recall_needs_spaces_that_are_there(tmp_path: Path) -> None:
    async with spaces_in(tmp_path) as spaces:
        with pytest.raises(NotInMemory, match="'nobody'"):
            await spaces.recall("Where?", ["nobody"])
        for wrong in ([], "ana", [3], [["ana"]], None, 3, iter(())):
            with pytest.raises(InputError):
                await spaces.recall("Where?", wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="must be a text, not 3"):
            await spaces.append(3, said("Hi"), id="c")  # type: ignore[arg-type]
        assert await spaces.names() == []
    with pytest.raises(StoreError, match="closed"):
        await spaces.append("ana", said("Hi"), id="c")


async def test_closing_does_not_report_used_spaces_as_erased(tmp_path: Path) -> None:
    spaces = spaces_in(tmp_path)
    together = asyncio.Barrier(3)

    async def use(*, again: bool) -> str:
        async with spaces.use("bob") as memory:
            await memory.remember(said("I live in Porto."), at="2024-05-01", id="c")
            await together.wait()  # until all have stored
            await together.wait()  # until the spaces are closed
            if again:
                await memory.cards()
        return "done"

    tasks = [asyncio.create_task(use(again=again)) for again in (False, True)]
    await together.wait()
    await spaces.close()
    await together.wait()
    done, failed = await asyncio.gather(*tasks, return_exceptions=True)
    assert done == "done"
    assert isinstance(failed, StoreError)
    assert "is closed" in str(failed)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_space_that_another_process_erases_is_not_held(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("justmem.transfer.BATCH", 1)
    lines: list[str] = []

    async def export(here: justmem.Spaces, elsewhere: justmem.Spaces) -> None:
        async with here.use("ana") as memory:
            for n in range(3):
                await memory.remember(said("I live in Porto."), at="2024-05-01", id=f"s{n}")
            async for line in memory.export():
                lines.append(line)
                if len(lines) == 2:
                    await elsewhere.erase("ana")
                assert await here.holds("ana", memory) == (len(lines) < 2)

    store = (
        {"folder": tmp_path}
        if kind == "sqlite"
        else {"store": request.getfixturevalue("database_url")}
    )
    async with spaces_in(**store) as here, spaces_in(**store) as elsewhere:
        with pytest.raises(NotInMemory, match="no space 'ana'"):
            await export(here, elsewhere)
        assert len(lines) == 2
        async with here.use("ana") as memory:  # a new one
            assert await memory.sessions() == []
        await here.erase("ana")


async def test_many_spaces_in_turn_keep_few_files_open(tmp_path: Path) -> None:
    async with spaces_in(tmp_path, most_open=5) as spaces:
        opened = []
        for n in range(60):
            await spaces.append(f"user{n}", said("I live in Porto."), id="c", at="2024-05-01")
            await spaces.drain()  # a space whose cards are being made stays open
            opened.append(len(os.listdir("/proc/self/fd")))
        gc.collect()
        assert spaces.open <= 5
        assert max(opened[30:]) <= max(opened[:30]) + 5


async def test_a_space_that_is_in_use_is_not_closed(tmp_path: Path) -> None:
    async with spaces_in(tmp_path, most_open=1) as spaces:

        async def one(n: int) -> int:
            async with spaces.use(f"user{n}") as memory:
                await memory.remember(said("I live in Porto."), at="2024-05-01", id="c")
                return len(await memory.cards())

        assert await asyncio.gather(*(one(n) for n in range(8))) == [1] * 8
