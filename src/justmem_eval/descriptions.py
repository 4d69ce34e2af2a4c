"""What a run is determined by, and what is pinned of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import justmem
from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem_eval import benchmarks, judging, rubrics
from justmem_eval.batch import PARALLEL, SCHEME
from justmem_eval.benchmarks import Benchmark, beam
from justmem_eval.estimate import Estimate, estimate
from justmem_eval.lines import write_json
from justmem_eval.protocol import Plan
from justmem_eval.results import pinned
from justmem_eval.switches import Switches, parse
from justmem_eval.systems.memories import Origin, code_fingerprint

OWN = ("justmem", "none", "fulltext", "naive_rag")  # systems that are no peers


class Description(Value):
    """Everything that a run is determined by."""

    data: Path
    benchmark: str
    system: str = "justmem"
    label: str = ""
    model: str = "rules"
    judge: str = ""  # the model; empty: no judging
    judge_prompt: Path | None = None  # instead of the strict and the lenient one
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
    def origin(self) -> Origin:
        return "rules" if self.model == "rules" else "model"

    @property
    def plan(self) -> Plan:
        batch = SCHEME in (self.model[: len(SCHEME)], self.judge[: len(SCHEME)])
        parallel = PARALLEL if batch else self.parallel
        return Plan(runs=self.runs, parallel=parallel, planted=self.planted)


@dataclass(frozen=True, slots=True)
class Prepared:
    description: Description
    benchmark: Benchmark
    switches: Switches
    judge_text: str | None

    @property
    def estimate(self) -> Estimate | None:
        given = self.description
        if given.model == "rules":
            return None
        return estimate(
            self.benchmark,
            given.system,
            given.plan,
            build=(given.cards or given.origin) == "model",
            planned=(given.plans or given.origin) == "model",
            judge=bool(given.judge),
        )


def prepare(given: Description) -> Prepared:
    switches = parse(given.switches)
    found = benchmarks.load(given.benchmark, given.data, named=switches.named)
    if given.category:
        found = found.only(lambda case: case.gold.category == given.category)
        if not found.cases:
            raise InvalidSetting(f"{given.benchmark} has no category {given.category!r}.")
    text = judging.read_template(given.judge_prompt) if given.judge_prompt else None
    return Prepared(given, found.limited(given.limit), switches, text)


def judge_texts(benchmark: str, own: str | None) -> dict[str, str]:
    """The judges of a run by name: BEAM's, one with a prompt of the user's own, or two."""
    if benchmark in beam.SIZES:
        return {rubrics.NAME: rubrics.instruction()}
    if own is not None:
        return {"own": own}
    return {
        "strict": judging.instruction(benchmark, "strict"),
        "lenient": judging.instruction(benchmark, "lenient"),
    }


def pin(prepared: Prepared) -> dict[str, Any]:
    """What two runs must share to be the same run."""
    given = prepared.description
    judge = None
    if given.judge:
        texts = judge_texts(given.benchmark, prepared.judge_text)
        prompts = {name: judging.fingerprint(text) for name, text in texts.items()}
        judge = {"model": given.judge, "prompts": prompts}
    return {
        "benchmark": given.benchmark,
        "data": dict(prepared.benchmark.files),
        "questions": len(prepared.benchmark.cases),
        "limit": given.limit,
        "category": given.category,
        "system": given.system,
        "label": given.label,
        "model": given.model,
        "cards": given.cards or given.origin,
        "plans": given.plans or given.origin,
        "switches": _switches(prepared),
        **_peer(given),
        "judge": judge,
        "runs": given.runs,
        "version": justmem.__version__,
        "code": code_fingerprint(),
    }


def _switches(prepared: Prepared) -> dict[str, Any]:
    """A peer has models of its own: ours are no part of its run."""
    unused = {"embedder", "reranker"} if prepared.description.system not in OWN else set()
    return prepared.switches.model_dump(mode="json", exclude=unused)


def _peer(given: Description) -> dict[str, Any]:
    if given.system in OWN:
        return {}
    return {"peer": {"embedder": given.peer_embedder, "dimensions": given.peer_dimensions}}


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


def benchmark_of(folder: Path, data: Path) -> Benchmark:
    """The questions that a run was made with; an error if `data` holds another version."""
    run = pinned(folder)
    named = bool(run["switches"].get("named"))
    found = benchmarks.load(run["benchmark"], data, named=named)
    if dict(found.files) != run["data"]:
        raise InvalidSetting(f"{folder} was run on other data than {data} holds.")
    if run["category"]:
        found = found.only(lambda case: case.gold.category == run["category"])
    return found.limited(run["limit"])
