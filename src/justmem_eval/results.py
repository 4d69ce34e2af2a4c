"""The records of a run and the gold -> its figures, which can be added up again by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem_eval import metrics
from justmem_eval.benchmarks import Benchmark, Case
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.metrics import Figure, Figures, Flips, flips, mean, over_runs, percent
from justmem_eval.records import CORRECTED, Files, Record
from justmem_eval.systems.alignment import Alignment

Verdicts = Mapping[str, float]  # 1 for right, 0 for wrong; BEAM's scores lie between
NONE = Figure(value=None, n=0)


class Measured(Value):
    """A run and its figures by name."""

    run: Mapping[str, Any]  # what is pinned
    questions: int
    missing: int  # of them, without evidence, or without a verdict in some run
    figures: Figures
    failures: tuple[tuple[str, str, str], ...] = ()  # stage, id and reason
    notes: tuple[str, ...] = ()  # irregularities of the data

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


def measured(folder: Path, benchmark: Benchmark) -> Measured:
    files, cases = Files(folder), benchmark.cases
    run = files.pinned()
    numbers, judges = range(1, int(run["runs"]) + 1), _judges(run)
    names = (*judges, CORRECTED) if judges else ()
    stages: dict[str, list[Record]] = {
        "memory": [*files.memory.items()],
        "evidence": [*files.evidence.items()],
        "predictions": [p for n in numbers for p in files.predictions(n).items()],
        "verdicts": [v for n in numbers for name in names for v in files.verdicts(n, name).items()],
        "planted": [v for name in judges for v in files.planted(name).items()],
    }
    pairs = files.retrieved(cases)
    answers = {p.id: p for p in files.predictions(1).items() if not p.error}
    first = _verdicts(files, judges[0]) if judges else []
    missing = [
        case
        for case in cases
        if not files.evidence.done(case.question.id)
        or (case.gold.judged and any(case.question.id not in told for told in first))
    ]
    built = [b for b in files.memory.items() if not b.error or b.sessions]
    failed = [(stage, i.id, i.error) for stage, items in stages.items() for i in items if i.error]
    failed += [("sessions", b.id, each) for b in built if not b.error for each in b.failed]
    figures = metrics.recalls(_ranked(files, cases)) | metrics.scores(pairs, answers)
    figures |= _accuracies(files, cases, judges) if judges else {}
    return Measured(
        run=run,
        questions=len(cases),
        missing=len(missing),
        figures=figures | _costs(stages) | _sizes(files),
        failures=tuple(failed),
        notes=tuple(benchmark.notes),
    )


def _judges(run: Mapping[str, Any]) -> list[str]:
    return list(run["judge"]["prompts"]) if run["judge"] else []


def _verdicts(files: Files, judge: str) -> list[Verdicts]:
    """What a judge said in each of the runs."""
    told = [files.verdicts(n + 1, judge).items() for n in range(int(files.pinned()["runs"]))]
    return [
        {v.id: float(v.right) if v.score is None else v.score for v in run if v.right is not None}
        for run in told
    ]


def _ranked(files: Files, cases: Sequence[Case]) -> metrics.Pairs:
    """The evidence that has a recall: "none" and FullText choose nothing."""
    return [] if files.pinned()["system"] in ("none", "fulltext") else files.retrieved(cases)


def with_words(found: Measured, folder: Path, benchmark: Benchmark) -> Measured:
    """The same run with its recalls under the rule for systems that keep no sources, too."""
    pairs = _ranked(Files(folder), benchmark.cases)
    known = {id: Alignment(benchmark.history(id)) for id in benchmark.histories}
    placed = [(case, known[case.history].realigned(row)) for case, row in pairs]
    words = {f"by_words.{name}": each for name, each in metrics.recalls(placed).items()}
    return found.model_copy(update={"figures": found.figures | words})


def placed(benchmark: Benchmark, known: Recorded) -> Figures:
    """How often the rule for systems that keep no sources places a recorded card, whose source is
    known, in a right turn and in the right session."""
    hits = []
    histories = {id: Alignment(benchmark.history(id)) for id in benchmark.histories}
    for (history, session), rows in known.cards.items():
        for row in rows:
            text = f"{row['subject']} {row['fact']}"  # as a system would show it
            found, numbers = histories[history].place(text)
            hits.append((found == session and bool({*row["turns"]} & {*numbers}), found == session))
    return {
        "right_turn": percent(turn for turn, _ in hits),
        "right_session": percent(session for _, session in hits),
    }


def _accuracies(files: Files, cases: Sequence[Case], judges: Sequence[str]) -> Figures:
    """By each judge with its errors on planted answers, by the corrected key, by category and
    operation, and where the first source is right."""
    found: Figures = {}
    asked = [case for case in cases if case.gold.judged]
    for name in judges:
        planted = [v for v in files.planted(name).items() if v.right is not None]
        wrong = [v.right is True for v in planted if v.id.startswith("wrong/")]
        right = [v.right is False for v in planted if v.id.startswith("right/")]
        found[f"judge.{name}.accuracy"] = _accuracy(asked, _verdicts(files, name))
        found[f"judge.{name}.accepts_wrong"] = percent(wrong)
        found[f"judge.{name}.refuses_right"] = percent(right)
    first, other = _verdicts(files, judges[0]), _verdicts(files, CORRECTED)
    if any(other):
        both = [{**one, **two} for one, two in zip(first, other, strict=True)]
        found["accuracy.corrected"] = _accuracy(asked, both)
    corrections = sum(bool(case.gold.corrected) for case in asked)
    found["corrections"] = Figure(value=corrections, n=len(asked))
    pairs = files.retrieved(cases)
    operations = {c.question.id: f".operation.{r.plan.operation}" for c, r in pairs if r.plan}
    hits = {case.question.id: ".given_hit" for case, hit in metrics.source_hits(pairs) if hit}
    groups: dict[str, list[Case]] = {}
    for case in asked:
        id = case.question.id
        parts = ["", f".category.{case.gold.category}"]
        parts += [named[id] for named in (operations, hits) if id in named]
        for part in parts:
            groups.setdefault(part, []).append(case)
    return found | {f"accuracy{name}": _accuracy(group, first) for name, group in groups.items()}


def _accuracy(cases: Sequence[Case], by_run: Sequence[Verdicts]) -> Figure:
    ids = [case.question.id for case in cases]
    return over_runs([[told[id] for id in ids if id in told] for told in by_run])


def _costs(stages: Mapping[str, Sequence[Record]]) -> Figures:
    """Tokens as the paper counts: in and out, without embedding, reranking and judging.
    Construction is per history, planning per question, answering per question and run."""
    found: Figures = {}
    names = {"memory": "construction", "evidence": "planning", "predictions": "answering"}
    for stage, name in {**names, "verdicts": "judging"}.items():
        found[f"tokens.{name}"] = mean(item.tokens for item in stages[stage])
        found[f"calls.{name}"] = mean(item.requests for item in stages[stage])
    planning, answering = found["tokens.planning"], found["tokens.answering"]
    both = None if answering.value is None else answering.value + (planning.value or 0.0)
    found["tokens.infer"] = Figure(value=both, n=planning.n)
    return found


def _sizes(files: Files) -> Figures:
    """What was built and read, and what a system in a process of its own took."""
    built, asked = files.memory.items(), files.evidence.items()
    made = [b for b in built if not b.error or b.sessions]
    sessions, cards = sum(b.sessions for b in made), sum(b.cards for b in made)
    tokens = sum(b.card_tokens for b in made)
    found = {
        "memory.sessions": Figure(value=sessions, n=len(made)),
        "memory.cards": Figure(value=cards, n=len(made)),
        "memory.cards_per_session": Figure(
            value=cards / sessions if sessions else None, n=sessions
        ),
        "memory.card_tokens": Figure(value=tokens / cards if cards else None, n=cards),
        "tokens.evidence": mean(e.evidence_tokens for e in asked if not e.error),
    }
    if used := [item.usage for item in (*built, *asked) if item.usage]:
        found["process.build_cpu_s"] = mean(b.usage.cpu for b in built if b.usage)
        found["process.ask_cpu_ms"] = mean((e.usage.cpu for e in asked if e.usage), 1000.0)
        found["process.peak_mb"] = Figure(value=max(u.peak_mb for u in used), n=len(used))
        found["process.disk_kb"] = mean(b.disk_kb for b in built)
    return found


def compare(a: Path, b: Path) -> Flips:
    """Each question once, by what most of its runs say; a tie counts as wrong."""
    files = Files(a), Files(b)
    one, other = (each.pinned() for each in files)
    for name in ("benchmark", "data", "judge"):
        if one.get(name) != other.get(name):
            raise InvalidSetting(f"{a} and {b} cannot be compared: their {name} differs.")
    if not (judges := _judges(one)):
        raise InvalidSetting(f"{a} and {b} cannot be compared: no answer was judged.")
    runs = min(one["runs"], other["runs"])
    return flips(*(_majority(_verdicts(each, judges[0])[:runs]) for each in files))


def _majority(by_run: Sequence[Verdicts]) -> dict[str, bool]:
    ids = dict.fromkeys(id for told in by_run for id in told)
    return {id: fmean(told[id] for told in by_run if id in told) > 0.5 for id in ids}
