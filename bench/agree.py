"""Whether both stores choose alike: the same questions to the same memory in SQLite and PostgreSQL.

    python bench/agree.py --data FOLDER

remembers LoCoMo's conversations by rules in SQLite, copies them to a PostgreSQL of its own, and
compares for every question the ten chosen cards of a recall without reranking, and, in their order,
what each index finds: forty by vector and twenty by words.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # its `postgres` starts servers

from recall import local_embedder

from justmem import AsyncMemory
from justmem.answer.rules import RulesAnswerer
from justmem.extract.rules import RulesExtractor
from justmem.language.languages import LANGUAGES
from justmem.plan import RulesPlanner
from justmem.ports import Index, Store, View
from justmem.store.storage import storage
from justmem.transfer.copying import copy
from justmem_eval.benchmarks import locomo
from justmem_eval.benchmarks.types import Case, History
from postgres import Server, create_database, short_folder

INDEXES: tuple[Index, ...] = ("cards", "passages")


def memory_of(store: Store, embedder: Any) -> AsyncMemory:
    return AsyncMemory(
        store,
        embedder,
        extractor=RulesExtractor(LANGUAGES),
        planner=RulesPlanner(LANGUAGES),
        answerer=RulesAnswerer(LANGUAGES),
        language=LANGUAGES,
    )


async def compared(
    history: History, cases: list[Case], embedder: Any, folder: Path, url: str
) -> Counter[str]:
    places = [storage(str(folder), None), storage(url, None)]
    one, other = [memory_of(await place.open(history.id), embedder) for place in places]
    await one.remember_many(history.sessions)
    source, target = [await place.open(history.id) for place in places]
    await copy(source, target)
    same: Counter[str] = Counter()
    for case in cases:
        asked = case.question
        chosen = [
            [each.card.id for each in (await memory.recall(asked.text, at=asked.at)).chosen]
            for memory in (one, other)
        ]
        same["the ten cards"] += chosen[0] == chosen[1]
        same["the ten, in any order"] += set(chosen[0]) == set(chosen[1])
        (vector,) = (await embedder.embed([asked.text], query=True)).vectors
        for index in INDEXES:
            views = [View(asked.text, vector)]
            near, worded = [], []
            for side in (source, target):
                (hits,) = await side.search(views, index, dense=40, lexical=20, until=None)
                near.append(await named(side, index, hits.dense))
                worded.append(await named(side, index, hits.lexical))
            same[f"{index} by vector"] += near[0] == near[1]
            same[f"{index} by words"] += worded[0] == worded[1]
    for closing in (one, other, source, target, *places):
        await closing.close()
    return same


async def named(store: Store, index: Index, hits: Sequence[tuple[int, float]]) -> list[Any]:
    """What the keys mean: each store has its own."""
    keys = [key for key, _ in hits]
    found: Any = await (store.cards_at(keys) if index == "cards" else store.passages_at(keys))
    return [found[key].id if index == "cards" else found[key] for key in keys]


async def run(data: Path, url: str) -> None:
    benchmark, embedder, same = locomo.load(data), local_embedder(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for name in dict.fromkeys(case.history for case in benchmark.cases):
            cases = [case for case in benchmark.cases if case.history == name]
            same += await compared(benchmark.history(name), cases, embedder, Path(folder), url)
    total = len(benchmark.cases)
    for what, count in same.items():
        print(f"{what:<22} the same for {count} of {total} questions   {count / total:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="A folder with LoCoMo's file.")
    options = parser.parse_args()
    server = Server(short_folder())
    server.start()
    try:
        asyncio.run(run(options.data, create_database(server.url(), "justmem_agree")))
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
