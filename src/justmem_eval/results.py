"""The records of a run and the gold -> its figures, which can be added up again by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem_eval import metrics
from justmem_eval.benchmarks import Benchmark, Case, recorded
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.metrics import Figure, Figures, Flips, flips, mean, over_runs, percent
from justmem_eval.records import CORRECTED, Files, Record, Verdict
from justmem_eval.systems.alignment import aligned, realigned

Verdicts = Mapping[str, float]  # 1 for right, 0 for wrong; BEAM's scores lie between
NONE = Figure(value=None, n=0)


class Measured(Value):
    """A run and its figures by name."""

    run: Mapping[str, Any]  # what is pinned
    questions: int
    missing: int  # of them, without evidence, or without a verdict in some run
    figures: Figures
    errors: Mapping[str, int]  # by stage
    notes: tuple[str, ...]  # irregularities of the data, and what happened on many questions

    def __getitem__(self, name: str) -> Figure:
        return self.figures.get(name, NONE)

    @property
    def system(self) -> str:
        return str(self.run["system"])

    @property
    def benchmark(self) -> str:
        return str(self.run["benchmark"])

    @property
    def judged(self) -> bool:
        return bool(self["accuracy"].n)

    @property
    def placed_by_words(self) -> bool:
        """Whether the system names no turns for some of its evidence."""
        return bool(self["costs.aligned"].value)

    def titled(self, title: str = "") -> str:
        """Averages over a part of the questions are marked as such."""
        title = title or label(self.run)
        if not self.missing:
            return title
        kept = self.questions - self.missing
        return f"{title} (INCOMPLETE: {kept} of {self.questions} questions)"


def label(run: Mapping[str, Any]) -> str:
    return str(run.get("label") or run["system"])


def judges_of(run: Mapping[str, Any]) -> list[str]:
    """The first decides the accuracy."""
    return list(run["judge"]["prompts"]) if run["judge"] else []


def measured(folder: Path, benchmark: Benchmark) -> Measured:
    files = Files(folder)
    run = files.pinned()
    cases = benchmark.cases
    pairs = files.retrieved(cases)
    # "none" and FullText choose nothing, so they have no recall.
    ranked = [] if run["system"] in ("none", "fulltext") else pairs
    answers = {p.id: p for p in files.predictions(1).items() if not p.error}
    found = metrics.recalls(ranked) | metrics.scores(pairs, answers)
    first = _runs(files, run, (judges_of(run) or ["strict"])[0])
    unjudged = {
        case.question.id
        for case in cases
        if judges_of(run) and case.gold.judged and any(case.question.id not in v for v in first)
    }
    lost = {case.question.id for case in cases if not files.evidence.done(case.question.id)}
    happened = Counter(note for _, row in pairs for note in row.notes).most_common(20)
    return Measured(
        run=run,
        questions=len(cases),
        missing=len(lost | unjudged),
        figures=found | _accuracies(files, run, cases) | _costs(files, run) | _memory(files),
        errors=_errors(files),
        notes=(*benchmark.notes, *(f"{count} questions: {note}" for note, count in happened)),
    )


def by_words(folder: Path, benchmark: Benchmark) -> Figures:
    """The recalls of a run under the rule for systems that keep no sources."""
    pairs = Files(folder).retrieved(benchmark.cases)
    return metrics.recalls([(c, realigned(row, benchmark.history(c.history))) for c, row in pairs])


def placed(benchmark: Benchmark, known: Recorded) -> Figures:
    """How often the rule for systems that keep no sources places a recorded card, whose source is
    known, in a right turn and in the right session."""
    hits = []
    for name, session, turns, text in recorded.texts(known):
        found, numbers = aligned(text, benchmark.history(name))
        hits.append((found == session and bool(turns & set(numbers)), found == session))
    return {
        "right_turn": percent(turn for turn, _ in hits),
        "right_session": percent(session for _, session in hits),
    }


def _runs(files: Files, run: Mapping[str, Any], judge: str) -> list[Verdicts]:
    """What a judge said in each of the runs."""
    return [_verdicts(files.verdicts(n, judge).items()) for n in _numbers(run)]


def _numbers(run: Mapping[str, Any]) -> range:
    return range(1, int(run["runs"]) + 1)


def _verdicts(told: Sequence[Verdict]) -> Verdicts:
    given = [v for v in told if v.right is not None]
    return {v.id: float(v.right or False) if v.score is None else v.score for v in given}


def _accuracies(files: Files, run: Mapping[str, Any], cases: Sequence[Case]) -> Figures:
    """By each judge with its errors on planted answers, by the corrected key, by category and
    operation, and where the first source is right."""
    found: Figures = {}
    asked = [case for case in cases if case.gold.judged]
    for name in reversed(judges_of(run)):
        first = _runs(files, run, name)
        planted = [v for v in files.planted(name).items() if v.right is not None]
        wrong = [v.right is True for v in planted if v.id.startswith("wrong/")]
        right = [v.right is False for v in planted if v.id.startswith("right/")]
        found[f"judge.{name}.accuracy"] = _accuracy(asked, first)
        found[f"judge.{name}.accepts_wrong"] = percent(wrong)
        found[f"judge.{name}.refuses_right"] = percent(right)
    if not found:
        return found
    other = _runs(files, run, CORRECTED)
    if any(other):
        both = [{**one, **two} for one, two in zip(first, other, strict=True)]
        found["accuracy.corrected"] = _accuracy(asked, both)
    corrections = sum(bool(case.gold.corrected) for case in asked)
    found["corrections"] = Figure(value=corrections, n=len(asked))
    pairs = files.retrieved(cases)
    operations = {c.question.id: f"operation.{r.plan.operation}" for c, r in pairs if r.plan}
    hits = {case.question.id for case, hit in metrics.source_hits(pairs) if hit}
    groups: dict[str, list[Case]] = {"": asked}
    for case in asked:
        groups.setdefault(f".category.{case.gold.category}", []).append(case)
        if operation := operations.get(case.question.id):
            groups.setdefault(f".{operation}", []).append(case)
        if case.question.id in hits:
            groups.setdefault(".given_hit", []).append(case)
    return found | {f"accuracy{name}": _accuracy(group, first) for name, group in groups.items()}


def _accuracy(cases: Sequence[Case], by_run: Sequence[Verdicts]) -> Figure:
    ids = [case.question.id for case in cases]
    return over_runs([[told[id] for id in ids if id in told] for told in by_run])


def _costs(files: Files, run: Mapping[str, Any]) -> Figures:
    """Tokens as the paper counts: in and out, without embedding, reranking and judging.
    Construction is per history, planning per question, answering per question and run."""
    built, asked = files.memory.items(), files.evidence.items()
    predicted = [p for n in _numbers(run) for p in files.predictions(n).items()]
    names = (*judges_of(run), CORRECTED)
    judged = [v for n in _numbers(run) for name in names for v in files.verdicts(n, name).items()]
    found: Figures = {}
    stages: tuple[tuple[str, Sequence[Record]], ...] = (
        ("construction", built),
        ("planning", asked),
        ("answering", predicted),
        ("judging", judged),
    )
    for stage, items in stages:
        found[f"tokens.{stage}"] = mean(item.tokens for item in items)
        found[f"calls.{stage}"] = mean(item.requests for item in items)
    planning, answering = found["tokens.planning"], found["tokens.answering"]
    both = None if answering.value is None else answering.value + (planning.value or 0.0)
    found["tokens.infer"] = Figure(value=both, n=planning.n)
    found["tokens.evidence"] = mean(e.evidence_tokens for e in asked if not e.error)
    used = [item.usage for item in (*built, *asked) if item.usage]
    if used:  # a process of its own
        found["process.build_cpu_s"] = mean(b.usage.cpu for b in built if b.usage)
        found["process.ask_cpu_ms"] = mean((e.usage.cpu for e in asked if e.usage), 1000.0)
        found["process.peak_mb"] = Figure(value=max(u.peak_mb for u in used), n=len(used))
        found["process.disk_kb"] = mean(b.disk_kb for b in built)
    return found


def _memory(files: Files) -> Figures:
    built = [b for b in files.memory.items() if not b.error or b.sessions]
    sessions, cards = sum(b.sessions for b in built), sum(b.cards for b in built)
    tokens = sum(b.card_tokens for b in built)
    return {
        "memory.sessions": Figure(value=sessions, n=len(built)),
        "memory.cards": Figure(value=cards, n=len(built)),
        "memory.cards_per_session": Figure(
            value=cards / sessions if sessions else None, n=sessions
        ),
        "memory.card_tokens": Figure(value=tokens / cards if cards else None, n=cards),
    }


def _stages(files: Files) -> Iterator[tuple[str, Sequence[Record]]]:
    """Every stage file that has errors of its own, by the stage's name."""
    run = files.pinned()
    yield "memory", files.memory.items()
    yield "evidence", files.evidence.items()
    for number in _numbers(run):
        yield "predictions", files.predictions(number).items()
        for judge in (*judges_of(run), CORRECTED):
            yield "verdicts", files.verdicts(number, judge).items()
    for judge in judges_of(run):
        yield "planted", files.planted(judge).items()


def _errors(files: Files) -> dict[str, int]:
    found: Counter[str] = Counter(stage for stage, _, _ in failures(files))
    lost = sum(len(each.failed) for each in files.memory.items() if not each.error)
    return {**found, "sessions": lost} if lost else dict(found)


def failures(files: Files) -> list[tuple[str, str, str]]:
    """(stage, id, reason) of everything that went wrong."""
    return [(stage, i.id, i.error) for stage, items in _stages(files) for i in items if i.error]


def compare(a: Files, b: Files) -> Flips:
    """Each question once, by what most of its runs say; a tie counts as wrong."""
    one, other = a.pinned(), b.pinned()
    for name in ("benchmark", "data", "judge"):
        if one.get(name) != other.get(name):
            raise InvalidSetting(
                f"{a.folder} and {b.folder} cannot be compared: their {name} differs."
            )
    judge = (judges_of(one) or ["strict"])[0]
    runs = min(int(one["runs"]), int(other["runs"]))
    before, after = (_majority(_runs(each, {"runs": runs}, judge)) for each in (a, b))
    return flips(before, after)


def _majority(by_run: Sequence[Verdicts]) -> dict[str, bool]:
    votes: dict[str, list[float]] = {}
    for told in by_run:
        for id, right in told.items():
            votes.setdefault(id, []).append(right)
    return {id: 2 * sum(given) > len(given) for id, given in votes.items()}
