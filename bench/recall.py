"""What a recall and a remember cost in CPU time, beside the least they could cost.

    python bench/recall.py --cards 1000 10000 100000

recall    a whole recall without reranking (rules plan, real query embedding, dense and lexical
          search, ten cards), against embedding the question and a bare numpy scan
remember  rules extraction, embedding and storing of real-looking sessions; what is ours is all
          but the embedding

Medians of many rounds in one process, which take turns; one BLAS thread, one ONNX thread, one core:
what a thread pays for waking up on another one is the machine's doing.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads: CPU time must be work, not waiting

import argparse
import asyncio
import json
import tempfile
from importlib import resources
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from justmem import AsyncMemory, config
from justmem.answer import RulesAnswerer
from justmem.embed import opening, passages
from justmem.extract.rules import RulesExtractor
from justmem.intake.sessions import as_session
from justmem.language.languages import LANGUAGES
from justmem.parts import Parts
from justmem.plan import RulesPlanner
from justmem.ports import Embedded
from justmem.store.sqlite import open_store
from store import Writer, build

QUESTION = "When did Mira's {} {} have the {} {}?"


def local_embedder() -> Any:
    from justmem.models.onnx import OnnxEmbedder
    from justmem.models.weights import ensure

    name = "bge-small-en-v1.5"
    return OnnxEmbedder(name, ensure(name, folder=config.load().models_folder), threads=1)


async def memory_of(folder: Path, embedder: Any) -> AsyncMemory:
    parts = Parts(
        embedder,
        LANGUAGES,
        RulesExtractor(LANGUAGES),
        RulesPlanner(LANGUAGES),
        RulesAnswerer(LANGUAGES),
    )
    return AsyncMemory(await open_store(folder, "bench"), parts)


async def recall(cards: int, embedder: Any, rounds: int) -> tuple[float, float]:
    """(a recall, its floor) in seconds of CPU."""
    writer = Writer(embedder.dim, turns=20)
    with tempfile.TemporaryDirectory() as folder:
        await build(Path(folder), cards, writer)
        bare = writer.vectors(cards)
        memory = await memory_of(Path(folder), embedder)
        ours, floor = [], []
        for number in range(rounds + 3):
            question = QUESTION.format(*writer.words(4))
            began = process_time()
            await memory.recall(question)
            whole = process_time() - began
            began = process_time()
            [vector] = (await embedder.embed([question], query=True)).vectors
            np.argpartition(bare @ vector, max(0, cards - 40))[-40:]
            least = process_time() - began
            if number >= 3:  # the first ones warm up
                ours.append(whole)
                floor.append(least)
        await memory.close()
    return median(ours), median(floor)


class Known:
    """The real vectors, made beforehand: what is left of a remember is our own work."""

    def __init__(self, embedder: Any) -> None:
        self.name, self.dim = embedder.name, embedder.dim
        self.vectors: dict[str, Any] = {}
        self.seconds = 0.0  # of looking them up, which is not remembering

    async def embed(self, texts: Any, *, query: bool = False) -> Embedded:
        began = process_time()
        rows = [self.vectors[text] for text in texts]
        embedded = Embedded(np.array(rows, np.float32).reshape(len(rows), self.dim), 0)
        self.seconds += process_time() - began
        return embedded


async def remember(embedder: Any, rounds: int) -> tuple[float, float, float, float]:
    """CPU seconds per session: (extraction by rules, the rest of our own, embedding the cards),
    and cards per session. They take turns; medians over the rounds, the first left out."""
    history = json.loads(resources.files("justmem.demo").joinpath("history.json").read_text())
    known, rules = Known(embedder), RulesExtractor(LANGUAGES)
    count, measured = len(history["sessions"]), []
    with tempfile.TemporaryDirectory() as folder:
        memory = await memory_of(Path(folder), known)
        for number in range(rounds + 1):
            extracting = embedding = whole = 0.0
            cards = 0
            for given in history["sessions"]:
                session = as_session({**given, "id": f"{given['id']}-{number}"})
                began = process_time()
                extraction = await rules.extract(session, limit=None)
                extracting += process_time() - began
                texts = [LANGUAGES.search_text(card.dated) for card in extraction.cards]
                began = process_time()
                embedded = await embedder.embed(texts)
                embedding += process_time() - began
                known.vectors |= dict(zip(texts, embedded.vectors, strict=True))
                spoken = [
                    opening(session.turn(each.turn).text[each.start : each.end])
                    for each in passages(session)
                ]
                known.vectors |= dict.fromkeys(spoken, embedded.vectors[0])
                began, looked_up = process_time(), known.seconds
                await memory.remember(session)
                whole += process_time() - began - (known.seconds - looked_up)
                cards += len(texts)
            measured.append((extracting, whole - extracting, embedding, cards))
        await memory.close()
    extract, own, embed, made = (median(each) / count for each in zip(*measured[1:], strict=True))
    return extract, own, embed, made


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cards", type=int, nargs="+", default=[1000, 10_000, 100_000])
    options.add_argument("--rounds", type=int, default=40)
    given = options.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    embedder = local_embedder()
    print("recall without reranking, CPU ms      ours   embed + scan   ratio")
    for cards in given.cards:
        ours, floor = await recall(cards, embedder, given.rounds)
        print(f"{cards:>12,} cards {1e3 * ours:>23.1f} {1e3 * floor:>14.1f} {ours / floor:>7.2f}")
    extracting, own, embedding, cards = await remember(embedder, 31)
    print(f"\nremember, CPU ms per session of {cards:.1f} cards")
    print(f"  embedding its cards        {1e3 * embedding:>8.2f}")
    print(f"  extraction by rules        {1e3 * extracting:>8.2f}")
    print(f"  all else that is ours      {1e3 * own:>8.2f}  {own / embedding:>6.1%} of embedding")


if __name__ == "__main__":
    asyncio.run(main())
