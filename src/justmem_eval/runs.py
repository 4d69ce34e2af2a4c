"""One run from its description: what is pinned, what it will cost, which system and which meter."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import justmem
from justmem import config, providers
from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem.ports import LanguageModel
from justmem_eval import benchmarks, calls, judging, protocol
from justmem_eval.batch import PARALLEL, SCHEME, BatchModel
from justmem_eval.benchmarks import Benchmark, recorded
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.calls import RECORDED, Cap, Replies
from justmem_eval.lines import write_json
from justmem_eval.meter import Meter, metering
from justmem_eval.protocol import Files, OnProgress, Plan
from justmem_eval.results import pinned
from justmem_eval.switches import Switches, parse
from justmem_eval.systems.justmem import JustMem
from justmem_eval.systems.memories import Memories, Origin, Stages, code_fingerprint, models
from justmem_eval.systems.peer import Peer
from justmem_eval.systems.plain import FullText, NaiveRag, NoMemory
from justmem_eval.systems.types import System

OPENAI = "https://api.openai.com/v1"
OWN = ("justmem", "none", "fulltext", "naive_rag")  # systems that are no peers
# LongMemEval's and LoCoMo's categories with evidence in several places.
_BROAD = {"multi-session", "temporal-reasoning", "knowledge-update", "multi-hop", "temporal"}


class Description(Value):
    """Everything that a run is determined by."""

    data: Path
    benchmark: str
    system: str = "justmem"
    label: str = ""
    model: str = "rules"
    judge: str = ""  # the model; empty: no judging
    cards: Origin | None = None  # None: as `model`
    plans: Origin | None = None
    switches: tuple[str, ...] = ()
    runs: int = 5
    parallel: int = 4
    planted: int = 50
    limit: int | None = None
    category: str | None = None
    cap: int | None = None
    python: str = ""  # of a peer's environment
    adapter: Path | None = None
    patience: float = 1800.0  # seconds in which a peer gives no sign of life
    peer_embedder: str = "text-embedding-3-small"  # as the model server knows it
    peer_dimensions: int = 1536
    peer_processes: int = 1

    @property
    def cards_by(self) -> Origin:
        return self.cards or ("rules" if self.model == "rules" else "model")

    @property
    def plans_by(self) -> Origin:
        return self.plans or ("rules" if self.model == "rules" else "model")

    @property
    def plan(self) -> Plan:
        batch = any(spec.startswith(SCHEME) for spec in (self.model, self.judge))
        parallel = PARALLEL if batch else self.parallel
        return Plan(runs=self.runs, parallel=parallel, planted=self.planted)


@dataclass(frozen=True, slots=True)
class Prepared:
    description: Description
    benchmark: Benchmark
    switches: Switches


def prepare(given: Description) -> Prepared:
    found = _selected(given.benchmark, given.data, given.category, given.limit)
    return Prepared(given, found, parse(given.switches))


def _selected(name: str, data: Path, category: str | None, limit: int | None) -> Benchmark:
    found = benchmarks.load(name, data)
    if category:
        found = found.only(lambda case: case.gold.category == category)
        if not found.cases:
            raise InvalidSetting(f"{name} has no category {category!r}.")
    return found.limited(limit)


def benchmark_of(folder: Path, data: Path) -> Benchmark:
    """The questions that a run was made with; an error if `data` holds another version."""
    run = pinned(folder)
    found = _selected(run["benchmark"], data, run["category"], run["limit"])
    if dict(found.files) != run["data"]:
        raise InvalidSetting(f"{folder} was run on other data than {data} holds.")
    return found


def pin(prepared: Prepared, judges: list[judging.Judging]) -> dict[str, Any]:
    """What two runs must share to be the same run. A peer does not use our models."""
    given = prepared.description
    peer = {} if given.system in OWN else {"embedder", "reranker"}
    pinned: dict[str, Any] = {
        "benchmark": given.benchmark,
        "data": dict(prepared.benchmark.files),
        "questions": len(prepared.benchmark.cases),
        "limit": given.limit,
        "category": given.category,
        "system": given.system,
        "label": given.label,
        "model": given.model,
        "cards": given.cards_by,
        "plans": given.plans_by,
        "switches": prepared.switches.model_dump(mode="json", exclude=set(peer)),
        "judge": None,
        "runs": given.runs,
        "version": justmem.__version__,
        "code": code_fingerprint(),
    }
    if judges:
        digests = {j.name: hashlib.sha256(j.instruction.encode()).hexdigest() for j in judges}
        pinned["judge"] = {"model": given.judge, "prompts": digests}
    if peer:
        pinned["peer"] = {"embedder": given.peer_embedder, "dimensions": given.peer_dimensions}
    return pinned


def check_pinned(folder: Path, now: dict[str, Any]) -> None:
    """A folder goes on with the run it began, and with no other."""
    if not (folder / "run.json").exists():
        write_json(folder / "run.json", now)
        return
    before = pinned(folder)
    changed = [name for name in now if name != "label" and before.get(name) != now[name]]
    if changed:
        raise InvalidSetting(
            f"{folder} holds a run with another {', '.join(changed)}. Going on would mix two "
            "runs: choose another folder with --out, or delete this one."
        )


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
    cap = Cap(given.cap, ledger or folder / "spent.txt")
    with _metered(given, cap) as meter:
        reader = given.system if given.system in OWN else "reader"  # beside a peer's own lane
        model = _model(given.model, cache, cap, meter, reader)
        judged_by = _model(given.judge, cache, cap, meter, "judge")
        judges = judging.judges(given.benchmark, judged_by) if judged_by is not None else []
        check_pinned(folder, pin(prepared, judges))
        system = _system(prepared, model, folder, cache, meter)
        try:
            await protocol.run(
                system,
                prepared.benchmark,
                judges,
                Files(folder),
                given.plan,
                progress,
                _phases(meter, {given.system, reader}),
            )
        finally:
            await system.close()
            for each in (model, judged_by):
                if isinstance(each, BatchModel):
                    await each.close()
            if meter is not None:
                sums = meter.sums().items()
                write_json(
                    folder / "meter.json",
                    [{"lane": lane, "phase": p, **each.model_dump()} for (lane, p), each in sums],
                )
    return folder


def _phases(meter: Meter | None, lanes: set[str]) -> Callable[[str], None]:
    def phase(name: str) -> None:
        if meter is not None:
            for each in lanes:
                meter.enter(each, name)
            meter.enter("judge", "judging")

    return phase


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
        known = recorded.Recorded()
        if "recorded" in (given.cards_by, given.plans_by):
            known = recorded.read(given.benchmark, given.data)
        stages = Stages(given.cards_by, given.plans_by, known, model, taxonomy(benchmark))
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
    return Peer(
        given.system,
        given.python,
        folder=folder,
        meter=meter,
        settings=peer_settings(given.model, given.peer_embedder, given.peer_dimensions),
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


def taxonomy(benchmark: Benchmark) -> dict[str, str]:
    """Access by the benchmark's own categories: privileged, for the oracle row alone."""
    found = {}
    for case in benchmark.cases:
        broad = "compose" if case.gold.category in _BROAD else "lookup"
        found[case.question.id] = "replay" if case.gold.category == ASSISTANT else broad
    return found
