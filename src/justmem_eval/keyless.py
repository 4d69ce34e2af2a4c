"""Measuring without a language model: recall on each question, and harm on turns without need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib.resources import files
from typing import Any

from justmem.domain import Value
from justmem_eval import metrics
from justmem_eval.benchmarks import TITLES, Benchmark, History, Question
from justmem_eval.metrics import Figure, Recall, Recalls, Scores, mean, percent
from justmem_eval.rows import Row
from justmem_eval.systems.justmem import JustMem
from justmem_eval.systems.types import System

Progress = Callable[[int, int], None]  # questions done, of


class Summary(Recalls):
    benchmark: str
    cards: str
    plans: str
    switches: dict[str, Any]
    questions: int
    spanning_turn: Recall
    by_category: dict[str, Recall]  # turns, everything read
    answers: Scores
    notes: tuple[str, ...]


async def run(system: JustMem, benchmark: Benchmark, progress: Progress) -> list[Row]:
    rows: list[Row] = []
    for history_id, cases in benchmark.by_history():
        async with system.opened(benchmark.history(history_id)) as opened:
            for case in cases:
                found = await opened.retrieve(case.question)
                told = await opened.answer(found)
                answer = told.model_dump(include={"answer", "sufficient", "cited"})
                rows.append(found.row.model_copy(update=answer))
                progress(len(rows), len(benchmark.cases))
    return rows


def summarise(system: JustMem, benchmark: Benchmark, rows: Sequence[Row]) -> Summary:
    pairs = list(zip(benchmark.cases, rows, strict=True))
    counts = Counter(note for row in rows for note in row.notes)
    notes = [f"{count} questions: {note}" for note, count in counts.most_common(20)]
    groups = metrics.by_category(pairs)
    return Summary(
        **dict(metrics.recalls(pairs)),
        benchmark=benchmark.name,
        cards=system.memories.stages.cards,
        plans=system.memories.stages.plans,
        switches=system.memories.switches.model_dump(mode="json"),
        questions=len(pairs),
        spanning_turn=metrics.turn_recall(metrics.spanning(pairs)),
        by_category={name: metrics.turn_recall(group) for name, group in groups.items()},
        answers=metrics.scores(pairs),
        notes=(*benchmark.notes, *notes),
    )


def shown(s: Summary) -> str:
    def three(name: str, r: Recall) -> str:
        return f"  {name:34} any {r.any}   all {r.all}   fraction {r.fraction}"

    lines = [f"{TITLES[s.benchmark]}: {s.questions} questions, {s.cards} cards, {s.plans} plans"]
    for name, level in (("turn", s.turn), ("session", s.session)):
        lines.append(three(f"{name} recall, ten cards", level.ten))
        lines.append(three("  everything read", level.read))
        lines.append(three("  with recovered sources", level.source))
    lines.append(three("first five sessions", s.sessions_at_5))
    lines.append(f"    all@5 can reach {s.most_all_at_5}")
    lines.append(three("spanning: turns, everything read", s.spanning_turn))
    lines += [three(f"{name}: turn", recall) for name, recall in s.by_category.items()]
    a, c = s.answers, s.costs
    lines += [
        f"  source hit@1 {s.source_hit}",
        f"  answers: F1 {a.f1}   gold in evidence {a.contained}   words {a.words}",
        f"  answers rest on a gold turn {a.rests}   on none {a.misled}",
        f"  refused: answerable {a.refused}   unanswerable {a.refused_rightly}",
        f"  everything read: tokens {c.evidence_tokens}   cards {c.cards_read}"
        f"   turns claimed {c.turns_claimed}",
    ]
    return "\n".join([*lines, *(f"  note: {note}" for note in s.notes[:12])])


# ---------------------------------------------------------------- harm


class Harm(Value):
    """What memory adds to turns that need none: greetings, arithmetic, general knowledge."""

    nothing: Figure  # percent of the turns for which nothing is recalled
    tokens: Figure  # added to a turn, on average over all of them
    recalled: tuple[str, ...]  # turns for which something is recalled, in any history

    def __str__(self) -> str:
        figures = f"nothing recalled {self.nothing}   tokens added {self.tokens}"
        lines = [f"  something is recalled for: {text}" for text in self.recalled]
        return "\n".join([f"turns that need no memory: {figures}", *lines])


def no_memory_turns() -> list[str]:
    text = files("justmem_eval").joinpath("data", "no_memory.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip()]


async def harm(system: System, histories: Sequence[History]) -> Harm:
    added: list[tuple[str, int]] = []
    for history in histories:
        at = max(session.at for session in history.sessions) + timedelta(days=1)
        await system.build(history)
        async with system.opened(history) as opened:
            for number, text in enumerate(no_memory_turns()):
                question = Question(id=f"{history.id}/harm-{number}", text=text, at=at)
                row = (await opened.retrieve(question)).row
                read = row.slots or row.read or row.sources
                added.append((text, row.evidence_tokens if read else 0))
    return Harm(
        nothing=percent(tokens == 0 for _, tokens in added),
        tokens=mean(tokens for _, tokens in added),
        recalled=tuple(dict.fromkeys(text for text, tokens in added if tokens)),
    )
