"""Measuring without a language model: every question once, figures by category, costs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from justmem import tokens
from justmem.domain import Value
from justmem.extraction.model import extraction_prompt
from justmem.planning.model import planning_prompt
from justmem.prompts import load
from justmem_eval import answers, metrics
from justmem_eval.answers import Scores
from justmem_eval.benchmarks import Benchmark, Case
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.metrics import Figure, Pairs, Recall, Routing, SourceHits, mean
from justmem_eval.rows import Row, row_of
from justmem_eval.systems.local import LocalJustMem, Metered

Progress = Callable[[int, int], None]  # questions done, of
_REPLY_SHAPE = 30  # tokens of {"answer": ..., "used": [...], "sufficient": true}


class Level(Value):
    """Recall at one level, counted in each way."""

    slot: Recall
    head: Recall
    source: Recall
    pool: Recall


class Costs(Value):
    card_tokens: Figure
    cards_per_session: Figure
    evidence_tokens: Figure
    slots: Figure
    pairs: Figure
    construction: Figure  # tokens a model would take for one history, estimated
    infer: Figure  # tokens of planning and answering one question with a model, estimated
    cpu_ms: dict[str, float] = {}  # of one recall, models worked anew, by part
    timed: int = 0


class Summary(Value):
    benchmark: str
    cards: str
    plans: str
    switches: dict[str, Any]
    questions: int
    turn: Level
    session: Level
    session_at_5: Recall
    spanning_turn: Recall
    spanning_session: Recall
    spanning_pool: Recall
    by_category: dict[str, dict[str, Recall]]
    routing: Routing
    sources: SourceHits
    answers: Scores
    answers_by_category: dict[str, Scores]
    costs: Costs
    notes: tuple[str, ...]
    seconds: float


async def run(system: LocalJustMem, benchmark: Benchmark, progress: Progress) -> list[Row]:
    rows: list[Row] = []
    for history_id, cases in _by_history(benchmark.cases):
        async with system.memory(benchmark.history(history_id)) as memory:
            for case in cases:
                answer = await memory.ask(case.question.text, at=case.question.at)
                rows.append(row_of(case.question, history_id, answer))
                progress(len(rows), len(benchmark.cases))
    return rows


def _by_history(cases: Sequence[Case]) -> Iterator[tuple[str, list[Case]]]:
    for history, group in groupby(cases, key=lambda case: case.history):
        yield history, list(group)


async def timing(
    system: LocalJustMem, benchmark: Benchmark, count: int
) -> tuple[dict[str, float], int]:
    """CPU milliseconds of one recall, by part, models worked anew."""
    models = system.models.metered()
    spent = {"embed": 0.0, "rerank": 0.0, "rest": 0.0}
    timed = 0
    for history_id, cases in _by_history(benchmark.limited(count).cases if count else []):
        async with system.memory(benchmark.history(history_id), metered=models) as memory:
            # The first recall of a memory loads its matrices: not what a recall costs.
            await memory.recall(cases[0].question.text, at=cases[0].question.at)
            for case in cases:
                _add(spent, models, -1)
                spent["rest"] -= time.process_time()
                await memory.recall(case.question.text, at=case.question.at)
                spent["rest"] += time.process_time()
                _add(spent, models, 1)
                timed += 1
    spent["rest"] -= spent["embed"] + spent["rerank"]
    return ({k: 1000 * v / timed for k, v in spent.items()} if timed else {}), timed


def _add(spent: dict[str, float], models: Metered, sign: int) -> None:
    spent["embed"] += sign * models.embedder.meter.cpu
    spent["rerank"] += sign * (models.reranker.meter.cpu if models.reranker else 0.0)


# ---------------------------------------------------------------- figures


def summarise(
    system: LocalJustMem,
    benchmark: Benchmark,
    recorded: Recorded,
    rows: Sequence[Row],
    cpu: tuple[dict[str, float], int],
    seconds: float,
) -> Summary:
    pairs = list(zip(benchmark.cases, rows, strict=True))
    spanning = metrics.spanning(pairs)
    groups = metrics.by_category(pairs)
    return Summary(
        benchmark=benchmark.name,
        cards=system.cards,
        plans=system.plans,
        switches=system.switches.model_dump(mode="json"),
        questions=len(pairs),
        turn=_level(pairs, metrics.turn_recall),
        session=_level(pairs, metrics.session_recall),
        session_at_5=metrics.session_recall(pairs, k=5),
        spanning_turn=metrics.turn_recall(spanning),
        spanning_session=metrics.session_recall(spanning),
        spanning_pool=metrics.turn_recall(spanning, "pool"),
        by_category={
            name: {"turn": metrics.turn_recall(g), "session": metrics.session_recall(g)}
            for name, g in groups.items()
        },
        routing=metrics.routing(pairs),
        sources=metrics.source_hits(pairs),
        answers=answers.scores(pairs),
        answers_by_category={name: answers.scores(g) for name, g in groups.items()},
        costs=_costs(system, benchmark, recorded, pairs, cpu),
        notes=(*benchmark.notes, *_counted(rows)),
        seconds=round(seconds, 1),
    )


def _level(pairs: Pairs, recall: Callable[..., Recall]) -> Level:
    return Level(
        slot=recall(pairs, "slot"),
        head=recall(pairs, "head"),
        source=recall(pairs, "source"),
        pool=recall(pairs, "pool"),
    )


def _counted(rows: Sequence[Row]) -> list[str]:
    """Notes of the receipts, each once, with how often."""
    counts = Counter(note for row in rows for note in row.notes)
    return [f"{count} questions: {note}" for note, count in counts.most_common(20)]


def _costs(
    system: LocalJustMem,
    benchmark: Benchmark,
    recorded: Recorded,
    pairs: Pairs,
    cpu: tuple[dict[str, float], int],
) -> Costs:
    cards = [row for rows in recorded.cards.values() for row in rows]
    used = {case.history for case in benchmark.cases}
    bases = sorted({benchmark.history(h).base or h for h in used}) if recorded.cards else []
    return Costs(
        card_tokens=mean(tokens.count(f"{c['subject']} {c['fact']}") for c in cards),
        cards_per_session=mean(len(rows) for rows in recorded.cards.values()),
        evidence_tokens=mean(row.evidence_tokens for _, row in pairs),
        slots=mean(len(row.slots) for _, row in pairs),
        pairs=mean(row.pairs for _, row in pairs),
        construction=mean(_construction(benchmark, recorded, id) for id in bases),
        infer=mean(_infer(case, row, recorded) for case, row in pairs),
        cpu_ms={name: round(value, 2) for name, value in cpu[0].items()},
        timed=cpu[1],
    )


def _construction(benchmark: Benchmark, recorded: Recorded, history_id: str) -> int:
    """What our extraction prompt and the recorded cards, as our reply rows, come to."""
    total = 0
    for session in benchmark.history(history_id).sessions:
        rows = recorded.cards.get((history_id, session.id), ())
        prompt = extraction_prompt(session, session.user_side)
        total += tokens.count(prompt.system) + tokens.count(prompt.user)
        total += tokens.count(json.dumps({"cards": [_reply_row(row) for row in rows]}))
    return total


def _reply_row(row: Mapping[str, Any]) -> str:
    turns = ",".join(map(str, row.get("turns", ())))
    fields = [row.get(name, "unknown") for name in ("event_date", "status", "kind")]
    return " | ".join([row["subject"], row["fact"], *fields, turns])


def _infer(case: Case, row: Row, recorded: Recorded) -> int:
    """Planning and answering prompts with a plan and an answer of the usual length."""
    plan = recorded.plans.get(case.question.id) or (row.plan.model_dump() if row.plan else {})
    prompt = planning_prompt(case.question.text, case.question.at)
    planned = {k: v for k, v in plan.items() if k in prompt.schema["properties"]}
    texts = [prompt.system, prompt.user, json.dumps(planned, default=str)]
    texts += [load("answer"), load("operations/lookup"), case.question.text, case.gold.answer]
    return sum(map(tokens.count, texts)) + row.evidence_tokens + _REPLY_SHAPE
