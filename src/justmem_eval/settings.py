"""Everything that determines a run: its settings, and the switches of the system under test.

`--set name=value`: a name is a field of Budget, `weight.` and a field of Weights, or one of the
switches below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

import justmem
from justmem import Profile
from justmem.domain import Budget, Value
from justmem.errors import InvalidSetting
from justmem_eval import benchmarks
from justmem_eval.benchmarks import Benchmark
from justmem_eval.records import Files, write_json

Origin = Literal["recorded", "rules", "model"]
EMBEDDER = "text-embedding-3-small", 1536  # of peers that buy their vectors
OWN = ("justmem", "none", "fulltext", "naive_rag")  # systems that are no peers
BATCH = "batch:"  # begins the name of a model behind a batch API
_BATCH_PARALLEL = 500  # with a batch model: all of them wait for the same batch


class Switches(Value):
    embedder: str = "onnx:bge-small-en-v1.5"
    reranker: str = "onnx:ms-marco-MiniLM-L-12-v2"
    access: Literal["adaptive", "lookup", "compose", "replay", "oracle"] = "adaptive"
    reading: Literal["adaptive", "compact", "top1"] = "adaptive"
    granularity: Literal["global", "session_first", "session_pack"] = "global"
    budget: Budget = Budget()
    profile: Profile = Profile()


def parse(settings: Sequence[str]) -> Switches:
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {"budget": {}, "profile": {}, "weight": {}}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidSetting(f"--set takes name=value, not {setting!r}.")
        if name == "profile":
            parts["profile"]["name"] = value
        elif name.startswith("weight."):
            parts["weight"][name.removeprefix("weight.")] = value
        elif name in Budget.model_fields:
            parts["budget"][name] = None if value == "none" else value
        elif name in Switches.model_fields:
            own[name] = value
        else:
            known = ", ".join([*Budget.model_fields, *Switches.model_fields])
            raise InvalidSetting(f"There is no switch {name!r}: known are {known}.")
    profile = {**parts["profile"], "weights": parts["weight"]}
    try:
        return Switches.model_validate({**own, "budget": parts["budget"], "profile": profile})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InvalidSetting(f"--set {name}={first['input']}: {first['msg']}.") from None


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """How a peer is run. `embedder` is its name at the model server."""

    python: str = ""  # of its environment
    adapter: Path | None = None
    embedder: str = EMBEDDER[0]
    dimensions: int = EMBEDDER[1]
    patience: float = 1800.0  # seconds in which it gives no sign of life


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`cards` and `plans` come from the model, if they are not given and there is one."""

    benchmark: Benchmark
    data: Path
    system: str = "justmem"
    label: str = ""
    model: str = "rules"
    judge: str = "rules"  # the model; rules: no judging
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
        batch = any(spec.startswith(BATCH) for spec in (self.model, self.judge))
        return _BATCH_PARALLEL if batch else self.parallel


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


def pin(given: Settings, judges: Mapping[str, str], folder: Path) -> None:
    """Writes run.json: what two runs must share to be the same run. A folder that holds another
    run is refused. `judges`: their instructions by name."""
    own_models = {"embedder", "reranker"} if given.is_peer else set()  # a peer does not use them
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in judges.items()}
    peer = {"embedder": given.peer.embedder, "dimensions": given.peer.dimensions}
    now = {
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
        "code": code_digest(),
        "peer": peer if given.is_peer else None,
    }
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


def code_digest() -> str:
    """Over the source of justmem."""
    root = Path(justmem.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".md", ".sql", ".toml"):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
