"""One run from its settings: what is pinned, which system, which models and which meter."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import justmem
from justmem import config
from justmem.config import providers
from justmem.errors import InvalidSetting
from justmem_eval import benchmarks, calls, judging
from justmem_eval.batch import PARALLEL, SCHEME, BatchModel
from justmem_eval.benchmarks import Benchmark, recorded
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.calls import RECORDED, Cap, RepeatedModel, Replies
from justmem_eval.meter import Meter, metering
from justmem_eval.protocol import OnProgress, Run
from justmem_eval.records import Files, write_json
from justmem_eval.switches import Switches, parse
from justmem_eval.systems import System
from justmem_eval.systems.justmem import JustMem, Origin, Stages, build_embedder
from justmem_eval.systems.peer import Peer
from justmem_eval.systems.plain import NaiveRag, Plain, nothing, whole_history

OPENAI = "https://api.openai.com/v1"
EMBEDDER, DIMENSIONS = "text-embedding-3-small", 1536  # of peers that buy their vectors
OWN = ("justmem", "none", "fulltext", "naive_rag")  # systems that are no peers
# LongMemEval's and LoCoMo's categories with evidence in several places.
_BROAD = {"multi-session", "temporal-reasoning", "knowledge-update", "multi-hop", "temporal"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """How a peer is run. `embedder` is its name at the model server."""

    python: str = ""  # of its environment
    adapter: Path | None = None
    patience: float = 1800.0  # seconds in which it gives no sign of life
    embedder: str = EMBEDDER
    dimensions: int = DIMENSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that determines a run. `cards` and `plans` come from the model, if they are not
    given and there is one."""

    benchmark: Benchmark
    data: Path
    system: str = "justmem"
    label: str = ""
    model: str = "rules"
    judge: str = ""  # the model; empty: no judging
    cards: Origin | None = None
    plans: Origin | None = None
    switches: Sequence[str] = ()
    runs: int = 5
    parallel: int = 4
    planted: int = 50
    limit: int | None = None
    category: str | None = None
    cap: int | None = None
    peer: PeerSettings = PeerSettings()

    @property
    def is_peer(self) -> bool:
        return self.peer.adapter is not None or self.system not in OWN

    @property
    def cards_by(self) -> Origin:
        return self.cards or ("rules" if self.model == "rules" else "model")

    @property
    def plans_by(self) -> Origin:
        return self.plans or ("rules" if self.model == "rules" else "model")

    @property
    def at_once(self) -> int:
        batch = any(spec.startswith(SCHEME) for spec in (self.model, self.judge))
        return PARALLEL if batch else self.parallel


def select(
    name: str, data: Path, category: str | None = None, limit: int | None = None
) -> Benchmark:
    found = benchmarks.load(name, data)
    if category:
        found = found.only(lambda case: case.gold.category == category)
        if not found.cases:
            raise InvalidSetting(f"{name} has no category {category!r}.")
    return found.limited(limit)


def benchmark_of(folder: Path, data: Path) -> Benchmark:
    """The questions that a run was made with; an error if `data` holds another version."""
    run = Files(folder).pinned()
    found = select(run["benchmark"], data, run["category"], run["limit"])
    if dict(found.files) != run["data"]:
        raise InvalidSetting(f"{folder} was run on other data than {data} holds.")
    return found


def pin(given: Settings, judges: Sequence[judging.Judging]) -> dict[str, Any]:
    """What two runs must share to be the same run. A peer does not use our models."""
    own_models = {"embedder", "reranker"} if given.is_peer else set()
    digests = {j.name: hashlib.sha256(j.instruction.encode()).hexdigest() for j in judges}
    peer = {"embedder": given.peer.embedder, "dimensions": given.peer.dimensions}
    return {
        "benchmark": given.benchmark.name,
        "data": dict(given.benchmark.files),
        "questions": len(given.benchmark.cases),
        "limit": given.limit,
        "category": given.category,
        "system": given.system,
        "label": given.label,
        "model": given.model,
        "cards": given.cards_by,
        "plans": given.plans_by,
        "switches": parse(given.switches).model_dump(mode="json", exclude=own_models),
        "judge": {"model": given.judge, "prompts": digests} if judges else None,
        "runs": given.runs,
        "version": justmem.__version__,
        "code": _code_digest(),
        "peer": peer if given.is_peer else None,
    }


def _code_digest() -> str:
    """Over the source of justmem."""
    root = Path(justmem.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".md", ".sql", ".toml"):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def check_pinned(folder: Path, now: dict[str, Any]) -> None:
    """A folder goes on with the run it began, and with no other."""
    if not (folder / "run.json").exists():
        write_json(folder / "run.json", now)
        return
    before = Files(folder).pinned()
    changed = [name for name in now if name != "label" and before.get(name) != now[name]]
    if changed:
        raise InvalidSetting(
            f"{folder} holds a run with another {', '.join(changed)}. Going on would mix two "
            "runs: choose another folder with --out, or delete this one."
        )


async def run(
    given: Settings,
    folder: Path,
    cache: Path,
    progress: OnProgress = lambda *_: None,
    *,
    ledger: Path | None = None,
) -> None:
    """`cache` keeps vectors and replies that other runs may share; runs that share a `ledger`
    share one cap."""
    cap = Cap(given.cap, ledger or folder / "spent.txt")
    with _metered(given, cap) as meter:
        reader = "reader" if given.is_peer else given.system  # beside a peer's own lane
        model = _model(given.model, cache, cap, meter, reader)
        judged_by = _model(given.judge, cache, cap, meter, "judge")
        judges = judging.judges(given.benchmark.name, judged_by) if judged_by is not None else []
        check_pinned(folder, pin(given, judges))
        system = _system(given, model, folder, cache, meter)
        try:
            await Run(
                system,
                given.benchmark,
                judges,
                Files(folder),
                given.runs,
                given.at_once,
                given.planted,
                progress,
            )()
        finally:
            await system.close()
            for each in (model, judged_by):
                if isinstance(each, BatchModel):
                    await each.close()
            if meter is not None:
                lanes = meter.lanes().items()
                write_json(folder / "meter.json", {lane: used.model_dump() for lane, used in lanes})


@contextmanager
def _metered(given: Settings, cap: Cap) -> Iterator[Meter | None]:
    server = upstream(given.model) or upstream(given.judge)
    if server is None:
        yield None
        return
    with metering(server, cap) as meter:
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
) -> RepeatedModel | None:
    if not spec or spec == "rules":
        return None
    if spec.startswith(SCHEME):
        return BatchModel(spec, Replies(cache / "replies.jsonl"), cap, cache / "batches.jsonl")
    metered = meter is not None and upstream(spec) == meter.upstream
    url = meter.url(lane) if meter is not None and metered else None
    return calls.model(spec, cache / "replies.jsonl", cap, base_url=url)


def _system(
    given: Settings,
    model: RepeatedModel | None,
    folder: Path,
    cache: Path,
    meter: Meter | None,
) -> System:
    switches = parse(given.switches)
    if not given.is_peer:
        if given.system == "justmem":
            return justmem_system(given, switches, model, folder / "memories", cache)
        if given.system == "naive_rag":
            return Plain(model, NaiveRag(build_embedder(switches, cache)))
        return Plain(model, whole_history if given.system == "fulltext" else nothing)
    if meter is None or not given.peer.python:
        raise InvalidSetting(
            f"{given.system} runs in an environment of its own: install it as its authors say, "
            f"name that environment's Python with --python, and a model with --model openai:NAME."
        )
    return Peer(
        given.system,
        given.peer.python,
        folder=folder,
        meter=meter,
        settings=peer_settings(given.model, given.peer),
        model=model,
        adapter=given.peer.adapter,
        patience=given.peer.patience,
    )


def justmem_system(
    given: Settings, switches: Switches, model: RepeatedModel | None, folder: Path, cache: Path
) -> JustMem:
    known = recorded.Recorded()
    if "recorded" in (given.cards_by, given.plans_by):
        known = recorded.read(given.benchmark.name, given.data)
    stages = Stages(given.cards_by, given.plans_by, known, model, taxonomy(given.benchmark))
    return JustMem(given.benchmark, stages, switches, build_embedder(switches, cache), folder)


def peer_settings(model: str, given: PeerSettings) -> dict[str, Any]:
    parsed = providers.parse(model, "model")
    return {
        "model": parsed.name,
        "embedder": given.embedder,
        "dimensions": given.dimensions,
        "api_key": providers.key_for(parsed, config.load()) or "none",
    }


def taxonomy(benchmark: Benchmark) -> dict[str, str]:
    """Access by the benchmark's own categories: privileged, for the oracle row alone."""
    found = {}
    for case in benchmark.cases:
        broad = "compose" if case.gold.category in _BROAD else "lookup"
        found[case.question.id] = "replay" if case.gold.category == ASSISTANT else broad
    return found
