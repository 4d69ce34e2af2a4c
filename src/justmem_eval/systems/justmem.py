"""JustMem as a system under test: opened as a user opens it, with its memories in the run's
folder."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import justmem
from justmem import AsyncMemory, Retention, config
from justmem.config import providers
from justmem.domain import Call, Card, Evidence
from justmem.errors import InvalidSetting, ModelError
from justmem_eval.batch import BatchModel
from justmem_eval.benchmarks import History, Question
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.benchmarks.recorded import Recorded, RecordedCards, read, read_plan
from justmem_eval.benchmarks.types import HandCorrection
from justmem_eval.models import CachedEmbedder, KeptModel, SampledModel
from justmem_eval.records import Built, Piece, Predicted, Retrieved
from justmem_eval.settings import Origin, Settings, Switches, parse
from justmem_eval.systems import Answer, Retrieve, ablations
from justmem_eval.text import count

_SPACE = "memory"
_SIDE_BY_SIDE = 256  # sessions built at once with a batch model
_ALL = 10**9  # tokens: everything is shown
_MARK = re.compile(r"-\d{9}>")  # the number in the tags
_ACCESS: Mapping[str, Mapping[str, Any]] = {  # what a forced access changes in a plan
    "lookup": {"spans_sessions": False, "needs_source": False, "rewrites": ()},
    "compose": {"spans_sessions": True, "needs_source": False},
    "replay": {"spans_sessions": False, "needs_source": True, "rewrites": ()},
    "compact": {"needs_source": False},
}
# LongMemEval's and LoCoMo's categories with evidence in several places.
_BROAD = {"multi-session", "temporal-reasoning", "knowledge-update", "multi-hop", "temporal"}


def build_embedder(switches: Switches, cache: Path) -> CachedEmbedder:
    settings = config.load(embedder=switches.embedder)
    embedder = providers.build_embedder(settings.embedder, settings, None)
    return CachedEmbedder(embedder, cache / "vectors.db")


class JustMem:
    """`folder` keeps one memory per history. `model` extracts and plans where the settings say
    so, and answers. Without it, rules answer."""

    def __init__(self, given: Settings, model: KeptModel | None, folder: Path, cache: Path) -> None:
        if config.load().store is not None:
            raise InvalidSetting(
                "The evaluation keeps its memories in files: unset `store` (JUSTMEM_STORE) first."
            )
        self.given = given
        self.switches = parse(given.switches)
        self.embedder = build_embedder(self.switches, cache)
        self.recorded = Recorded()
        if "recorded" in (given.cards_by, given.plans_by):
            self.recorded = read(given.benchmark.name, given.data)
        # Only for the oracle row: access by the benchmark's own categories.
        self.categories = {c.question.id: c.gold.category for c in given.benchmark.cases}
        self._model = model
        self._folder = folder
        self._locks: dict[str, asyncio.Lock] = {}

    async def build(self, history: History) -> Built:
        """Builds a memory once. One that fails or is killed leaves nothing behind. A history that
        extends another begins with a copy of it, and counts the calls of both."""
        place = self._place(history.id)
        async with self._locks.setdefault(history.id, asyncio.Lock()):
            if (known := place / "built.json").exists():
                return Built.model_validate_json(known.read_bytes())
            draft = place.with_name(f"{place.name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            base = Built(id=history.id)
            if history.base:
                base = await self.build(self.given.benchmark.history(history.base))
                if base.error:
                    return base.model_copy(update={"id": history.id})
                shutil.copytree(self._place(history.base), draft)
            draft.mkdir(parents=True, exist_ok=True)
            built = await self._remember(draft, history, base)
            if built.error:
                shutil.rmtree(draft)
            else:
                (draft / "built.json").write_text(built.model_dump_json())
                draft.rename(place)
            return built

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[Retrieve]:
        async with self.memory(history) as memory:
            yield partial(self._retrieve, memory)

    @asynccontextmanager
    async def answering(self, history: History, sample: int) -> AsyncIterator[Answer]:
        answerer = SampledModel(self._model, sample) if self._model else "rules"
        async with self.memory(history, answerer) as memory:
            yield partial(_answer, memory)

    @asynccontextmanager
    async def memory(self, history: History, answerer: Any = "rules") -> AsyncIterator[AsyncMemory]:
        """The memory of a history, which is built first if it is not there."""
        if error := (await self.build(history)).error:
            raise ModelError(f"{history.id} cannot be built: {error}.")
        async with self._memory(self._place(history.id), answerer=answerer) as memory:
            yield memory

    async def recall(
        self, memory: AsyncMemory, question: Question
    ) -> tuple[Evidence, tuple[Call, ...]]:
        """The evidence, and the calls that it took. A forced access changes a plan that is there
        already: recorded, or made by a first recall."""
        row = self.recorded.plans.get(question.id)
        plan = read_plan(row) if row and self.given.plans_by == "recorded" else None
        asked: dict[str, Any] = {"at": question.at, "speaker": question.speaker}
        asked["as_of"] = question.as_of
        planned: tuple[Call, ...] = ()
        if access := self._access(question):
            if plan is None:
                first = await memory.recall(question.text, **asked)
                plan, planned = first.plan, first.receipt.calls
            plan = plan.model_copy(update=_ACCESS[access])
        evidence = await memory.recall(question.text, plan=plan, **asked)
        return evidence, (*planned, *evidence.receipt.calls)

    def _access(self, question: Question) -> str | None:
        """The access that the switches ask for. None: as planned."""
        switches = self.switches
        if switches.access == "oracle":
            category = self.categories[question.id]
            broad = "compose" if category in _BROAD else "lookup"
            return "replay" if category == ASSISTANT else broad
        if switches.reading != "adaptive":
            return "compact"
        return None if switches.access == "adaptive" else switches.access

    async def _retrieve(self, memory: AsyncMemory, question: Question) -> Retrieved:
        evidence, calls = await self.recall(memory, question)
        evidence = await ablations.vary(memory, self.embedder, self.switches, evidence)
        text = _MARK.sub(">", evidence.prompt(_ALL))  # the same in each run
        chosen = tuple(_piece(c.card) for c in evidence.chosen)
        # The answerers look at the subjects and scores of candidates, not at each signal.
        bare = tuple(c.model_copy(update={"scores": {}}) for c in evidence.candidates)
        kept = evidence.model_copy(update={"candidates": bare})
        return Retrieved(
            id=question.id,
            plan=evidence.plan,
            access=evidence.access.value,
            chosen=chosen[:1] if self.switches.granularity == "session_pack" else chosen,
            read=tuple(map(_piece, evidence.cards)),
            sources=tuple((s.session_id, tuple(n for n, _ in s.turns)) for s in evidence.sources),
            pool=tuple((c.card.session_id, c.card.turns) for c in evidence.candidates),
            context=text,
            evidence_tokens=count(text),
            payload=kept.model_dump(mode="json", round_trip=True),
            calls=calls,
        )

    def _place(self, id: str) -> Path:
        return self._folder / id.replace("/", "-")

    async def _remember(self, folder: Path, history: History, base: Built) -> Built:
        recorded = self.given.cards_by == "recorded"
        cards = {s: rows for (h, s), rows in self.recorded.cards.items() if h == history.id}
        extractor = RecordedCards(cards) if recorded else self._maker(self.given.cards_by)
        sessions = history.added if history.base else history.sessions
        async with self._memory(folder, extractor) as memory:
            if isinstance(extractor, RecordedCards):
                done = []
                for session in sessions:
                    extractor.session_id = session.id
                    done.append(await memory.remember(session))
            else:
                done = await memory.remember_many(sessions)
            for one in history.corrections:
                await _correct(memory, one)
        failed = tuple(f"{d.session_id}: {d.reason}" for d in done if d.reason)
        calls = tuple(call for each in done for call in each.receipt.calls)
        texts = [card.text for each in done for card in each.cards]
        return Built(
            id=history.id,
            error=f"{len(failed)} of {len(done)} sessions failed" if failed else "",
            calls=() if recorded else (*base.calls, *calls),
            sessions=base.sessions + len(done),
            cards=base.cards + len(texts),
            card_tokens=base.card_tokens + sum(map(count, texts)),
            failed=failed,
        )

    def _maker(self, origin: Origin) -> Any:
        """What makes cards or plans, as `open` takes it."""
        if origin != "model":
            return "rules"
        if self._model is None:
            raise InvalidSetting("Cards or plans by a model need one: name it with --model.")
        return self._model

    @asynccontextmanager
    async def _memory(
        self, folder: Path, extractor: Any = "rules", answerer: Any = "rules"
    ) -> AsyncIterator[AsyncMemory]:
        batch = isinstance(self._model, BatchModel)
        async with await justmem.open_async(
            _SPACE,
            folder=folder,
            model="rules",
            extractor=extractor,
            planner=self._maker(self.given.plans_by),
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


async def _answer(memory: AsyncMemory, question: Question, retrieved: Retrieved) -> Predicted:
    reply = await memory.answer(Evidence.model_validate(retrieved.payload))
    return Predicted(
        id=question.id,
        answer=reply.text,
        sufficient=reply.sufficient,
        cited=tuple((one.session_id, one.turn) for one in reply.citations),
        calls=reply.receipt.calls,
    )


def _piece(card: Card) -> Piece:
    return Piece(place=(card.session_id, card.turns), text=card.text)
