"""Stage files and gold -> the figures of a run. Everything can be added up again by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from justmem.domain import Value
from justmem.errors import InvalidFile
from justmem_eval import metrics
from justmem_eval.benchmarks import Benchmark, Case
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.judging import Verdict
from justmem_eval.metrics import Figure, Recall, Routing, SourceHits, mean, percent
from justmem_eval.protocol import CORRECTED, Files, judged, rows
from justmem_eval.statistics import Spread, spread
from justmem_eval.systems.alignment import realigned
from justmem_eval.systems.types import Built

Verdicts = Mapping[str, float]  # 1 for right, 0 for wrong; BEAM's scores lie between
JUDGES = ("strict", "lenient", "own", "rubric", CORRECTED)


class Tokens(Value):
    """As the paper counts: in and out, without embedding, reranking and judging."""

    construction: Figure  # per history
    planning: Figure  # per question
    answering: Figure  # per question and run
    infer: Figure
    judging: Figure
    evidence: Figure  # what the answer model was shown


class Shown(Value):
    """What a recall counts, each per question. `at_10`: of the first ten pieces alone."""

    cards_at_10: Figure
    turns_at_10: Figure
    cards: Figure
    turns: Figure  # that the pieces claim as their source
    aligned: Figure  # percent of the pieces whose place was found by their words


class Recalls(Value):
    """Each recall with what it counts."""

    turn: Recall  # of everything that is read
    session: Recall
    turn_at_10: Recall  # of the first ten pieces alone
    session_at_10: Recall
    sessions_at_5: Recall  # of the first five sessions
    most_all_at_5: Figure
    shown: Shown


class RunFigures(Recalls):
    system: str
    benchmark: str
    label: str
    model: str
    questions: int
    accuracy: Spread | None  # percent of the questions that have a verdict of the strict judge
    lenient: Spread | None  # the same answers by the lenient judge
    corrected: Spread | None  # strict, by the corrected key; None: no answer was corrected
    corrections: int  # questions whose answer was corrected
    by_category: Mapping[str, Spread | None]
    by_operation: Mapping[str, Spread | None]
    assistant: Spread | None
    given_hit: Figure  # accuracy where the first source is right
    judged: int  # verdicts a run has, least over the runs
    unjudged: int  # questions without a verdict in some run
    false_positives: Figure  # the judge's, on planted wrong answers
    false_negatives: Figure  # on planted right answers
    lenient_positives: Figure  # the same of the lenient judge
    lenient_negatives: Figure
    missing: int  # questions that are in no average, because something failed
    sources: SourceHits
    routing: Routing
    recall_by_category: Mapping[str, float | None]
    refused: Figure  # unanswerable questions that were refused
    tokens: Tokens
    words: Figure  # of an answer
    cards_per_session: Figure
    card_tokens: Figure
    sessions: int
    cards: int
    errors: Mapping[str, int]  # by stage


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


def judges(run: Mapping[str, Any]) -> list[str]:
    """Names of the judges of a run. The first decides its accuracy."""
    return list(run["judge"]["prompts"]) if run["judge"] else []


def majority(files: Files, runs: int, judge: str = "strict") -> dict[str, bool]:
    """One verdict a question: what most of its runs say. A tie counts as wrong."""
    votes: dict[str, list[float]] = {}
    for number in range(1, runs + 1):
        for id, right in verdicts(files, number, judge).items():
            votes.setdefault(id, []).append(right)
    return {id: 2 * sum(given) > len(given) for id, given in votes.items()}


def figures(folder: Path, benchmark: Benchmark) -> RunFigures:
    run, files = pinned(folder), Files(folder)
    runs = int(run["runs"])
    cases = benchmark.cases
    found = rows(files, cases)
    # Nothing and the whole history are no choice, so they have no recall.
    ranked = [] if run["system"] in ("none", "fulltext") else found
    numbers = range(1, runs + 1)
    names = judges(run)
    first = names[0] if names else "strict"
    by_run = [verdicts(files, number, first) for number in numbers]
    lenient = [verdicts(files, number, "lenient") for number in numbers]
    changed = [verdicts(files, number, CORRECTED) for number in numbers]
    both = [{**one, **other} for one, other in zip(by_run, changed, strict=True)]
    asked = [case for case in cases if judged(case)]
    operations = {c.question.id: r.plan.operation for c, r in found if r.plan}
    assistant = [case for case in asked if case.gold.category == ASSISTANT]
    built = [b for b in files.memory.items() if not b.error or b.sessions]
    have = [sum(c.question.id in v for c in asked) for v in by_run]
    return RunFigures(
        system=run["system"],
        benchmark=run["benchmark"],
        label=run.get("label") or run["system"],
        model=run["model"],
        questions=len(cases),
        accuracy=_accuracy(asked, by_run),
        lenient=_accuracy(asked, lenient),
        corrected=_accuracy(asked, both) if any(changed) else None,
        corrections=sum(bool(case.gold.corrected) for case in asked),
        by_category={name: _accuracy(group, by_run) for name, group in _categories(asked).items()},
        by_operation={
            name: _accuracy([c for c in asked if operations.get(c.question.id) == name], by_run)
            for name in sorted(set(operations.values()))
        },
        assistant=_accuracy(assistant, by_run),
        given_hit=_given_hit(found, by_run),
        judged=min(have, default=0),
        unjudged=len({c.question.id for c in asked if any(c.question.id not in v for v in by_run)}),
        false_positives=_planted(files, first, right=False),
        false_negatives=_planted(files, first, right=True),
        lenient_positives=_planted(files, "lenient", right=False),
        lenient_negatives=_planted(files, "lenient", right=True),
        missing=_missing(files, cases, by_run if run["judge"] else ()),
        **dict(recalls(ranked)),
        sources=metrics.source_hits(found),
        routing=metrics.routing(found),
        recall_by_category={
            name: metrics.turn_recall(group, "ten").fraction.value
            for name, group in metrics.by_category(ranked).items()
        },
        refused=_refused(files, cases, runs),
        tokens=_tokens(files, cases, runs),
        words=_words(files, runs),
        cards_per_session=_ratio(built, "cards", "sessions"),
        card_tokens=_ratio(built, "card_tokens", "cards"),
        sessions=sum(b.sessions for b in built),
        cards=sum(b.cards for b in built),
        errors=_errors(files, runs),
    )


def _planted(files: Files, judge: str, *, right: bool) -> Figure:
    """How often the judge is wrong about answers that are right (or wrong) for sure."""
    kind = "right/" if right else "wrong/"
    told = [v for v in files.planted(judge).items() if v.id.startswith(kind)]
    return percent(v.right is not right for v in told if v.right is not None)


def recalls(pairs: metrics.Pairs) -> Recalls:
    return Recalls(
        turn=metrics.turn_recall(pairs),
        session=metrics.session_recall(pairs),
        turn_at_10=metrics.turn_recall(pairs, "ten"),
        session_at_10=metrics.session_recall(pairs, "ten"),
        sessions_at_5=metrics.sessions_at(pairs, 5),
        most_all_at_5=metrics.most_all_at(pairs, 5),
        shown=shown(pairs),
    )


def by_words(folder: Path, benchmark: Benchmark) -> Recalls | None:
    """The recalls of a system that names its sources, under the rule for those that do not."""
    found = rows(Files(folder), benchmark.cases)
    if not any(row.read_texts for _, row in found):
        return None
    return recalls([(c, realigned(row, benchmark.history(c.history))) for c, row in found])


def shown(pairs: metrics.Pairs) -> Shown:
    found = [row for _, row in pairs]
    return Shown(
        cards_at_10=mean(len(row.slots[: metrics.K]) for row in found),
        turns_at_10=mean(len(metrics.turns_of(row, "ten")) for row in found),
        cards=mean(len(row.read) for row in found),
        turns=mean(len(metrics.turns_of(row, "read")) for row in found),
        aligned=percent(slot.aligned for row in found for slot in row.slots),
    )


def _missing(files: Files, cases: Sequence[Case], by_run: Sequence[Verdicts]) -> int:
    """Questions without evidence, and those to be judged without a verdict in some run."""
    lost = {c.question.id for c in cases if not files.evidence.done(c.question.id)}
    unjudged = {
        c.question.id
        for c in cases
        if judged(c) and any(c.question.id not in verdicts for verdicts in by_run)
    }
    return len(lost | unjudged)


def _ratio(built: Sequence[Built], above: str, below: str) -> Figure:
    n = sum(getattr(each, below) for each in built)
    return Figure(value=sum(getattr(each, above) for each in built) / n if n else None, n=n)


def _accuracy(cases: Sequence[Case], by_run: Sequence[Verdicts]) -> Spread | None:
    values = []
    for verdicts in by_run:
        right = [verdicts[c.question.id] for c in cases if c.question.id in verdicts]
        if right:
            values.append(100 * sum(right) / len(right))
    return spread(values)


def _categories(cases: Sequence[Case]) -> dict[str, list[Case]]:
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.gold.category, []).append(case)
    return dict(sorted(groups.items()))


def _given_hit(found: metrics.Pairs, by_run: Sequence[Verdicts]) -> Figure:
    hit = [
        case.question.id
        for case, row in found
        if case.gold.category == ASSISTANT
        and row.sources
        and row.sources[0][0] in case.gold.sessions
    ]
    return percent(v[id] for v in by_run for id in hit if id in v)


def _refused(files: Files, cases: Sequence[Case], runs: int) -> Figure:
    asked = [case.question.id for case in cases if case.gold.abstain]
    told = [files.predictions(number) for number in range(1, runs + 1)]
    return percent(not t[id].sufficient for t in told for id in asked if t.done(id))


def _words(files: Files, runs: int) -> Figure:
    told = [p for n in range(1, runs + 1) for p in files.predictions(n).items()]
    return mean(len(p.answer.split()) for p in told if p.answer and p.sufficient)


def _tokens(files: Files, cases: Sequence[Case], runs: int) -> Tokens:
    told = [p for n in range(1, runs + 1) for p in files.predictions(n).items()]
    planning = mean(e.tokens for e in files.evidence.items())
    answering = mean(p.tokens for p in told)
    verdicts = [v for n in range(1, runs + 1) for j in JUDGES for v in files.verdicts(n, j).items()]
    both = None if answering.value is None else answering.value + (planning.value or 0.0)
    return Tokens(
        construction=mean(b.tokens for b in files.memory.items()),
        planning=planning,
        answering=answering,
        infer=Figure(value=both, n=len(cases)),
        judging=mean(v.tokens for v in verdicts),
        evidence=mean(e.row.evidence_tokens for e in files.evidence.items() if not e.error),
    )


def _errors(files: Files, runs: int) -> dict[str, int]:
    def count(items: Sequence[Any]) -> int:
        return sum(bool(item.error) for item in items)

    built = files.memory.items()
    found = {"memory": count(built), "evidence": count(files.evidence.items())}
    found["sessions"] = sum(len(each.failed) for each in built if not each.error)
    each = range(1, runs + 1)
    found["predictions"] = sum(count(files.predictions(n).items()) for n in each)
    found["verdicts"] = sum(count(files.verdicts(n, j).items()) for n in each for j in JUDGES)
    found["planted"] = sum(count(files.planted(j).items()) for j in JUDGES)
    return {stage: number for stage, number in found.items() if number}


def failures(folder: Path) -> list[tuple[str, str, str]]:
    """(stage, id, reason) of everything that went wrong."""
    files = Files(folder)
    runs = int(pinned(folder)["runs"])
    stages: list[tuple[str, Sequence[Any]]] = [
        ("memory", files.memory.items()),
        ("evidence", files.evidence.items()),
    ]
    for number in range(1, runs + 1):
        stages.append((f"answers {number}", files.predictions(number).items()))
        stages += [(f"{j} {number}", files.verdicts(number, j).items()) for j in JUDGES]
    return [(stage, i.id, i.error) for stage, items in stages for i in items if i.error]


__all__ = [
    "Recalls",
    "RunFigures",
    "Verdict",
    "by_words",
    "failures",
    "figures",
    "majority",
    "pinned",
    "verdicts",
]
