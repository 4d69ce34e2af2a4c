"""One run from its description: what is pinned, which system, through which meter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from justmem import config, providers
from justmem.errors import InvalidSetting
from justmem.ports import LanguageModel
from justmem_eval import calls, protocol
from justmem_eval.batch import SCHEME, BatchModel
from justmem_eval.benchmarks import Benchmark, beam, recorded
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.calls import RECORDED, Cap, Replies
from justmem_eval.descriptions import (
    OWN,
    Description,
    Prepared,
    benchmark_of,
    check_pinned,
    pin,
    prepare,
)
from justmem_eval.judging import Judge, Judging
from justmem_eval.lines import write_json
from justmem_eval.meter import Meter, metering
from justmem_eval.protocol import Files, OnProgress
from justmem_eval.rubrics import RubricJudge
from justmem_eval.systems.justmem import JustMem
from justmem_eval.systems.memories import Memories, Stages, models
from justmem_eval.systems.peer import Peer
from justmem_eval.systems.plain import FullText, NaiveRag, NoMemory
from justmem_eval.systems.types import System

__all__ = [
    "OWN",
    "Description",
    "Prepared",
    "benchmark_of",
    "peer_settings",
    "prepare",
    "run",
    "taxonomy",
    "upstream",
]

OPENAI = "https://api.openai.com/v1"


async def run(
    prepared: Prepared,
    folder: Path,
    cache: Path,
    progress: OnProgress,
    *,
    ledger: Path | None = None,
) -> Path:
    """`cache` keeps memories, vectors and replies that other runs may share; runs that share a
    `ledger` share one cap."""
    given = prepared.description
    check_pinned(folder, pin(prepared))
    cap = Cap(given.cap, ledger or folder / "spent.txt")
    with _metered(given, cap) as meter:
        model = _model(given.model, cache, cap, meter, _reader(given.system))
        judged_by = _model(given.judge, cache, cap, meter, "judge")
        judges = judges_of(prepared, judged_by) if judged_by is not None else []
        system = _system(prepared, model, folder, cache, meter)
        try:
            await protocol.run(
                system,
                prepared.benchmark,
                judges,
                Files(folder),
                given.plan,
                progress,
                _phases(meter, given.system),
            )
        finally:
            await system.close()
            for each in (model, judged_by):
                if isinstance(each, BatchModel):
                    await each.close()
            if meter is not None:
                write_json(folder / "meter.json", _sums(meter))
    return folder


def judges_of(prepared: Prepared, model: LanguageModel) -> list[Judging]:
    name, text = prepared.description.benchmark, prepared.judge_text
    if name in beam.SIZES:
        return [RubricJudge(model)]
    if text is not None:
        return [Judge(model, name, template=text)]
    return [Judge(model, name, "strict"), Judge(model, name, "lenient")]


def _reader(system: str) -> str:
    """The lane of a system's model; for a peer, that of the plain reader beside it."""
    return system if system in OWN else "reader"


def _phases(meter: Meter | None, lane: str) -> Callable[[str], None]:
    def phase(name: str) -> None:
        if meter is not None:
            for each in {lane, _reader(lane)}:
                meter.enter(each, name)
            meter.enter("judge", "judging")

    return phase


def _sums(meter: Meter) -> list[dict[str, Any]]:
    return [
        {"lane": lane, "phase": phase, **each.model_dump()}
        for (lane, phase), each in meter.sums().items()
    ]


@contextmanager
def _metered(given: Description, cap: Cap) -> Iterator[Meter | None]:
    server = upstream(given.model) or upstream(given.judge)
    if server is None:
        yield None
        return
    with metering(server, cap, {given.system} - set(OWN)) as meter:
        yield meter


def upstream(spec: str) -> str | None:
    """The server of a model, where it has one."""
    if not spec or spec.startswith((SCHEME, RECORDED)):
        return None
    if providers.parse(spec, "model").scheme != "openai":
        return None
    return providers.parse(spec, "model").url or OPENAI


def _model(
    spec: str, cache: Path, cap: Cap, meter: Meter | None, lane: str
) -> LanguageModel | None:
    if not spec or spec == "rules":
        return None
    if spec.startswith(SCHEME):
        return BatchModel(spec, Replies(cache / "replies.jsonl"), cap, cache / "batches.jsonl")
    metered = meter is not None and upstream(spec) == meter.upstream
    url = meter.url(lane) if meter is not None and metered else None
    return calls.model(spec, cache / "replies.jsonl", cap, base_url=url)


def _system(
    prepared: Prepared,
    model: LanguageModel | None,
    folder: Path,
    cache: Path,
    meter: Meter | None,
) -> System:
    given, benchmark, switches = prepared.description, prepared.benchmark, prepared.switches
    if given.system == "justmem":
        stages = _stages(given, benchmark, model)
        return JustMem(Memories(benchmark, stages, switches, cache), model)
    if given.system == "none":
        return NoMemory(model)
    if given.system == "fulltext":
        return FullText(model)
    if given.system == "naive_rag":
        return NaiveRag(model, models(switches, cache).embedder)
    if meter is None or not given.python:
        raise InvalidSetting(
            f"{given.system} runs in an environment of its own: install it as its authors say, "
            f"name that environment's Python with --python, and a model with --model openai:NAME."
        )
    settings = peer_settings(given.model, given.peer_embedder, given.peer_dimensions)
    return Peer(
        given.system,
        given.python,
        folder=folder,
        meter=meter,
        settings=settings,
        model=model,
        adapter=given.adapter,
        patience=given.patience,
        processes=given.peer_processes,
    )


def peer_settings(model: str, embedder: str, dimensions: int) -> dict[str, Any]:
    parsed = providers.parse(model, "model")
    return {
        "model": parsed.name,
        "embedder": embedder,
        "dimensions": dimensions,
        "api_key": providers.key_for(parsed, config.load()) or "none",
    }


def _stages(given: Description, benchmark: Benchmark, model: LanguageModel | None) -> Stages:
    cards, plans = given.cards or given.origin, given.plans or given.origin
    known = recorded.Recorded()
    if "recorded" in (cards, plans):
        known = recorded.read(given.benchmark, given.data)
    return Stages(cards, plans, known, model, taxonomy(benchmark))


def taxonomy(benchmark: Benchmark) -> dict[str, str]:
    """Access by the benchmark's own categories: privileged, for the oracle row alone."""
    broad = {"multi-session", "temporal-reasoning", "knowledge-update", "multi-hop", "temporal"}
    return {
        case.question.id: "replay"
        if case.gold.category == ASSISTANT
        else "compose"
        if case.gold.category in broad
        else "lookup"
        for case in benchmark.cases
    }
