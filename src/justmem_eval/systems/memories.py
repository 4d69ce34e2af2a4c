"""The memories of JustMem under test: stages by recording, rules or model, kept on disk."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import justmem
from justmem import AsyncMemory, config, providers, tokens
from justmem.answer.rules import RulesAnswerer
from justmem.domain import Session
from justmem.errors import InvalidSetting
from justmem.extract.model import ModelExtractor
from justmem.extract.rules import RulesExtractor
from justmem.language.languages import LANGUAGES
from justmem.plan import ModelPlanner, RulesPlanner
from justmem.ports import Extractor, LanguageModel, Planner
from justmem.store.sqlite import open_store
from justmem_eval.benchmarks import Benchmark, History, Question
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.cache import Blobs, CachedEmbedder, CachedReranker
from justmem_eval.meters import MeteredEmbedder, MeteredReranker
from justmem_eval.switches import Switches
from justmem_eval.systems.deferred import Deferred
from justmem_eval.systems.stages import ForcedPlanner, RecordedExtractor, RecordedPlanner
from justmem_eval.systems.types import Built

Origin = Literal["recorded", "rules", "model"]
_SPACE = "memory"
_KEPT = 3  # builds of one benchmark that stay on disk

# Parts that cannot change a stored memory. A change anywhere else makes a new cache.
_IRRELEVANT = frozenset(
    [
        "answer",
        "ask.py",
        "cli",
        "demo",
        "forget",
        "integrations",
        "pending.py",
        "plan.py",
        "rank.py",
        "retrieve.py",
        "server",
        "server_settings.py",
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

    def metered(self) -> Metered:
        """The same models, worked anew at every call and timed."""
        reranker = MeteredReranker(self.reranker.inner) if self.reranker else None
        return Metered(MeteredEmbedder(self.embedder.inner), reranker)


@dataclass(frozen=True, slots=True)
class Metered:
    embedder: MeteredEmbedder
    reranker: MeteredReranker | None

    def cpu(self) -> dict[str, float]:
        reranker = self.reranker
        return {
            "embed": self.embedder.meter.cpu,
            "rerank": reranker.meter.cpu if reranker else 0.0,
        }


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

    def extractor(self, history: History) -> Extractor:
        if self.cards == "rules":
            return RulesExtractor(LANGUAGES)
        if self.cards == "model":
            return ModelExtractor(self._model(), LANGUAGES)
        known = {history.id, history.base}
        return RecordedExtractor({s: r for (h, s), r in self.recorded.cards.items() if h in known})

    def planner(self, switches: Switches, asked: Sequence[Question]) -> Planner:
        planner: Planner = RulesPlanner(LANGUAGES)
        if self.plans == "model":
            planner = ModelPlanner(self._model(), LANGUAGES)
        elif self.plans == "recorded":
            plans = self.recorded.plans
            known = {(q.text, q.at): plans[q.id] for q in asked if q.id in plans}
            planner = RecordedPlanner(known, planner)
        if switches.access == "oracle":
            told = {(q.text, q.at): self.oracle[q.id] for q in asked}
            return ForcedPlanner(planner, told.__getitem__)
        if switches.reading != "adaptive":
            planner = ForcedPlanner(planner, lambda _: "compact")
        if switches.access == "adaptive":
            return planner
        return ForcedPlanner(planner, lambda _: switches.access)

    def _model(self) -> LanguageModel:
        if self.model is None:
            raise InvalidSetting("Cards or plans by a model need one: name it with --model.")
        return self.model

    def fingerprint(self) -> list[str]:
        parts: list[str] = [self.cards]
        if self.cards == "recorded":
            parts.append(repr(sorted(self.recorded.cards.items())))
        if self.cards == "model":
            parts += [self._model().name, code_fingerprint(["prompts/extract.md"])]
        return parts


class Memories:
    def __init__(
        self, benchmark: Benchmark, stages: Stages, switches: Switches, cache: Path
    ) -> None:
        self.stages = stages
        self.switches = switches
        self.models = models(switches, cache)
        self._benchmark = benchmark
        self._planner = stages.planner(switches, [case.question for case in benchmark.cases])
        self._kind = f"{benchmark.name}-{benchmark.digest[:8]}-{stages.cards}"
        self._folder = cache / "memories" / f"{self._kind}-{self._fingerprint()}"
        self._locks: dict[str, asyncio.Lock] = {}
        self._seen: set[str] = set()  # built or found by this process

    # ------------------------------------------------------------ memories

    @asynccontextmanager
    async def memory(
        self, history: History, *, metered: Metered | None = None
    ) -> AsyncIterator[AsyncMemory]:
        """The memory of a history, built if it is not there yet."""
        await self.build(history)
        folder = self._place(self._benchmark.history(history.base) if history.base else history)
        if history.base:
            with TemporaryDirectory(prefix="justmem-eval-") as scratch:
                shutil.copytree(folder, scratch, dirs_exist_ok=True)
                async with self._opened(Path(scratch), history, metered) as memory:
                    await self._remember(memory, history.id, history.added)
                    yield memory
        else:
            async with self._opened(folder, history, metered) as memory:
                yield memory

    async def build(self, history: History) -> Built:
        """Once, and once more in a later run if sessions failed. A history that extends another
        counts the calls of both."""
        base = self._benchmark.history(history.base) if history.base else history
        folder = self._place(base)
        async with self._locks.setdefault(base.id, asyncio.Lock()):
            done = folder / "built.json"
            if base.id not in self._seen and not _complete(done):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                async with self._opened(folder, base, None) as memory:
                    built = await self._remember(memory, base.id, base.sessions)
                done.write_text(built.model_dump_json())
                self._prune()
            self._seen.add(base.id)
            built = Built.model_validate_json(done.read_bytes())
        if not history.base:
            return built
        more = [await self.stages.extractor(history).extract(s, limit=None) for s in history.added]
        calls = (*built.calls, *(call for each in more for call in each.calls))
        return built.model_copy(update={"id": history.id, "calls": calls})

    def _place(self, history: History) -> Path:
        return self._folder / history.id.replace("/", "-")

    @asynccontextmanager
    async def _opened(
        self, folder: Path, history: History, metered: Metered | None
    ) -> AsyncIterator[AsyncMemory]:
        extractor = self.stages.extractor(history)
        store = await open_store(folder, _SPACE)
        deferred: Any = Deferred(store, self.models.embedder, extractor, folder / "deferred")
        memory = AsyncMemory(
            deferred,
            metered.embedder if metered else deferred,
            extractor=deferred,
            planner=self._planner,
            answerer=RulesAnswerer(LANGUAGES),
            language=LANGUAGES,
            reranker=metered.reranker if metered else self.models.reranker,
            budget=self.switches.budget,
            profile=self.switches.profile,
            concurrency=1,
        )
        async with memory:
            yield memory

    async def _remember(self, memory: AsyncMemory, id: str, sessions: Sequence[Session]) -> Built:
        # One at a time: `Deferred` counts on it. Histories are built side by side instead.
        done = [await memory.remember(session) for session in sessions]
        failed = tuple(f"{d.session_id}: {d.reason}" for d in done if d.reason)
        return Built(
            id=id,
            error=f"{len(failed)} of {len(done)} sessions failed" if failed else "",
            calls=tuple(call for each in done for call in each.receipt.calls),
            sessions=len(done),
            cards=sum(len(each.cards) for each in done),
            card_tokens=sum(tokens.count(card.text) for each in done for card in each.cards),
            failed=failed,
        )

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
        """Memories of older code would pile up: the latest few stay."""
        alike = sorted(
            self._folder.parent.glob(f"{self._kind}-*"),
            key=lambda path: path.stat().st_mtime,
        )
        for old in alike[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _complete(done: Path) -> bool:
    return done.exists() and not Built.model_validate_json(done.read_bytes()).error


def code_fingerprint(names: Any = (".",), *, without: Collection[str] = ()) -> str:
    """A hash over the source of these parts of justmem. `without`: names in the package root
    that are left out."""
    root = Path(justmem.__file__).parent
    digest = hashlib.sha256()
    for name in names:
        top = root / name
        paths = [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file())
        for path in paths:
            local = path.relative_to(root)
            if path.suffix in (".py", ".md", ".sql", ".toml") and local.parts[0] not in without:
                digest.update(str(local).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
