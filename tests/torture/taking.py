"""Random histories, exported and loaded elsewhere: the same memory, with its log in order."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from justmem import AsyncMemory
from justmem.errors import ModelUnavailable
from justmem.ports import Extraction, Store
from justmem.store.storage import Storage, storage
from justmem.testing import HashEmbedder
from justmem.transfer import wholes
from justmem.transfer.lines import session_line
from postgres import Server, binaries, create_database, short_folder
from stories import by_rules

PROMISE = "An export that is imported elsewhere is the same memory. Every change log is complete."
COUNT = 200
SAMPLE = 3

_WHO = ("Ana", "Ben", "my sister Ines", "the cat", "Zoë")
_DID = ("bought", "lost", "loves", "hates", "planned", "cooked", "repaired", "forgot")
_WHAT = ("a green bike", "the piano", "walnuts", "a trip to Kyoto", "ten plates", "naïve art \0")
_QUESTIONS = ("What did Ana buy?", "Who loves walnuts?", "What is planned for Kyoto?")


def run(count: int, seed: int = 7) -> str:
    return asyncio.run(_run(count, seed))


async def _run(count: int, seed: int) -> str:
    sessions = 0
    with _folder() as folder, _addresses(folder) as addresses:
        places = [storage(address) for address in addresses]
        for number in range(count):
            chance = random.Random(f"{seed}-{number}")
            try:
                sessions += await _one(chance, places, folder, f"{number}")
            except AssertionError as error:
                raise AssertionError(f"history {number} of seed {seed}: {error}") from error
        for place in places:
            await place.close()
    kinds = "both stores" if len(addresses) == 3 else "SQLite alone"
    return f"{count:,} histories, {sessions:,} sessions, on {kinds}: equal, logs whole"


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jm-taking-", ignore_cleanup_errors=True) as made:
        yield Path(made)


@contextmanager
def _addresses(folder: Path) -> Iterator[list[Path | str]]:
    """Two folders, and a database where there is a server for it."""
    folders: list[Path | str] = [folder / "one", folder / "two"]
    if binaries() is None:
        yield folders
        return
    server = Server(short_folder())
    server.start()
    try:
        yield [*folders, create_database(server.url(), "taking")]
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


class _Moody:
    """Rules that fail now and then, as a model would."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._rules = by_rules()["extractor"]

    async def extract(self, session: Any, *, limit: int | None, after: int = 0) -> Extraction:
        if self._chance.random() < 0.15:
            raise ModelUnavailable("The model stayed away.")
        found = await self._rules.extract(session, limit=limit, after=after)
        assert isinstance(found, Extraction)
        return found


@asynccontextmanager
async def _opened(
    place: Storage, space: str, chance: random.Random
) -> AsyncIterator[tuple[AsyncMemory, Store]]:
    store = await place.open(space)
    stages = {**by_rules(), "extractor": _Moody(chance)}
    memory = AsyncMemory(store, HashEmbedder(32), actor="torture", **stages)
    try:
        yield memory, store
    finally:
        await memory.forget(everything=True)


async def _one(chance: random.Random, places: list[Storage], folder: Path, name: str) -> int:
    here, there = chance.sample(places, 2)
    async with _opened(here, f"{name} here", chance) as (memory, store):
        await _live(memory, chance)
        file = folder / f"{name}.jsonl"
        vectors = chance.random() < 0.5
        lines = [line async for line in memory.export(vectors=vectors)]
        file.write_text("".join(lines), "utf-8")
        async with _opened(there, f"{name} there", chance) as (again, other):
            done = await again.load(file)
            await _compare(memory, again)
            await _compare_stores(store, other)
            assert done.embedded == 0 or not vectors, "vectors were made anew"
            assert (await again.load(file)).brought == 0, "loading again brought something"
            for side in (memory, again):
                checked = await side.check_log()
                assert checked.whole, checked.problem
            return done.sessions


async def _live(memory: AsyncMemory, chance: random.Random) -> None:
    """A while with a memory: told, told otherwise, failed, retried, forgotten, asked."""
    at = datetime(2024, 1, 1)
    told: list[str] = []
    for number in range(chance.randint(1, 8)):
        at += timedelta(days=chance.randint(0, 40), minutes=number)
        id = chance.choice(told) if told and chance.random() < 0.25 else f"s{number} é/"
        told = [*told, id] if id not in told else told
        act = memory.keep if chance.random() < 0.15 else memory.remember
        await act(_session(chance), id=id, at=at)
        if chance.random() < 0.2:
            await memory.retry()
        if chance.random() < 0.2 and (cards := await memory.cards()):
            await memory.forget(card=chance.choice(cards).id)
        if chance.random() < 0.1:
            await memory.forget(session=(gone := chance.choice(told)))
            told.remove(gone)
        if chance.random() < 0.3:
            await memory.recall(chance.choice(_QUESTIONS))


def _session(chance: random.Random) -> list[dict[str, str]]:
    def sentence() -> str:
        return f"{chance.choice(_WHO)} {chance.choice(_DID)} {chance.choice(_WHAT)}."

    return [
        {"role": chance.choice(["user", "assistant"]), "content": sentence() * chance.randint(1, 3)}
        for _ in range(chance.randint(1, 4))
    ]


async def _compare(one: AsyncMemory, other: AsyncMemory) -> None:
    assert await one.sessions() == await other.sessions(), "sessions differ"
    assert await one.waiting() == await other.waiting(), "what waits differs"
    for question in _QUESTIONS:
        found = [await side.recall(question) for side in (one, other)]
        left, right = (
            sorted((round(each.score, 4), each.card.id) for each in evidence.chosen)
            for evidence in found
        )
        assert [score for score, _ in left] == [score for score, _ in right], question


async def _compare_stores(one: Store, other: Store) -> None:
    prints = [
        [session_line(whole, vectors=True) async for whole in wholes(side)] for side in (one, other)
    ]
    assert prints[0] == prints[1], "the stores hold different things"
    sides = [one, other]
    assert await sides[0].rest() == await sides[1].rest()
