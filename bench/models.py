"""What the local models cost, and what batching would save and spoil.

    python bench/models.py [--texts 100] [--rounds 3] [--embedders]

The first table compares the embedders as the product runs them. `--embedders` prints only that.
The others show CPU milliseconds per text (or pair), the best of some rounds, beside how far a
text's result moves from the one it has alone. The product runs texts one by one (the first row of
each table).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from published import publish
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from justmem.models import weights
from justmem.models.onnx import OnnxEmbedder, runtime

ort = runtime()

EMBEDDERS = ("bge-small-en-v1.5", "all-MiniLM-L6-v2")
RERANKER = "ms-marco-MiniLM-L-12-v2"

_TEXT = (
    "Caroline adopted puppy shelter marathon yesterday because brother Lisbon office evening "
    "learning Portuguese guitar concert tickets birthday mother recipe garden tomatoes doctor "
    "appointment Tuesday therapist painting sunset beach camping kids school teacher promotion"
)

Groups = Sequence[Sequence[int]]


def sentences(count: int, seed: int = 7) -> list[str]:
    """Made-up sentences with the lengths that chat turns have: many short, a few long."""
    chance, words = random.Random(seed), _TEXT.split()
    lengths = [min(120, 4 + int(chance.expovariate(1 / 18))) for _ in range(count)]
    return [" ".join(chance.choices(words, k=length)) for length in lengths]


def session(path: Path) -> Any:
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = chosen.inter_op_num_threads = 1
    chosen.enable_cpu_mem_arena = False
    return ort.InferenceSession(str(path), chosen, providers=["CPUExecutionProvider"])


def run(model: Any, encoded: Sequence[Any], pooling: str) -> np.ndarray:
    """One padded batch -> one row each."""
    ids = np.zeros((len(encoded), max(len(e.ids) for e in encoded)), np.int64)
    mask, types = np.zeros_like(ids), np.zeros_like(ids)
    for row, encoding in enumerate(encoded):
        length = len(encoding.ids)
        ids[row, :length], types[row, :length] = encoding.ids, encoding.type_ids
        mask[row, :length] = 1
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    states = model.run(None, feed)[0]
    if pooling == "logit":
        return states
    if pooling == "cls":
        rows = states[:, 0]
    else:
        rows = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def timed(work: Callable[[], Any], rounds: int) -> tuple[Any, float]:
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return result, best


def groupings(lengths: Sequence[int]) -> dict[str, Groups]:
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    equal: dict[int, list[int]] = {}
    for place in order:
        equal.setdefault(lengths[place], []).append(place)
    sorted_by = {
        f"batches of {size}, by length": [order[i : i + size] for i in range(0, len(order), size)]
        for size in (4, 16, 32)
    }
    return {"one by one": [[i] for i in order], "batches of equal length": [*equal.values()]} | (
        sorted_by
    )


def batching(name: str, encoded: Sequence[Any], pooling: str, rounds: int) -> Table:
    model = session(weights.ensure(name, folder=folder()) / "model.onnx")
    moved = "largest move of a score" if pooling == "logit" else "cosine to itself, least"
    changed = "ten best that change" if pooling == "logit" else "ten nearest that change"
    table = Table("texts run", "CPU ms each", moved, changed, title=f"{name}: batching")
    alone: np.ndarray | None = None
    for label, groups in groupings([len(e.ids) for e in encoded]).items():

        def work(groups: Groups = groups) -> np.ndarray:
            rows = np.zeros((len(encoded), 1 if pooling == "logit" else 384), np.float32)
            for group in groups:
                rows[list(group)] = run(model, [encoded[i] for i in group], pooling)
            return rows

        rows, cpu = timed(work, rounds)
        alone = rows if alone is None else alone
        if pooling == "logit":
            move = float(np.abs(rows - alone).max())
            change = 1 - len(best(rows[:, 0]) & best(alone[:, 0])) / 10
        else:
            move = float((rows * alone).sum(1).min())
            pairs = zip(rows @ rows.T, alone @ alone.T, strict=True)
            change = 1 - float(np.mean([len(best(a) & best(b)) / 10 for a, b in pairs]))
        table.add_row(label, f"{1000 * cpu / len(encoded):.2f}", f"{move:.4f}", f"{change:.1%}")
    return table


def best(scores: np.ndarray) -> set[int]:
    return set(np.argsort(-scores)[:10].tolist())


def embedders(texts: Sequence[str], rounds: int, found: dict[str, float]) -> Table:
    """`found`: the same figures by name."""
    table = Table("embedder", "MB", "CPU s to load", "tokens each", "CPU ms each")
    names = [model.name for model in weights.manifest().values() if model.use == "embed"]
    for name in names:
        embedder = OnnxEmbedder(name, weights.ensure(name, folder=folder()), threads=1)
        size = sum(file.bytes for file in weights.known(name).source[0].files.values())
        _, load = timed(lambda e=embedder: asyncio.run(e.embed(["text"])), 1)
        done, cpu = timed(lambda e=embedder: asyncio.run(e.embed(texts)), rounds)
        tokens, each = done.tokens / len(texts), 1000 * cpu / len(texts)
        row = {"mb": size / 1e6, "load_s": load, "tokens": tokens, "text_ms": each}
        found |= {f"{name}.{measure}": value for measure, value in row.items()}
        table.add_row(name, f"{size / 1e6:.0f}", f"{load:.1f}", f"{tokens:.0f}", f"{each:.1f}")
    return table


def folder() -> Path:
    return Path(platformdirs.user_cache_dir("justmem")) / "models"


def tokenizer(name: str) -> Tokenizer:
    loaded = Tokenizer.from_file(str(weights.ensure(name, folder=folder()) / "tokenizer.json"))
    loaded.no_padding()
    loaded.enable_truncation(512)
    return loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--embedders", action="store_true", help="only compare the embedders")
    parser.add_argument("--figures", type=Path, help="enter the embedders' figures into this file")
    chosen = parser.parse_args()
    texts = sentences(chosen.texts)
    console = Console()
    found: dict[str, float] = {}
    console.print(embedders(texts, chosen.rounds, found))
    command = f"models.py --embedders --texts {chosen.texts} --rounds {chosen.rounds}"
    publish(chosen.figures, "bench-models", found, chosen.texts, command)
    if chosen.embedders:
        return
    for name in EMBEDDERS:
        encoded = tokenizer(name).encode_batch(texts)
        length = np.mean([len(e.ids) for e in encoded])
        console.print(f"{len(texts)} texts of {length:.0f} tokens on average")
        pooling = weights.known(name).pooling
        console.print(batching(name, encoded, pooling, chosen.rounds))
    pairs = tokenizer(RERANKER).encode_batch([("Who adopted a puppy?", text) for text in texts])
    console.print(batching(RERANKER, pairs, "logit", chosen.rounds))


if __name__ == "__main__":
    main()
