"""Measuring without a language model: every question once, figures by category, costs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from justmem.domain import Value
from justmem_eval import answers, metrics
from justmem_eval.answers import Scores
from justmem_eval.benchmarks import TITLES, Benchmark, Case
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.estimate import ANSWERING, EXTRACTING, PLAN, PLANNING, spoken
from justmem_eval.metrics import Figure, Pairs, Recall, Routing, SourceHits, mean
from justmem_eval.rows import Row
from justmem_eval.systems.justmem import JustMem
from justmem_eval.text import count
from justmem_eval.timing import CpuTime

Progress = Callable[[int, int], None]  # questions done, of
_REPLY_SHAPE = 30  # tokens of {"answer": ..., "used": [...], "sufficient": true}


class Level(Value):
    """Recall at one level, counted in each way."""

    ten: Recall
    read: Recall
    source: Recall
    pool: Recall


class Costs(Value):
    card_tokens: Figure
    cards_per_session: Figure
    evidence_tokens: Figure
    cards_read: Figure
    turns_claimed: Figure  # turns that the cards read rest on
    pairs: Figure
    construction: Figure  # tokens a model would take for one history, estimated
    infer: Figure  # tokens of planning and answering one question with a model, estimated
    cpu_ms: Mapping[str, float]  # of one recall, models worked anew, by part
    cpu_share: Figure  # of what 60 pairs through the L-12 cross-encoder take, in percent


class Summary(Value):
    benchmark: str
    cards: str
    plans: str
    switches: dict[str, Any]
    questions: int
    turn: Level
    session: Level
    session_at_5: Recall  # of the first five cards
    sessions_at_5: Recall  # of the first five sessions
    most_all_at_5: Figure
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


async def run(system: JustMem, benchmark: Benchmark, progress: Progress) -> list[Row]:
    rows: list[Row] = []
    for history_id, cases in benchmark.by_history():
        history = benchmark.history(history_id)
        async with system.opened(history) as opened:
            for case in cases:
                found = await opened.retrieve(case.question)
                told = await opened.answer(found)
                answer = told.model_dump(include={"answer", "sufficient", "cited"})
                rows.append(found.row.model_copy(update=answer))
                progress(len(rows), len(benchmark.cases))
    return rows


# ---------------------------------------------------------------- figures


def summarise(
    system: JustMem,
    benchmark: Benchmark,
    recorded: Recorded,
    rows: Sequence[Row],
    cpu: CpuTime,
    seconds: float,
) -> Summary:
    pairs = list(zip(benchmark.cases, rows, strict=True))
    spanning = metrics.spanning(pairs)
    groups = metrics.by_category(pairs)
    return Summary(
        benchmark=benchmark.name,
        cards=system.memories.stages.cards,
        plans=system.memories.stages.plans,
        switches=system.memories.switches.model_dump(mode="json"),
        questions=len(pairs),
        turn=_level(pairs, metrics.turn_recall),
        session=_level(pairs, metrics.session_recall),
        session_at_5=metrics.session_recall(pairs, "ten", k=5),
        sessions_at_5=metrics.sessions_at(pairs, 5),
        most_all_at_5=metrics.most_all_at(pairs, 5),
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
        ten=recall(pairs, "ten"),
        read=recall(pairs, "read"),
        source=recall(pairs, "source"),
        pool=recall(pairs, "pool"),
    )


def _counted(rows: Sequence[Row]) -> list[str]:
    """Notes of the receipts, each once, with how often."""
    counts = Counter(note for row in rows for note in row.notes)
    return [f"{count} questions: {note}" for note, count in counts.most_common(20)]


def _costs(
    system: JustMem,
    benchmark: Benchmark,
    recorded: Recorded,
    pairs: Pairs,
    cpu: CpuTime,
) -> Costs:
    cards = [row for rows in recorded.cards.values() for row in rows]
    used = {case.history for case in benchmark.cases}
    bases = sorted({benchmark.history(h).base or h for h in used}) if recorded.cards else []
    return Costs(
        card_tokens=mean(count(f"{c['subject']} {c['fact']}") for c in cards),
        cards_per_session=mean(len(rows) for rows in recorded.cards.values()),
        evidence_tokens=mean(row.evidence_tokens for _, row in pairs),
        cards_read=mean(len(row.read) for _, row in pairs),
        turns_claimed=mean(len(metrics.turns_of(row, "read")) for _, row in pairs),
        pairs=mean(row.pairs for _, row in pairs),
        construction=mean(_construction(benchmark, recorded, id) for id in bases),
        infer=mean(_infer(case, row) for case, row in pairs),
        cpu_ms=cpu.parts,
        cpu_share=cpu.share,
    )


def _construction(benchmark: Benchmark, recorded: Recorded, history_id: str) -> int:
    """Extraction prompts of the usual size, and the recorded cards as replies."""
    total = 0
    for session in benchmark.history(history_id).sessions:
        rows = recorded.cards.get((history_id, session.id), ())
        reply = json.dumps({"cards": [_reply_row(row) for row in rows]})
        total += EXTRACTING + spoken(session) + count(reply)
    return total


def _reply_row(row: Mapping[str, Any]) -> str:
    turns = ",".join(map(str, row.get("turns", ())))
    fields = [row.get(name, "unknown") for name in ("event_date", "status", "kind")]
    return " | ".join([row["subject"], row["fact"], *fields, turns])


def _infer(case: Case, row: Row) -> int:
    """Planning and answering prompts, a plan and an answer, all of the usual size."""
    asked = count(case.question.text)
    planning = PLANNING + asked + PLAN
    answering = ANSWERING + asked + row.evidence_tokens + count(case.gold.answer) + _REPLY_SHAPE
    return planning + answering


# ---------------------------------------------------------------- as text


def shown(s: Summary) -> str:
    def three(name: str, r: Recall) -> str:
        return f"  {name:34} any {r.any}   all {r.all}   fraction {r.fraction}"

    lines = [
        f"{TITLES[s.benchmark]}: {s.questions} questions, {s.cards} cards, {s.plans} plans",
        three("turn recall, ten cards", s.turn.ten),
        three("  everything read", s.turn.read),
        three("  with recovered sources", s.turn.source),
        three("  all candidates", s.turn.pool),
        three("session recall, ten cards", s.session.ten),
        three("  everything read", s.session.read),
        three("  with recovered sources", s.session.source),
        three("  all candidates", s.session.pool),
        three("  first five cards", s.session_at_5),
        three("  first five sessions", s.sessions_at_5),
        f"    all@5 can reach {s.most_all_at_5}",
        three("spanning: turns, everything read", s.spanning_turn),
        three("  sessions, everything read", s.spanning_session),
        three("  turns, all candidates", s.spanning_pool),
    ]
    for name, group in s.by_category.items():
        lines.append(three(f"{name}: turn", group["turn"]))
        lines.append(three(f"{name}: session", group["session"]))
    r, h, a, c = s.routing, s.sources, s.answers, s.costs
    lines += [
        f"  needs_source precision {r.precision}   recall {r.recall}   access {dict(r.access)}",
        f"  source hit@1 {h.session_at_1}   turn in first {h.turn_at_1}   in any {h.turn_any}",
        f"  answers: exact {a.exact}   F1 {a.f1}   gold in evidence {a.contained}",
        f"  answers rest on a gold turn {a.rests}   on none {a.misled}",
        f"  refused: answerable {a.refused}   unanswerable {a.refused_rightly}",
        f"  words per answer {a.words}",
        *(
            f"  {name}: F1 {score.f1}   gold in evidence {score.contained}"
            for name, score in s.answers_by_category.items()
        ),
        f"  everything read: tokens {c.evidence_tokens}   cards {c.cards_read}"
        f"   turns claimed {c.turns_claimed}",
        f"  cards: tokens each {c.card_tokens}   per session {c.cards_per_session}",
        f"  pairs read by the reranker {c.pairs}",
        f"  with a model, estimated: construction {c.construction}   infer {c.infer}",
        f"  CPU ms of a recall {dict(c.cpu_ms)}   percent of 60 pairs (L-12) {c.cpu_share}",
        f"  {s.seconds} s",
    ]
    return "\n".join([*lines, *(f"  note: {note}" for note in s.notes[:12])])
