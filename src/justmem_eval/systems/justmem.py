"""JustMem as a system under test: opened as a user opens it, with its memories in the run's
folder."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import justmem
from justmem import AsyncMemory, Retention, config
from justmem.config import providers
from justmem.domain import Call, Evidence, Plan, Session
from justmem.errors import InvalidSetting, ModelError
from justmem_eval.batch import BatchModel
from justmem_eval.benchmarks import Benchmark, History, Question
from justmem_eval.benchmarks.recorded import Recorded, RecordedCards, read_plan
from justmem_eval.benchmarks.types import HandCorrection
from justmem_eval.cache import Blobs, CachedEmbedder
from justmem_eval.calls import RepeatedModel, SampledModel
from justmem_eval.records import Built, Piece, Predicted, Retrieved
from justmem_eval.switches import Switches
from justmem_eval.systems import variants
from justmem_eval.text import count

Origin = Literal["recorded", "rules", "model"]
_SPACE = "memory"
_SIDE_BY_SIDE = 256  # sessions built at once with a batch model
_ALL = 10**9  # tokens: everything is shown
_MARK = re.compile(r"-\d{9}>")  # the number in the tags


def build_embedder(switches: Switches, cache: Path) -> CachedEmbedder:
    settings = config.load(embedder=switches.embedder)
    embedder = providers.build_embedder(settings.embedder, settings, None)
    return CachedEmbedder(embedder, Blobs(cache / "vectors.db"))


@dataclass(frozen=True, slots=True)
class Stages:
    """Where cards, plans and answers come from. `model` answers too; without it, rules answer.
    `oracle`: access by question id, from the benchmark's own categories (only for the oracle
    row)."""

    cards: Origin = "rules"
    plans: Origin = "rules"
    recorded: Recorded = field(default_factory=Recorded)
    model: RepeatedModel | None = None
    oracle: Mapping[str, str] = field(default_factory=dict)

    def extractor(self, history: History) -> Any:
        """What `open` takes as its extractor."""
        if self.cards != "recorded":
            return self._model() if self.cards == "model" else "rules"
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

    def _model(self) -> RepeatedModel:
        if self.model is None:
            raise InvalidSetting("Cards or plans by a model need one: name it with --model.")
        return self.model


class JustMem:
    """`folder` keeps one memory per history."""

    def __init__(
        self,
        benchmark: Benchmark,
        stages: Stages,
        switches: Switches,
        embedder: CachedEmbedder,
        folder: Path,
    ) -> None:
        self.stages = stages
        self.switches = switches
        self.embedder = embedder
        self._benchmark = benchmark
        self._folder = folder
        self._locks: dict[str, asyncio.Lock] = {}
        if config.load().store is not None:
            raise InvalidSetting(
                "The evaluation keeps its memories in files: unset `store` (JUSTMEM_STORE) first."
            )

    async def build(self, history: History) -> Built:
        """A history that extends another counts the calls of both."""
        if not history.base:
            return await self._built(history)
        built = await self._built(self._benchmark.history(history.base))
        if built.error:
            return built.model_copy(update={"id": history.id})
        with TemporaryDirectory(prefix="justmem-eval-") as scratch:
            more = await self._remember(Path(scratch), history, history.added)
        return built.model_copy(
            update={"id": history.id, "calls": (*built.calls, *more.calls), "error": more.error}
        )

    @asynccontextmanager
    async def opened(self, history: History, sample: int = 0) -> AsyncIterator[OpenedMemory]:
        base = self._benchmark.history(history.base) if history.base else history
        if error := (await self._built(base)).error:
            raise ModelError(f"{base.id} cannot be built: {error}.")
        answerer = SampledModel(self.stages.model, sample) if self.stages.model else "rules"
        if not history.base:
            async with self._memory(self._place(base), answerer=answerer) as memory:
                yield OpenedMemory(self, memory, history)
            return
        with TemporaryDirectory(prefix="justmem-eval-") as scratch:
            shutil.copytree(self._place(base), scratch, dirs_exist_ok=True)
            await self._remember(Path(scratch), history, history.added)
            async with self._memory(Path(scratch), answerer=answerer) as memory:
                for one in history.corrections:
                    await _correct(memory, one)
                yield OpenedMemory(self, memory, history)

    async def close(self) -> None:
        pass

    def _place(self, history: History) -> Path:
        return self._folder / history.id.replace("/", "-")

    async def _built(self, history: History) -> Built:
        """Builds a memory once. A build that fails or is killed leaves nothing behind."""
        place = self._place(history)
        async with self._locks.setdefault(history.id, asyncio.Lock()):
            if (known := place / "built.json").exists():
                return Built.model_validate_json(known.read_bytes())
            draft = place.with_name(f"{place.name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            built = await self._remember(draft, history, history.sessions)
            if built.error:
                shutil.rmtree(draft)
            else:
                (draft / "built.json").write_text(built.model_dump_json())
                draft.rename(place)
            return built

    async def _remember(self, folder: Path, history: History, sessions: Sequence[Session]) -> Built:
        extractor = self.stages.extractor(history)
        async with self._memory(folder, extractor) as memory:
            if isinstance(extractor, RecordedCards):
                done = []
                for session in sessions:
                    extractor.session_id = session.id
                    done.append(await memory.remember(session))
            else:
                done = await memory.remember_many(sessions)
        failed = tuple(f"{d.session_id}: {d.reason}" for d in done if d.reason)
        calls = tuple(call for each in done for call in each.receipt.calls)
        return Built(
            id=history.id,
            error=f"{len(failed)} of {len(done)} sessions failed" if failed else "",
            calls=() if self.stages.cards == "recorded" else calls,
            sessions=len(done),
            cards=sum(len(each.cards) for each in done),
            card_tokens=sum(count(card.text) for each in done for card in each.cards),
            failed=failed,
        )

    @asynccontextmanager
    async def _memory(
        self, folder: Path, extractor: Any = "rules", answerer: Any = "rules"
    ) -> AsyncIterator[AsyncMemory]:
        batch = isinstance(self.stages.model, BatchModel)
        async with await justmem.open_async(
            _SPACE,
            folder=folder,
            model="rules",
            extractor=extractor,
            planner=self.stages.planner(),
            answerer=answerer,
            embedder=self.embedder,
            reranker=self.switches.reranker,
            budget=self.switches.budget,
            profile=self.switches.profile,
            retention=Retention(),
            redact="none",
            concurrency=_SIDE_BY_SIDE if batch else 1,
        ) as memory:
            yield memory


async def _correct(memory: AsyncMemory, given: HandCorrection) -> None:
    cards = await memory.cards(session=given.session)
    card = next(c for c in cards if given.turn in c.turns and given.words in c.text)
    await memory.correct(card.id, **given.changes)


class OpenedMemory:
    def __init__(self, system: JustMem, memory: AsyncMemory, history: History) -> None:
        self._system = system
        self.memory = memory
        self._history = history

    async def retrieve(self, question: Question) -> Retrieved:
        evidence, calls = await self.recall(question)
        switches = self._system.switches
        evidence = await variants.vary(self.memory, self._system.embedder, switches, evidence)
        text = _MARK.sub(">", evidence.prompt(_ALL))  # the same in each run
        chosen = tuple(_piece(c.card) for c in evidence.chosen)
        # The answerers look at the subjects and scores of candidates, not at each signal.
        bare = tuple(c.model_copy(update={"scores": {}}) for c in evidence.candidates)
        kept = evidence.model_copy(update={"candidates": bare})
        return Retrieved(
            id=question.id,
            history=self._history.id,
            plan=evidence.plan,
            access=evidence.access.value,
            chosen=chosen[:1] if switches.granularity == "session_pack" else chosen,
            read=tuple(map(_piece, evidence.cards)),
            sources=tuple((s.session_id, tuple(n for n, _ in s.turns)) for s in evidence.sources),
            pool=tuple((c.card.session_id, c.card.turns) for c in evidence.candidates),
            context=text,
            evidence_tokens=count(text),
            notes=evidence.receipt.notes,
            payload=kept.model_dump(mode="json", round_trip=True),
            calls=calls,
        )

    async def recall(self, question: Question) -> tuple[Evidence, tuple[Call, ...]]:
        """The evidence, and the calls that it took. A forced access changes a plan that is there
        already: recorded, or made by a first recall."""
        stages = self._system.stages
        access, plan = stages.access(self._system.switches, question), stages.plan(question)
        asked: dict[str, Any] = {"at": question.at, "speaker": question.speaker}
        asked["as_of"] = question.as_of
        planned: tuple[Call, ...] = ()
        if access is not None:
            if plan is None:
                first = await self.memory.recall(question.text, **asked)
                plan, planned = first.plan, first.receipt.calls
            plan = variants.forced(plan, access)
        evidence = await self.memory.recall(question.text, plan=plan, **asked)
        return evidence, (*planned, *evidence.receipt.calls)

    async def answer(self, question: Question, retrieved: Retrieved) -> Predicted:
        reply = await self.memory.answer(Evidence.model_validate(retrieved.payload))
        return Predicted(
            id=question.id,
            answer=reply.text,
            sufficient=reply.sufficient,
            cited=tuple((one.session_id, one.turn) for one in reply.citations),
            calls=reply.receipt.calls,
        )


def _piece(card: Any) -> Piece:
    return Piece(place=(card.session_id, card.turns), text=card.text)
