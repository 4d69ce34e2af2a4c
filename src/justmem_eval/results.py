"""Stage files and gold -> the figures of a run. Everything can be added up again by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from justmem.domain import Value
from justmem.errors import InvalidFile, InvalidSetting
from justmem_eval import metrics
from justmem_eval.benchmarks import Benchmark, Case
from justmem_eval.metrics import (
    Figure,
    Flips,
    Recall,
    Recalls,
    Scores,
    Spread,
    flips,
    mean,
    percent,
    spread,
)
from justmem_eval.protocol import CORRECTED, Files, judged, retrieved
from justmem_eval.systems.alignment import realigned

Verdicts = Mapping[str, float]  # 1 for right, 0 for wrong; BEAM's scores lie between


class Tokens(Value):
    """As the paper counts: in and out, without embedding, reranking and judging."""

    construction: Figure  # per history
    planning: Figure  # per question
    answering: Figure  # per question and run
    infer: Figure
    judging: Figure
    evidence: Figure  # what the answer model was shown


class Judged(Value):
    """The answers of all runs by one judge, and the judge's errors on planted answers."""

    accuracy: Spread | None = None  # percent of the questions that have a verdict
    accepts_wrong: Figure = Figure(value=None, n=0)
    refuses_right: Figure = Figure(value=None, n=0)


class RunFigures(Recalls):
    system: str
    benchmark: str
    label: str
    model: str
    cards_by: str
    plans_by: str
    questions: int
    judges: Mapping[str, Judged]  # by name; the first decides the accuracy
    accuracy: Spread | None
    corrected: Spread | None  # by the corrected key; None: no answer was corrected
    corrections: int  # questions whose answer was corrected
    by_category: Mapping[str, Spread | None]
    turn_by_category: Mapping[str, Recall]  # everything read
    spanning_turn: Recall  # questions whose plan spans sessions
    answers: Scores  # of the first run, without a judge
    by_operation: Mapping[str, Spread | None]
    given_hit: Figure  # accuracy where the first source is right
    judged: int  # verdicts a run has, least over the runs
    missing: int  # questions without evidence, or without a verdict in some run
    tokens: Tokens
    cards_per_session: Figure
    card_tokens: Figure
    sessions: int
    cards: int
    errors: Mapping[str, int]  # by stage
    notes: tuple[str, ...]  # irregularities of the data, and what happened on many questions

    def titled(self, title: str) -> str:
        """Averages over a part of the questions are marked as such."""
        if not self.missing:
            return title
        kept = self.questions - self.missing
        return f"{title} (INCOMPLETE: {kept} of {self.questions} questions)"


def pinned(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidFile(f"{folder} is not the folder of a run: {path} ({error}).") from error
    return found


def verdicts(files: Files, run: int, judge: str = "strict") -> Verdicts:
    told = [v for v in files.verdicts(run, judge).items() if v.right is not None]
    return {v.id: float(v.right or False) if v.score is None else v.score for v in told}


def _judges(run: Mapping[str, Any]) -> list[str]:
    return list(run["judge"]["prompts"]) if run["judge"] else []


def figures(folder: Path, benchmark: Benchmark) -> RunFigures:
    run, files = pinned(folder), Files(folder)
    numbers = range(1, int(run["runs"]) + 1)
    names = _judges(run)
    cases = benchmark.cases
    found = retrieved(files, cases)
    # "none" and FullText choose nothing, so they have no recall.
    ranked = [] if run["system"] in ("none", "fulltext") else found
    told = {name: [verdicts(files, n, name) for n in numbers] for name in (*names, CORRECTED)}
    first = told[names[0]] if names else []
    both = [{**one, **other} for one, other in zip(first, told[CORRECTED], strict=False)]
    asked = [case for case in cases if judged(case)]
    operations = {c.question.id: r.plan.operation for c, r in found if r.plan}
    built = [b for b in files.memory.items() if not b.error or b.sessions]
    sessions, cards = sum(b.sessions for b in built), sum(b.cards for b in built)
    hits = [case.question.id for case, hit in metrics.source_hits(found) if hit]
    unjudged = {c.question.id for c in asked if any(c.question.id not in v for v in first)}
    lost = {c.question.id for c in cases if not files.evidence.done(c.question.id)}
    answers = {p.id: p for p in files.predictions(1).items() if not p.error}
    happened = Counter(note for _, row in found for note in row.notes).most_common(20)
    return RunFigures(
        **dict(metrics.recalls(ranked)),
        system=run["system"],
        benchmark=run["benchmark"],
        label=run.get("label") or run["system"],
        model=run["model"],
        cards_by=run["cards"],
        plans_by=run["plans"],
        questions=len(cases),
        judges={name: _judged(files, name, asked, told[name]) for name in names},
        accuracy=_accuracy(asked, first),
        corrected=_accuracy(asked, both) if any(told[CORRECTED]) else None,
        corrections=sum(bool(case.gold.corrected) for case in asked),
        by_category={
            name: _accuracy([c for c in asked if c.gold.category == name], first)
            for name in sorted({c.gold.category for c in asked})
        },
        turn_by_category={
            name: metrics.turn_recall(group) for name, group in metrics.by_category(ranked).items()
        },
        spanning_turn=metrics.turn_recall(metrics.spanning(ranked)),
        answers=metrics.scores(found, answers),
        by_operation={
            name: _accuracy([c for c in asked if operations.get(c.question.id) == name], first)
            for name in sorted(set(operations.values()))
        },
        given_hit=percent(v[id] for v in first for id in hits if id in v),
        judged=min((sum(c.question.id in v for c in asked) for v in first), default=0),
        missing=len(lost | unjudged),
        tokens=_tokens(files, cases, numbers, names),
        cards_per_session=Figure(value=cards / sessions if sessions else None, n=sessions),
        card_tokens=Figure(
            value=sum(b.card_tokens for b in built) / cards if cards else None, n=cards
        ),
        sessions=sessions,
        cards=cards,
        errors=_errors(files, numbers, names),
        notes=(*benchmark.notes, *(f"{count} questions: {note}" for note, count in happened)),
    )


def _judged(files: Files, name: str, asked: Sequence[Case], by_run: Sequence[Verdicts]) -> Judged:
    planted = [v for v in files.planted(name).items() if v.right is not None]
    return Judged(
        accuracy=_accuracy(asked, by_run),
        accepts_wrong=percent(v.right is True for v in planted if v.id.startswith("wrong/")),
        refuses_right=percent(v.right is False for v in planted if v.id.startswith("right/")),
    )


def _accuracy(cases: Sequence[Case], by_run: Sequence[Verdicts]) -> Spread | None:
    values = []
    for told in by_run:
        right = [told[c.question.id] for c in cases if c.question.id in told]
        if right:
            values.append(100 * sum(right) / len(right))
    return spread(values)


def by_words(folder: Path, benchmark: Benchmark) -> Recalls | None:
    """The recalls of a system that names its sources, under the rule for those that do not."""
    found = retrieved(Files(folder), benchmark.cases)
    if not any(row.read_texts for _, row in found):
        return None
    return metrics.recalls([(c, realigned(row, benchmark.history(c.history))) for c, row in found])


def _tokens(
    files: Files, cases: Sequence[Case], numbers: Sequence[int], judges: Sequence[str]
) -> Tokens:
    planning = mean(e.tokens for e in files.evidence.items())
    answering = mean(p.tokens for n in numbers for p in files.predictions(n).items())
    told = [v for n in numbers for j in (*judges, CORRECTED) for v in files.verdicts(n, j).items()]
    both = None if answering.value is None else answering.value + (planning.value or 0.0)
    return Tokens(
        construction=mean(b.tokens for b in files.memory.items()),
        planning=planning,
        answering=answering,
        infer=Figure(value=both, n=len(cases)),
        judging=mean(v.tokens for v in told),
        evidence=mean(e.evidence_tokens for e in files.evidence.items() if not e.error),
    )


def _stages(
    files: Files, numbers: Sequence[int], judges: Sequence[str]
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Every stage file that has errors of its own, by the stage's name."""
    yield "memory", files.memory.items()
    yield "evidence", files.evidence.items()
    for number in numbers:
        yield "predictions", files.predictions(number).items()
        for judge in (*judges, CORRECTED):
            yield "verdicts", files.verdicts(number, judge).items()
    for judge in judges:
        yield "planted", files.planted(judge).items()


def _errors(files: Files, numbers: Sequence[int], judges: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for stage, items in _stages(files, numbers, judges):
        if failed := sum(bool(item.error) for item in items):
            found[stage] = found.get(stage, 0) + failed
    lost = sum(len(each.failed) for each in files.memory.items() if not each.error)
    return {**found, "sessions": lost} if lost else found


def failures(folder: Path) -> list[tuple[str, str, str]]:
    """(stage, id, reason) of everything that went wrong."""
    run = pinned(folder)
    stages = _stages(Files(folder), range(1, int(run["runs"]) + 1), _judges(run))
    return [(stage, i.id, i.error) for stage, items in stages for i in items if i.error]


# ---------------------------------------------------------------- two runs


class Comparison(Value):
    first: str
    second: str
    by_run: tuple[Flips, ...]
    majority: Flips  # each question once, by what most of its runs say; a tie counts as wrong


def compare(a: Path, b: Path) -> Comparison:
    one, other = pinned(a), pinned(b)
    for name in ("benchmark", "data", "judge"):
        if one.get(name) != other.get(name):
            raise InvalidSetting(f"{a} and {b} cannot be compared: their {name} differs.")
    judge = (_judges(one) or ["strict"])[0]
    numbers = range(1, min(int(one["runs"]), int(other["runs"])) + 1)
    before, after = ([verdicts(Files(each), n, judge) for n in numbers] for each in (a, b))
    return Comparison(
        first=one.get("label") or one["system"],
        second=other.get("label") or other["system"],
        by_run=tuple(
            flips(_majority([x]), _majority([y])) for x, y in zip(before, after, strict=True)
        ),
        majority=flips(_majority(before), _majority(after)),
    )


def _majority(by_run: Sequence[Verdicts]) -> dict[str, bool]:
    votes: dict[str, list[float]] = {}
    for told in by_run:
        for id, right in told.items():
            votes.setdefault(id, []).append(right)
    return {id: 2 * sum(given) > len(given) for id, given in votes.items()}
