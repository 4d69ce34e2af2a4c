"""CPU of a recall, by part, with nothing cached, beside a fixed yardstick of the same run."""

from __future__ import annotations

import time
from collections.abc import Mapping

from justmem import AsyncMemory, config, providers
from justmem.domain import Value
from justmem.ports import Reranker
from justmem_eval.benchmarks import Benchmark, Case
from justmem_eval.metrics import Figure
from justmem_eval.systems.memories import Memories, Metered

YARDSTICK = "onnx:ms-marco-MiniLM-L-12-v2"
PAIRS = 60


class CpuTime(Value):
    parts: Mapping[str, float] = {}  # milliseconds of one recall
    share: Figure = Figure(value=None, n=0)


async def measure(memories: Memories, benchmark: Benchmark, count: int) -> CpuTime:
    """Processor time of the whole process, so that a busy machine shows less."""
    if not count:
        return CpuTime()
    models = memories.models.metered()
    yardstick = _yardstick()
    spent = dict.fromkeys(("embed", "rerank", "rest", "yardstick"), 0.0)
    timed = 0
    for history_id, cases in benchmark.limited(count).by_history():
        async with memories.memory(benchmark.history(history_id), metered=models) as memory:
            texts = [card.text for card in await memory.cards(limit=PAIRS)]
            # The first recall of a memory loads its matrices: not what a recall costs.
            await _recall(memory, memories, cases[0])
            await yardstick.rerank("warm up", texts[:1])
            for case in cases:
                await _one(memory, case, memories, models, spent)
                start = time.process_time()
                await yardstick.rerank(case.question.text, texts)
                spent["yardstick"] += time.process_time() - start
                timed += 1
    spent["rest"] -= spent["embed"] + spent["rerank"]
    parts = {name: round(1000 * value / timed, 2) for name, value in spent.items()}
    ours = parts["embed"] + parts["rerank"] + parts["rest"]
    return CpuTime(parts=parts, share=Figure(value=100 * ours / parts["yardstick"], n=timed))


async def _one(
    memory: AsyncMemory, case: Case, memories: Memories, models: Metered, spent: dict[str, float]
) -> None:
    before = models.cpu()
    start = time.process_time()
    await _recall(memory, memories, case)
    spent["rest"] += time.process_time() - start
    for name, value in models.cpu().items():
        spent[name] += value - before[name]


async def _recall(memory: AsyncMemory, memories: Memories, case: Case) -> None:
    asked = case.question
    plan = memories.stages.plan(asked)
    await memory.recall(asked.text, at=asked.at, speaker=asked.speaker, plan=plan)


def _yardstick() -> Reranker:
    settings = config.load(reranker=YARDSTICK)
    made = providers.build_reranker(settings.reranker, settings, None)
    assert made is not None
    return made
