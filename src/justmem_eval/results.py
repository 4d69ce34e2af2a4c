"""The records of a run and the gold -> its figures, which can be added up again by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem_eval import metrics
from justmem_eval.benchmarks import Benchmark, Case
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
    failures: tuple[tuple[str, str, str], ...] = ()  # stage, id and reason
    notes: tuple[str, ...] = ()  # irregularities of the data, and what happened on many questions

    def __getitem__(self, name: str) -> Figure:
        return self.figures.get(name, NONE)

    @property
    def errors(self) -> dict[str, int]:
        """How many, by stage."""
        return dict(Counter(stage for stage, _, _ in self.failures))

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


class _Read:
    """The records of a run."""

    def __init__(self, folder: Path) -> None:
        self.files = files = Files(folder)
        self.run = files.pinned()
        numbers = range(1, int(self.run["runs"]) + 1)
        self.judges = list(self.run["judge"]["prompts"]) if self.run["judge"] else []
        self.built = files.memory.items()
        self.asked = files.evidence.items()
        self.predicted = [files.predictions(number).items() for number in numbers]
        names = (*self.judges, CORRECTED) if self.judges else ()
        self.verdicts = {
            name: [files.verdicts(number, name).items() for number in numbers] for name in names
        }
        self.planted = {name: files.planted(name).items() for name in self.judges}

    @property
    def stages(self) -> list[tuple[str, Sequence[Record]]]:
        """Every file, by the name of its stage."""
        return [
            ("memory", self.built),
            ("evidence", self.asked),
            *(("predictions", items) for items in self.predicted),
            *(("verdicts", items) for runs in self.verdicts.values() for items in runs),
            *(("planted", items) for items in self.planted.values()),
        ]

    def verdicts_of(self, judge: str) -> list[Verdicts]:
        """What a judge said in each of the runs."""
        return [_given(told) for told in self.verdicts.get(judge, ())]


def _given(told: Sequence[Verdict]) -> Verdicts:
    given = [v for v in told if v.right is not None]
    return {v.id: float(v.right or False) if v.score is None else v.score for v in given}


def measured(folder: Path, benchmark: Benchmark) -> Measured:
    read, cases = _Read(folder), benchmark.cases
    pairs = read.files.retrieved(cases)
    # "none" and FullText choose nothing, so they have no recall.
    ranked = [] if read.run["system"] in ("none", "fulltext") else pairs
    answers = {p.id: p for items in read.predicted[:1] for p in items if not p.error}
    first = read.verdicts_of(read.judges[0]) if read.judges else []
    missing = [
        case
        for case in cases
        if not read.files.evidence.done(case.question.id)
        or (case.gold.judged and any(case.question.id not in told for told in first))
    ]
    lost = [("sessions", b.id, each) for b in read.built if not b.error for each in b.failed]
    failed = [(stage, i.id, i.error) for stage, items in read.stages for i in items if i.error]
    happened = Counter(note for _, row in pairs for note in row.notes).most_common(20)
    figures = metrics.recalls(ranked) | metrics.scores(pairs, answers)
    return Measured(
        run=read.run,
        questions=len(cases),
        missing=len(missing),
        figures=figures | _accuracies(read, cases) | _costs(read) | _memory(read),
        failures=(*failed, *lost),
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
    for (history, session), rows in known.cards.items():
        for row in rows:
            text = f"{row['subject']} {row['fact']}"  # as a system would show it
            found, numbers = aligned(text, benchmark.history(history))
            hits.append((found == session and bool({*row["turns"]} & {*numbers}), found == session))
    return {
        "right_turn": percent(turn for turn, _ in hits),
        "right_session": percent(session for _, session in hits),
    }


def _accuracies(read: _Read, cases: Sequence[Case]) -> Figures:
    """By each judge with its errors on planted answers, by the corrected key, by category and
    operation, and where the first source is right."""
    found: Figures = {}
    asked = [case for case in cases if case.gold.judged]
    for name, told in read.planted.items():
        planted = [v for v in told if v.right is not None]
        wrong = [v.right is True for v in planted if v.id.startswith("wrong/")]
        right = [v.right is False for v in planted if v.id.startswith("right/")]
        found[f"judge.{name}.accuracy"] = _accuracy(asked, read.verdicts_of(name))
        found[f"judge.{name}.accepts_wrong"] = percent(wrong)
        found[f"judge.{name}.refuses_right"] = percent(right)
    if not found:
        return found
    first = read.verdicts_of(read.judges[0])
    other = read.verdicts_of(CORRECTED)
    if any(other):
        both = [{**one, **two} for one, two in zip(first, other, strict=True)]
        found["accuracy.corrected"] = _accuracy(asked, both)
    corrections = sum(bool(case.gold.corrected) for case in asked)
    found["corrections"] = Figure(value=corrections, n=len(asked))
    pairs = read.files.retrieved(cases)
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


def _costs(read: _Read) -> Figures:
    """Tokens as the paper counts: in and out, without embedding, reranking and judging.
    Construction is per history, planning per question, answering per question and run."""
    built, asked = read.built, read.asked
    found: Figures = {}
    stages: tuple[tuple[str, Sequence[Record]], ...] = (
        ("construction", built),
        ("planning", asked),
        ("answering", [p for items in read.predicted for p in items]),
        ("judging", [v for runs in read.verdicts.values() for items in runs for v in items]),
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


def _memory(read: _Read) -> Figures:
    built = [b for b in read.built if not b.error or b.sessions]
    sessions, cards = sum(b.sessions for b in built), sum(b.cards for b in built)
    tokens = sum(b.card_tokens for b in built)
    each = cards / sessions if sessions else None
    return {
        "memory.sessions": Figure(value=sessions, n=len(built)),
        "memory.cards": Figure(value=cards, n=len(built)),
        "memory.cards_per_session": Figure(value=each, n=sessions),
        "memory.card_tokens": Figure(value=tokens / cards if cards else None, n=cards),
    }


def compare(a: Path, b: Path) -> Flips:
    """Each question once, by what most of its runs say; a tie counts as wrong."""
    one, other = _Read(a), _Read(b)
    for name in ("benchmark", "data", "judge"):
        if one.run.get(name) != other.run.get(name):
            raise InvalidSetting(f"{a} and {b} cannot be compared: their {name} differs.")
    judge = one.judges[0] if one.judges else ""
    runs = min(len(one.predicted), len(other.predicted))
    return flips(*(_majority(read.verdicts_of(judge)[:runs]) for read in (one, other)))


def _majority(by_run: Sequence[Verdicts]) -> dict[str, bool]:
    votes: dict[str, list[float]] = {}
    for told in by_run:
        for id, right in told.items():
            votes.setdefault(id, []).append(right)
    return {id: 2 * sum(given) > len(given) for id, given in votes.items()}
