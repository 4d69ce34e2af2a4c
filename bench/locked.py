"""What locking a space costs, in CPU time, beside the same space in plain.

    python bench/locked.py --cards 1000 10000 100000

recall     a whole recall without reranking (rules plan, real query embedding, search, ten cards)
search     the store's share of it: dense 40 + lexical 20 for a new question
remember   keep + settle of a session, commits included
opening    opening the space and its first search, which reads every vector; by a raw key
passphrase opening an empty space by a passphrase, from which SQLCipher derives the key
rekey      giving the whole space another key

Both spaces hold the same, and take turns in one process. Medians; one BLAS thread, one ONNX
thread; the disk cache is warm.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads: CPU time must be work, not waiting

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from published import publish
from pydantic import SecretStr

from justmem import AsyncMemory, config, transfer
from justmem.language.languages import LANGUAGES
from justmem.memory_parts import Parts
from justmem.models.onnx import OnnxEmbedder
from justmem.models.weights import ensure
from justmem.ports import SearchLimits
from justmem.store.engine import storage
from justmem.store.files import Keyring
from justmem.store.sqlite import open_store, rekey
from justmem.store.store import SqlStore
from store import CARDS_A_SESSION, Writer, build

QUESTION = "When did Mira's {} {} have the {} {}?"
FIRST, KEYS = (Keyring(SecretStr(digits * 32)) for digits in ("a1", "5f"))


def local_embedder() -> Any:
    name = "bge-small-en-v1.5"
    return OnnxEmbedder(name, ensure(name, folder=config.load().models_folder), threads=1)


async def took(work: Awaitable[object]) -> float:
    began = process_time()
    await work
    return process_time() - began


def row(what: str, plain: list[float], locked: list[float]) -> dict[str, float]:
    one, other = 1e3 * median(plain), 1e3 * median(locked)
    print(f"  {what:<10} {one:>10.2f} {other:>10.2f} {other / one:>8.2f}", flush=True)
    return {f"{what}.plain": one, f"{what}.locked": other}


async def compared(cards: int, embedder: Any, rounds: int) -> dict[str, float]:
    writer = Writer(embedder.dim, turns=4)
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / name for name in ("plain", "locked")]
        await build(folders[0], cards, writer)
        await _locked_copy(*folders)
        began = process_time()
        rekey(folders[1], "bench", FIRST, KEYS)
        locking = process_time() - began
        found = await opening(folders, writer)
        stores = [
            await open_store(folder, "bench", keys=keys)
            for folder, keys in zip(folders, (None, KEYS), strict=True)
        ]
        memories = [memory_of(store, embedder) for store in stores]
        found |= await asking(memories, stores, writer, rounds)
        found |= await remembering(stores, cards, writer, rounds)
        for memory in memories:
            await memory.close()
    print(f"  rekey      {1e3 * locking:>21.2f}")
    found["rekey.locked"] = 1e3 * locking
    return {f"cards_{cards}.{name}": value for name, value in found.items()}


async def _locked_copy(plain: Path, locked: Path) -> None:
    source = await storage(plain).open("bench")
    target = await storage(locked, FIRST).open("bench")
    await transfer.copy(source, target)
    await source.close()
    await target.close()


def memory_of(store: SqlStore, embedder: Any) -> AsyncMemory:
    parts = Parts(embedder, LANGUAGES)
    return AsyncMemory(store, parts)


async def opening(folders: list[Path], writer: Writer) -> dict[str, float]:
    times: list[list[float]] = [[], []]
    for _ in range(7):
        view = writer.question()
        for spent, folder, keys in zip(times, folders, (None, KEYS), strict=True):
            began = process_time()
            store = await open_store(folder, "bench", keys=keys)
            await store.find([view], SearchLimits(dense=40, lexical=20))
            spent.append(process_time() - began)
            await store.close()
    return row("opening", *times)


async def asking(
    memories: list[AsyncMemory], stores: list[SqlStore], writer: Writer, rounds: int
) -> dict[str, float]:
    recalls: list[list[float]] = [[], []]
    searches: list[list[float]] = [[], []]
    for number in range(rounds + 3):
        question, view = QUESTION.format(*writer.words(4)), writer.question()
        for side in (0, 1):
            recall = await took(memories[side].recall(question))
            near = stores[side].find([view], SearchLimits(dense=40, lexical=20))
            search = await took(near)
            if number >= 3:  # the first ones warm up
                recalls[side].append(recall)
                searches[side].append(search)
    return row("recall", *recalls) | row("search", *searches)


async def remembering(
    stores: list[SqlStore], cards: int, writer: Writer, rounds: int
) -> dict[str, float]:
    times: list[list[float]] = [[], []]
    fresh = writer.sessions(cards + CARDS_A_SESSION * (rounds + 1))
    for session, derived in islice(fresh, cards // CARDS_A_SESSION + 1, None):
        for spent, store in zip(times, stores, strict=True):
            keeping = await took(store.keep(session))
            (whole,) = await store.read([session.id])
            spent.append(keeping + await took(store.settle(whole, derived)))
    return row("remember", *times)


async def by_passphrase() -> float:
    keys = Keyring(SecretStr("a passphrase"))
    with tempfile.TemporaryDirectory() as folder:
        await (await open_store(Path(folder), "bench", keys=keys)).close()
        began = process_time()
        store = await open_store(Path(folder), "bench", keys=keys)
        await store.metadata()
        spent = process_time() - began
        await store.close()
    return spent


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cards", type=int, nargs="+", default=[1000, 10_000, 100_000])
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--figures", type=Path, help="Enter the figures into this file.")
    given = options.parse_args()
    embedder = local_embedder()
    found: dict[str, float] = {}
    for cards in given.cards:
        print(f"{cards:,} cards, CPU ms   plain     locked    ratio")
        found |= await compared(cards, embedder, given.rounds)
    found["passphrase"] = 1e3 * await by_passphrase()
    print(f"opening an empty space by a passphrase: {found['passphrase']:.0f} ms")
    command = f"locked.py --cards {' '.join(map(str, given.cards))}"
    publish(given.figures, "bench-locked", found, given.rounds, command)


if __name__ == "__main__":
    asyncio.run(main())
