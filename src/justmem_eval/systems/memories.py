"""The memories of JustMem under test: opened as a user opens them, kept on disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Literal

import justmem
from justmem import AsyncMemory, Retention, config, providers
from justmem.domain import Plan, Session
from justmem.errors import InvalidSetting, ModelError
from justmem.ports import Embedder, LanguageModel
from justmem_eval.batch import BatchModel
from justmem_eval.benchmarks import Benchmark, History, Question
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.cache import Blobs, CachedEmbedder, CachedReranker, Collector
from justmem_eval.switches import Switches
from justmem_eval.systems.stages import RecordedCards, read_plan
from justmem_eval.systems.types import Built
from justmem_eval.text import count

Origin = Literal["recorded", "rules", "model"]
_SPACE = "memory"
_BUILT = "built.json"
_SIDE_BY_SIDE = 256  # sessions built at once with a batch model
_KEPT = 3  # builds of one benchmark that stay on disk, and those used in the last day
_DAY = 24 * 3600.0

# Parts that cannot change a stored memory. A change anywhere else makes a new cache.
_IRRELEVANT = frozenset(
    [
        "answer.py",
        "ask.py",
        "cli",
        "demo",
        "forget",
        "integrations",
        "plan.py",
        "rank.py",
        "discover.py",
        "pending.py",
        "recover.py",
        "select.py",
        "server",
        "subjects",
        "sync.py",
        "testing.py",
        "transcripts",
        "transfer",
    ]
)


@dataclass(frozen=True, slots=True)
class Models:
    embedder: CachedEmbedder
    reranker: CachedReranker | None


def models(switches: Switches, cache: Path) -> Models:
    settings = config.load(embedder=switches.embedder, reranker=switches.reranker)
    reranker = providers.build_reranker(settings.reranker, settings, None)
    return Models(
        CachedEmbedder(
            providers.build_embedder(settings.embedder, settings, None), Blobs(cache / "vectors.db")
        ),
        CachedReranker(reranker, Blobs(cache / "scores.db")) if reranker else None,
    )


@dataclass(frozen=True, slots=True)
class Stages:
    """Where cards and plans come from. `oracle`: access by question id, told by the benchmark's
    own categories (privileged: only for the oracle row)."""

    cards: Origin = "rules"
    plans: Origin = "rules"
    recorded: Recorded = field(default_factory=Recorded)
    model: LanguageModel | None = None
    oracle: Mapping[str, str] = field(default_factory=dict)

    def extractor(self, history: History) -> Any:
        """What `open` takes as its extractor."""
        if self.cards == "rules":
            return "rules"
        if self.cards == "model":
            return self._model()
        known = {history.id, history.base}
        return RecordedCards({s: r for (h, s), r in self.recorded.cards.items() if h in known})

    def planner(self) -> Any:
        return self._model() if self.plans == "model" else "rules"

    def plan(self, question: Question) -> Plan | None:
        """The recorded plan. None: the memory plans."""
        row = self.recorded.plans.get(question.id) if self.plans == "recorded" else None
        return read_plan(row) if row else None

    def access(self, switches: Switches, question: Question) -> str | None:
        """The access that the switches ask for. None: as planned."""
        if switches.access == "oracle":
            return self.oracle[question.id]
        if switches.reading != "adaptive":
            return "compact"
        return None if switches.access == "adaptive" else switches.access

    def _model(self) -> LanguageModel:
        if self.model is None:
            raise InvalidSetting("Cards or plans by a model need one: name it with --model.")
        return self.model

    def fingerprint(self) -> list[str]:
        parts: list[str] = [self.cards]
        if self.cards == "recorded":
            parts.append(repr(sorted(self.recorded.cards.items())))
        if self.cards == "model":
            parts.append(self._model().name)
        return parts


class Memories:
    """Built memories, keyed by everything that determines them. Several processes may share the
    cache: a memory is built in a folder of its own and renamed when it is complete."""

    def __init__(
        self, benchmark: Benchmark, stages: Stages, switches: Switches, cache: Path
    ) -> None:
        self.stages = stages
        self.switches = switches
        self.models = models(switches, cache)
        self._benchmark = benchmark
        self._kind = f"{benchmark.name}-{benchmark.digest[:8]}-{stages.cards}"
        self._folder = cache / "memories" / f"{self._kind}-{self._fingerprint()}"
        self._locks: dict[str, asyncio.Lock] = {}
        if config.load().store is not None:
            raise InvalidSetting(
                "The evaluation keeps its memories in files: unset `store` (JUSTMEM_STORE) first."
            )

    @asynccontextmanager
    async def memory(
        self, history: History, *, answerer: Any = "rules"
    ) -> AsyncIterator[AsyncMemory]:
        """The memory of a history, built if it is not there yet."""
        if error := (await self.build(history)).error:
            raise ModelError(f"{history.id} cannot be built: {error}.")
        folder = self._place(self._benchmark.history(history.base) if history.base else history)
        extractor = self.stages.extractor(history)
        if not history.base:
            async with self._opened(folder, extractor, answerer) as memory:
                yield memory
            return
        with TemporaryDirectory(prefix="justmem-eval-") as scratch:
            shutil.copytree(folder, scratch, dirs_exist_ok=True)
            async with self._opened(Path(scratch), extractor, answerer) as memory:
                await _remember(memory, extractor, history.id, history.added)
                yield memory

    async def build(self, history: History) -> Built:
        """Once. If sessions fail, nothing is kept, and the next call tries again. A history that
        extends another counts the calls of both."""
        base = self._benchmark.history(history.base) if history.base else history
        folder = self._place(base)
        async with self._locks.setdefault(base.id, asyncio.Lock()):
            built = _built(folder) or await self._build(base, folder)
        if not history.base or built.error:
            return built.model_copy(update={"id": history.id})
        with TemporaryDirectory(prefix="justmem-eval-") as scratch:
            extractor = self.stages.extractor(history)
            async with self._opened(Path(scratch), extractor) as memory:
                more = await _remember(memory, extractor, history.id, history.added)
        return built.model_copy(
            update={"id": history.id, "calls": (*built.calls, *more.calls), "error": more.error}
        )

    async def _build(self, history: History, folder: Path) -> Built:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(mkdtemp(prefix=".building-", dir=folder.parent))
        try:
            if self.stages.cards == "rules":
                await self._embed_ahead(history)
            extractor = self.stages.extractor(history)
            async with self._opened(draft, extractor) as memory:
                built = await _remember(memory, extractor, history.id, history.sessions)
            if not built.error:
                (draft / _BUILT).write_text(built.model_dump_json())
                _publish(draft, folder)
                self._prune()
            return built
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    async def _embed_ahead(self, history: History) -> None:
        """Embeds all texts of a history in one call. A first build, with an embedder that does
        nothing, tells what they are."""
        collector = Collector(self.models.embedder)
        with TemporaryDirectory(prefix="justmem-eval-") as scratch:
            async with self._opened(Path(scratch), "rules", embedder=collector) as memory:
                await _remember(memory, "rules", history.id, history.sessions)
        await self.models.embedder.embed(list(collector.texts))

    def _place(self, history: History) -> Path:
        return self._folder / history.id.replace("/", "-")

    @asynccontextmanager
    async def _opened(
        self,
        folder: Path,
        extractor: Any,
        answerer: Any = "rules",
        embedder: Embedder | None = None,
    ) -> AsyncIterator[AsyncMemory]:
        memory = await justmem.open_async(
            _SPACE,
            folder=folder,
            model="rules",
            extractor=extractor,
            planner=self.stages.planner(),
            answerer=answerer,
            embedder=embedder or self.models.embedder,
            reranker=self.models.reranker or "none",
            budget=self.switches.budget,
            profile=self.switches.profile,
            retention=Retention(),
            redact="none",
            concurrency=_SIDE_BY_SIDE if isinstance(extractor, BatchModel) else 1,
        )
        async with memory:
            yield memory

    # ------------------------------------------------------------ what determines a memory

    def _fingerprint(self) -> str:
        parts = [
            self._benchmark.digest,
            self.models.embedder.name,
            code_fingerprint(without=_IRRELEVANT),
            *self.stages.fingerprint(),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    def _prune(self) -> None:
        """Memories of older code would pile up. Those that may be in use stay."""
        os.utime(self._folder)
        alike = sorted(
            (path.stat().st_mtime, path) for path in self._folder.parent.glob(f"{self._kind}-*")
        )
        for used, old in alike[:-_KEPT]:
            if time.time() - used > _DAY:
                shutil.rmtree(old, ignore_errors=True)


async def _remember(
    memory: AsyncMemory, extractor: Any, id: str, sessions: Sequence[Session]
) -> Built:
    recorded = extractor if isinstance(extractor, RecordedCards) else None
    done = []
    if isinstance(extractor, BatchModel):
        done = await memory.remember_many(sessions)
    else:
        for session in sessions:
            if recorded is not None:
                recorded.session_id = session.id
            done.append(await memory.remember(session))
    failed = tuple(f"{d.session_id}: {d.reason}" for d in done if d.reason)
    calls = tuple(call for each in done for call in each.receipt.calls)
    return Built(
        id=id,
        error=f"{len(failed)} of {len(done)} sessions failed" if failed else "",
        calls=() if recorded is not None else calls,
        sessions=len(done),
        cards=sum(len(each.cards) for each in done),
        card_tokens=sum(count(card.text) for each in done for card in each.cards),
        failed=failed,
    )


def _built(folder: Path) -> Built | None:
    path = folder / _BUILT
    return Built.model_validate_json(path.read_bytes()) if path.exists() else None


def _publish(draft: Path, folder: Path) -> None:
    """One rename. If another process was faster, its memory is as good as ours."""
    try:
        draft.rename(folder)
    except OSError:
        if _built(folder) is None:
            raise


def code_fingerprint(*, without: Collection[str] = ()) -> str:
    """A hash over the source of justmem. `without`: names in the package root that are left
    out."""
    root = Path(justmem.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        local = path.relative_to(root)
        if path.suffix in (".py", ".md", ".sql", ".toml") and local.parts[0] not in without:
            digest.update(str(local).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
