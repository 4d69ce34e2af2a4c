"""JustMem without a key: recorded or rules stages, local models, memories kept on disk."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import justmem
from justmem import AsyncMemory, config, specs
from justmem.answering.rules import RulesAnswerer
from justmem.domain import Session, SessionState
from justmem.errors import InvalidFile
from justmem.extraction.rules import RulesExtractor
from justmem.planning.rules import RulesPlanner
from justmem.ports import Extractor, Planner
from justmem.stores.sqlite import open_store
from justmem_eval.benchmarks import Benchmark, History
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.cache import Blobs, CachedEmbedder, CachedReranker
from justmem_eval.switches import Switches
from justmem_eval.systems.deferred import Deferred
from justmem_eval.systems.stages import ForcedPlanner, RecordedExtractor, RecordedPlanner
from justmem_eval.timing import MeteredEmbedder, MeteredReranker

Origin = Literal["recorded", "rules"]
_SPACE = "memory"
_KEPT = 3  # builds of one benchmark that stay on disk

# What a stored memory follows from: a change anywhere else leaves it valid.
_DETERMINES = (
    "domain.py sessions.py words.py dates.py calendars.py phrases.py passages.py remembering.py "
    "models/onnx.py extraction stores"
).split()


@dataclass(frozen=True, slots=True)
class Models:
    embedder: CachedEmbedder
    reranker: CachedReranker | None

    def metered(self) -> Metered:
        """The same models, worked anew at every call and timed."""
        reranker = MeteredReranker(self.reranker.inner) if self.reranker else None
        return Metered(MeteredEmbedder(self.embedder.inner), reranker)


@dataclass(frozen=True, slots=True)
class Metered:
    embedder: MeteredEmbedder
    reranker: MeteredReranker | None


def models(switches: Switches, cache: Path) -> Models:
    settings = config.load(embedder=switches.embedder, reranker=switches.reranker)
    reranker = specs.build_reranker(settings.reranker, settings, None)
    return Models(
        CachedEmbedder(
            specs.build_embedder(settings.embedder, settings, None), Blobs(cache / "vectors.db")
        ),
        CachedReranker(reranker, Blobs(cache / "scores.db")) if reranker else None,
    )


class LocalJustMem:
    def __init__(
        self,
        benchmark: Benchmark,
        recorded: Recorded,
        *,
        cards: Origin,
        plans: Origin,
        switches: Switches,
        cache: Path,
    ) -> None:
        self.switches = switches
        self.models = models(switches, cache)
        self._benchmark = benchmark
        self._recorded = recorded
        self.cards = cards
        self.plans = plans
        self.planner = self._planner(plans)
        self._folder = cache / "memories" / f"{benchmark.name}-{cards}-{self._fingerprint()}"

    # ------------------------------------------------------------ stages

    def extractor(self, history: History) -> Extractor:
        if self.cards == "rules":
            return RulesExtractor()
        known = {history.id, history.base}
        rows = {s: r for (h, s), r in self._recorded.cards.items() if h in known}
        return RecordedExtractor(rows)

    def _planner(self, plans: Origin) -> Planner:
        planner: Planner = RulesPlanner()
        if plans == "recorded":
            asked = [case.question for case in self._benchmark.cases]
            plans_of = self._recorded.plans
            known = {(q.text, q.at): plans_of[q.id] for q in asked if q.id in plans_of}
            planner = RecordedPlanner(known, planner)
        forced = self.switches.access
        if forced == "adaptive" and self.switches.reading == "compact":
            return ForcedPlanner(planner, "compact")
        return planner if forced == "adaptive" else ForcedPlanner(planner, forced)

    # ------------------------------------------------------------ memories

    @asynccontextmanager
    async def memory(
        self, history: History, *, metered: Metered | None = None
    ) -> AsyncIterator[AsyncMemory]:
        """The memory of a history, built if it is not there yet."""
        folder = await self._built(history)
        if history.base:
            with TemporaryDirectory(prefix="justmem-eval-") as scratch:
                shutil.copytree(folder, scratch, dirs_exist_ok=True)
                async with self._opened(Path(scratch), history, metered) as memory:
                    await self._remember(memory, history.added)
                    yield memory
        else:
            async with self._opened(folder, history, metered) as memory:
                yield memory

    async def _built(self, history: History) -> Path:
        folder = self._folder / (history.base or history.id).replace("/", "-")
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            whole = self._benchmark.history(history.base) if history.base else history
            async with self._opened(folder, whole, None) as memory:
                await self._remember(memory, whole.sessions)
            (folder / "done").touch()
            self._prune()
        return folder

    @asynccontextmanager
    async def _opened(
        self, folder: Path, history: History, metered: Metered | None
    ) -> AsyncIterator[AsyncMemory]:
        extractor = self.extractor(history)
        store = await open_store(folder, _SPACE)
        deferred: Any = Deferred(store, self.models.embedder, extractor, folder / "deferred")
        memory = AsyncMemory(
            deferred,
            metered.embedder if metered else deferred,
            extractor=deferred,
            planner=self.planner,
            answerer=RulesAnswerer(),
            reranker=metered.reranker if metered else self.models.reranker,
            budget=self.switches.budget,
            profile=self.switches.profile,
            concurrency=1,
        )
        async with memory:
            yield memory

    async def _remember(self, memory: AsyncMemory, sessions: Any) -> None:
        session: Session
        for session in sessions:
            done = await memory.remember(session)
            if done.state is SessionState.FAILED:
                raise InvalidFile(f"{session.id} could not be remembered: {done.reason}")

    # ------------------------------------------------------------ what determines a memory

    def _fingerprint(self) -> str:
        parts = [
            self._benchmark.digest,
            self.cards,
            self.models.embedder.name,
            code_fingerprint(_DETERMINES),
        ]
        if self.cards == "recorded":
            parts.append(repr(sorted(self._recorded.cards.items())))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    def _prune(self) -> None:
        """Memories of older code would pile up: the latest few stay."""
        alike = sorted(
            self._folder.parent.glob(f"{self._benchmark.name}-{self.cards}-*"),
            key=lambda path: path.stat().st_mtime,
        )
        for old in alike[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def code_fingerprint(names: Any = (".",)) -> str:
    """A hash over the source of these parts of justmem."""
    root = Path(justmem.__file__).parent
    digest = hashlib.sha256()
    for name in names:
        top = root / name
        paths = [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file())
        for path in paths:
            if path.suffix in (".py", ".md", ".sql", ".toml"):
                digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
