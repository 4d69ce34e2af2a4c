"""Figures of runs as tables of text: of one run, and the paper's tables with ours beside them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem_eval.benchmarks import TITLES
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.results import Measured, compare


@dataclass(frozen=True, slots=True)
class Grid:
    title: str
    headings: Sequence[str]  # the first two columns are words
    rows: Sequence[Sequence[str]]


# ---------------------------------------------------------------- runs

# Heading, figure, whether its number of questions is shown.
_RECALLS = (
    ("Turn@10", "turn.ten.fraction", True),
    ("Session@10", "session.ten.fraction", True),
    ("Cards", "costs.cards_at_10", False),
    ("Turns", "costs.turns_at_10", False),
    ("Turn, all read", "turn.read.fraction", True),
    ("Session, all read", "session.read.fraction", True),
    ("Cards", "costs.cards_read", False),
    ("Turns", "costs.turns_claimed", False),
)


def recalls(found: Iterable[Measured]) -> Grid:
    """What each recall counts: the first ten pieces and everything read, the pieces, the turns
    that they claim, and the tokens. Beside a system that keeps no sources, the others are shown
    under its rule too, as far as that was measured (`with_words`)."""
    runs = list(found)
    unsourced = {each.benchmark for each in runs if each.placed_by_words}
    rows = []
    for each in runs:
        start = (TITLES.get(each.benchmark, each.benchmark), each.titled())
        tokens = each["tokens.evidence"].short(0)
        rows.append([*start, *_recall(each), tokens])
        if (
            each.benchmark in unsourced
            and not each.placed_by_words
            and each["by_words.turn.ten.any"].n
        ):
            rows.append(
                [start[0], f"{start[1]}, placed by words", *_recall(each, "by_words."), tokens]
            )
    headings = ["", "", *(heading for heading, _, _ in _RECALLS), "Evidence tokens"]
    return Grid("What recall counts", headings, rows)


def _recall(found: Measured, rule: str = "") -> list[str]:
    named = ((found[rule + name], full) for _, name, full in _RECALLS)
    return [str(figure) if full else figure.short() for figure, full in named]


def judged(found: Iterable[Measured]) -> Grid:
    """The same answers by both judges, with the judges' errors on planted answers, and by the
    corrected answer key."""
    headings = ["Strict", "accepts wrong", "refuses right", "Lenient", "accepts wrong"]
    headings += ["refuses right", "Corrected key", "corrected"]
    rows = []
    for each in found:
        row = [TITLES.get(each.benchmark, each.benchmark), each.titled()]
        for judge in ("judge.strict", "judge.lenient"):
            row.append(each[f"{judge}.accuracy"].spread())
            row += [str(each[f"{judge}.{name}"]) for name in ("accepts_wrong", "refuses_right")]
        rows.append([*row, each["accuracy.corrected"].spread(), each["corrections"].short(0)])
    return Grid("Judges and answer keys", ["", "", *headings], rows)


def all_figures(found: Measured) -> Grid:
    """Every figure that has a value, by its name, with the number of values behind it."""
    rows = [[name, str(each)] for name, each in found.figures.items() if each.value is not None]
    rows += [[f"errors: {stage}", str(count)] for stage, count in found.errors.items()]
    run = found.run
    title = f"{found.titled()} on {run['benchmark']}: {found.questions} questions, "
    title += f"model {run['model']}, {run['cards']} cards, {run['plans']} plans"
    return Grid(title, ["", ""], rows)


# ---------------------------------------------------------------- the paper's tables

_REFERENCE = tomllib.loads(files("justmem_eval").joinpath("reference.toml").read_text("utf-8"))
NAMES = tuple(_REFERENCE)  # in the paper's order: Table 1 to Table 8
NUMBERED = ", ".join(f"{number} ({name})" for number, name in enumerate(NAMES, 1))

# The paper's column -> (heading, our figure, what it is multiplied by, decimal places). Tokens are
# per question or per history.
COLUMNS: Mapping[str, tuple[str, str, float, int]] = {
    "recall": ("Recall@10", "turn.ten.fraction", 1, 2),
    "accuracy": ("Accuracy", "accuracy", 1, 2),
    "aggregate": ("Aggregation", "accuracy.operation.aggregate", 1, 2),
    "assistant": ("Assistant output", f"accuracy.category.{ASSISTANT}", 1, 2),
    "construction": ("Construction (K)", "tokens.construction", 0.001, 2),
    "infer": ("Infer (K)", "tokens.infer", 0.001, 2),
    "answering": ("Answer tokens", "tokens.answering", 1, 2),
    "evidence": ("Evidence tokens", "tokens.evidence", 1, 2),
    "source_hit": ("Source hit", "source_hit", 1, 2),
    "given_hit": ("Accuracy | hit", "accuracy.given_hit", 1, 2),
    "sessions": ("Sessions", "memory.sessions", 1, 0),
    "cards": ("Cards", "memory.cards", 1, 0),
    "cards_per_session": ("Cards/session", "memory.cards_per_session", 1, 2),
    "card_tokens": ("Tokens/card", "memory.card_tokens", 1, 2),
}
# LongMemEval's recall is counted in sessions, as its gold is; LoCoMo's in turns.
_SESSION_RECALL = ("longmemeval",)
# What a system does not do has no figure: nothing is built.
_BUILDS_NOTHING = ("none", "fulltext", "naive_rag")


class Line(Value):
    """One row of a table on one benchmark: the run it needs and what the paper has for it."""

    title: str
    benchmark: str
    system: str = "justmem"
    switches: tuple[str, ...] = ()
    category: str | None = None
    paper: Mapping[str, float]

    @property
    def is_default(self) -> bool:
        return self.system == "justmem" and not self.switches

    @property
    def slug(self) -> str:
        """The run's folder. Rows of different tables that need the same run share it."""
        parts = [self.benchmark, self.system, *(s.replace("=", "-") for s in self.switches)]
        return "_".join([*parts, self.category or ""]).rstrip("_")


class Pair(Value):
    """A comparison that the paper tests: the flips from one line to another."""

    benchmark: str
    before: int  # places among the benchmark's lines
    after: int
    p: float
    gained: int | None = None
    lost: int | None = None


class Table(Value):
    title: str
    lines: tuple[Line, ...]
    pairs: tuple[Pair, ...] = ()

    @property
    def columns(self) -> list[str]:
        given = {column for line in self.lines for column in line.paper}
        return [column for column in COLUMNS if column in given]


def table(name: str) -> Table:
    """By its name, or by its number in the paper."""
    if name.isdigit() and 1 <= int(name) <= len(NAMES):
        name = NAMES[int(name) - 1]
    if name not in NAMES:
        raise InvalidSetting(f"The paper has no table {name!r}. Its tables are {NUMBERED}.")
    entry = _REFERENCE[name]
    rows = [
        (benchmark, {**row, **row.get(benchmark, {})})
        for benchmark in entry["benchmarks"]
        for row in entry["rows"]
    ]
    lines = tuple(
        Line(
            title=row["title"],
            benchmark=benchmark,
            system=row.get("system", "justmem"),
            switches=row.get("set", ()),
            category=entry.get("category"),
            paper={column: row[column] for column in COLUMNS if column in row},
        )
        for benchmark, row in rows
    )
    title = f"Table {NAMES.index(name) + 1}: {entry['title']}"
    first = entry["benchmarks"][0]
    pairs = tuple(Pair.model_validate({"benchmark": first, **p}) for p in entry.get("p", ()))
    return Table(title=title, lines=lines, pairs=pairs)


def ours(found: Measured, column: str) -> str:
    _, name, scale, places = COLUMNS[column]
    if column == "construction" and found.system in _BUILDS_NOTHING:
        return "-"
    if column == "recall" and found.benchmark in _SESSION_RECALL:
        name = "session.ten.fraction"
    figure = found[name]
    if figure.value is None or figure.deviation is not None:
        return figure.spread()
    return f"{figure.value * scale:,.{places}f}"


def grid(table: Table, found: Mapping[str, Measured]) -> Grid:
    """For each column ours and the paper's. `found` is by the lines' slugs; a run that was not
    made is a dash. Where nothing was judged, what can be told without a judge is shown as well."""
    more = () if any(each.judged for each in found.values()) else ("recall", "evidence")
    columns = [column for column in COLUMNS if column in (*table.columns, *more)]
    rows = []
    for line in table.lines:
        made = found.get(line.slug)
        row = [TITLES[line.benchmark], made.titled(line.title) if made else line.title]
        for column in columns:
            paper = line.paper.get(column)
            row.append(ours(made, column) if made else "-")
            row.append("-" if paper is None else f"{paper:,.{COLUMNS[column][3]}f}")
        rows.append(row)
    headings = [heading for column in columns for heading in (COLUMNS[column][0], "paper")]
    return Grid(table.title, ["", "", *headings], rows)


def tested(table: Table, folders: Mapping[str, Path]) -> Grid:
    """The comparisons that the paper tests, and each line against JustMem's default, where we
    have both runs (by slug)."""
    made = []
    for benchmark in dict.fromkeys(line.benchmark for line in table.lines):
        lines = [line for line in table.lines if line.benchmark == benchmark]
        papers = {(p.before, p.after): p for p in table.pairs if p.benchmark == benchmark}
        default = [n for n, line in enumerate(lines) if line.is_default][-1:]
        others = [(n, last) for last in default for n in range(len(lines)) if n != last]
        for places in dict.fromkeys([*papers, *others]):
            before, after = (lines[place] for place in places)
            if before.slug not in folders or after.slug not in folders:
                continue
            flips, paper = compare(folders[before.slug], folders[after.slug]), papers.get(places)
            known = paper is not None and paper.gained is not None
            made.append(
                [
                    TITLES[benchmark],
                    f"{before.title} → {after.title}",
                    f"{len(flips.gained)} / {len(flips.lost)}",
                    f"{paper.gained} / {paper.lost}" if paper and known else "-",
                    f"{flips.p:.3g}",
                    f"{paper.p:.3g}" if paper else "-",
                ]
            )
    title = "Flips, wrong to right / right to wrong"
    return Grid(title, ["", "", "Flips", "paper", "p", "paper"], made)
