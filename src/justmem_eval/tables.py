"""The paper's tables by name: which runs each needs, and ours beside the paper's figures."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field

from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem_eval.benchmarks import TITLES
from justmem_eval.benchmarks.longmemeval import ASSISTANT
from justmem_eval.metrics import Recalls, Spread
from justmem_eval.results import Judged, RunFigures, compare

# In the paper's order: Table 1 to Table 8.
NAMES = (
    "main",
    "granularity",
    "breadth",
    "fidelity",
    "allocation",
    "transfer",
    "memory",
    "replay",
)
NUMBERED = ", ".join(f"{number} ({name})" for number, name in enumerate(NAMES, 1))

# The paper's column -> (heading, our figure for it). Tokens are per question or per history.
_Get = Callable[[RunFigures], float | Spread | None]
COLUMNS: Mapping[str, tuple[str, _Get]] = {
    "recall": ("Recall@10", lambda f: f.turn.ten.fraction.value),
    "accuracy": ("Accuracy", lambda f: f.accuracy),
    "aggregate": ("Aggregation", lambda f: f.by_operation.get("aggregate")),
    "assistant": ("Assistant output", lambda f: f.by_category.get(ASSISTANT)),
    "construction": ("Construction (K)", lambda f: _thousands(f.tokens.construction.value)),
    "infer": ("Infer (K)", lambda f: _thousands(f.tokens.infer.value)),
    "answering": ("Answer tokens", lambda f: f.tokens.answering.value),
    "evidence": ("Evidence tokens", lambda f: f.tokens.evidence.value),
    "source_hit": ("Source hit", lambda f: f.source_hit.value),
    "given_hit": ("Accuracy | hit", lambda f: f.given_hit.value),
    "sessions": ("Sessions", lambda f: float(f.sessions)),
    "cards": ("Cards", lambda f: float(f.cards)),
    "cards_per_session": ("Cards/session", lambda f: f.cards_per_session.value),
    "card_tokens": ("Tokens/card", lambda f: f.card_tokens.value),
}
# LongMemEval's recall is counted in sessions, as its gold is; LoCoMo's in turns.
_SESSION_RECALL = ("longmemeval",)
# What a system does not do has no figure: nothing is built.
_NOT_OF = dict.fromkeys(("none", "fulltext", "naive_rag"), ("construction",))


def _thousands(value: float | None) -> float | None:
    return None if value is None else value / 1000


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
    before: int = Field(alias="from")  # places among the benchmark's lines
    after: int = Field(alias="to")
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


@cache
def reference() -> Mapping[str, Any]:
    return tomllib.loads(files("justmem_eval").joinpath("reference.toml").read_text("utf-8"))


def table(name: str) -> Table:
    """By its name, or by its number in the paper."""
    if name.isdigit() and 1 <= int(name) <= len(NAMES):
        name = NAMES[int(name) - 1]
    if name not in NAMES:
        raise InvalidSetting(f"The paper has no table {name!r}. Its tables are {NUMBERED}.")
    entry = reference()[name]
    number = NAMES.index(name) + 1
    if name == "main":
        lines = [_line(part["benchmark"], row) for part in entry for row in part["rows"]]
        return Table(title=f"Table {number}: Main comparison", lines=tuple(lines))
    lines = [
        _line(benchmark, {**row, **row.get(benchmark, {})}, entry.get("category"))
        for benchmark in entry["benchmarks"]
        for row in entry["rows"]
    ]
    first = {"benchmark": entry["benchmarks"][0]}
    return Table(
        title=f"Table {number}: {entry['title']}",
        lines=tuple(lines),
        pairs=tuple(Pair.model_validate({**first, **pair}) for pair in entry.get("p", ())),
    )


def _line(benchmark: str, row: Mapping[str, Any], category: str | None = None) -> Line:
    return Line(
        title=row["title"],
        benchmark=benchmark,
        system=row.get("system", "justmem"),
        switches=tuple(row.get("set", ())),
        category=category,
        paper={column: float(row[column]) for column in COLUMNS if column in row},
    )


def ours(figures: RunFigures, column: str) -> float | Spread | None:
    if column in _NOT_OF.get(figures.system, ()):
        return None
    if column == "recall" and figures.benchmark in _SESSION_RECALL:
        return figures.session.ten.fraction.value
    return COLUMNS[column][1](figures)


def cells(table: Table, found: Mapping[str, RunFigures]) -> list[list[str]]:
    """Rows of text: benchmark, row, then for each column ours and the paper's. `found` is by
    the lines' slugs; a run that was not made is a dash."""
    made = []
    for line in table.lines:
        figures = found.get(line.slug)
        row = [TITLES[line.benchmark], figures.titled(line.title) if figures else line.title]
        for column in columns(table, found):
            mine = ours(figures, column) if figures else None
            row += [shown(mine, column), shown(line.paper.get(column), column)]
        made.append(row)
    return made


RECALLS = [
    "",
    "",
    "Turn@10",
    "Session@10",
    "Cards",
    "Turns",
    "Turn, all read",
    "Session, all read",
    "Cards",
    "Turns",
    "Evidence tokens",
]


def recalls(found: Mapping[str, RunFigures], words: Mapping[str, Recalls] = {}) -> list[list[str]]:
    """What each recall counts: the ten first pieces and everything read, the pieces, the turns
    that they claim, and the tokens. `words`: our own runs under the rule for systems that keep
    no sources, by the same keys, shown wherever there is such a system."""
    made = []
    for key, figures in found.items():
        start = [TITLES[figures.benchmark], figures.titled(figures.label)]
        read = figures.tokens.evidence.short(0)
        made.append([*start, *_recall(figures), read])
        if key in words and figures.benchmark in placed_by_words(found):
            made.append([start[0], f"{start[1]}, placed by words", *_recall(words[key]), read])
    return made


def placed_by_words(found: Mapping[str, RunFigures]) -> set[str]:
    """Benchmarks with a system whose evidence names no turns."""
    return {f.benchmark for f in found.values() if f.costs.aligned.value}


def _recall(figures: Recalls) -> list[str]:
    costs = figures.costs
    return [
        str(figures.turn.ten.fraction),
        str(figures.session.ten.fraction),
        costs.cards_at_10.short(),
        costs.turns_at_10.short(),
        str(figures.turn.read.fraction),
        str(figures.session.read.fraction),
        costs.cards_read.short(),
        costs.turns_claimed.short(),
    ]


def columns(table: Table, found: Mapping[str, RunFigures]) -> list[str]:
    """The paper's; where nothing was judged, what can be told without a judge as well."""
    more = () if any(figures.judged for figures in found.values()) else ("recall", "evidence")
    return [column for column in COLUMNS if column in (*table.columns, *more)]


def headings(table: Table, found: Mapping[str, RunFigures]) -> list[str]:
    pairs = [(COLUMNS[column][0], "paper") for column in columns(table, found)]
    return ["", "", *(name for pair in pairs for name in pair)]


def shown(value: float | Spread | None, column: str = "") -> str:
    if value is None:
        return "–"
    if isinstance(value, Spread):
        return str(value)
    return f"{value:,.0f}" if column in ("sessions", "cards") else f"{value:,.2f}"


def tested(table: Table, folders: Mapping[str, Path]) -> list[list[str]]:
    """Each line against the line of JustMem's default, and the comparisons that the paper tests,
    where we have both runs (by slug)."""
    made = []
    wanted = {(pair.benchmark, pair.before, pair.after): pair for pair in table.pairs}
    for benchmark in dict.fromkeys(line.benchmark for line in table.lines):
        lines = [line for line in table.lines if line.benchmark == benchmark]
        default = [n for n, line in enumerate(lines) if line.is_default]
        pairs = [(n, default[-1]) for n in range(len(lines)) if default and n != default[-1]]
        own = [(before, after) for name, before, after in wanted if name == benchmark]
        for before, after in dict.fromkeys([*own, *pairs]):
            slugs = lines[before].slug, lines[after].slug
            if not set(slugs) <= set(folders):
                continue
            flips = compare(folders[slugs[0]], folders[slugs[1]]).majority
            pair = wanted.get((benchmark, before, after))
            known = pair is not None and pair.gained is not None
            made.append(
                [
                    TITLES[benchmark],
                    f"{lines[before].title} → {lines[after].title}",
                    f"{len(flips.gained)} / {len(flips.lost)}",
                    f"{pair.gained} / {pair.lost}" if pair and known else "–",
                    f"{flips.p:.3g}",
                    f"{pair.p:.3g}" if pair else "–",
                ]
            )
    return made


JUDGED = [
    "",
    "",
    "Strict",
    "accepts wrong",
    "refuses right",
    "Lenient",
    "accepts wrong",
    "refuses right",
    "Corrected key",
    "corrected",
]


def judged(found: Mapping[str, RunFigures]) -> list[list[str]]:
    """The same answers by both judges, with the judges' errors on planted answers, and by the
    corrected answer key."""
    made = []
    for each in found.values():
        row = [TITLES[each.benchmark], each.titled(each.label)]
        for name in ("strict", "lenient"):
            judge = each.judges.get(name, Judged())
            row += [shown(judge.accuracy), str(judge.accepts_wrong), str(judge.refuses_right)]
        made.append([*row, shown(each.corrected), str(each.corrections)])
    return made


TESTED = ["", "", "Flips", "paper", "p", "paper"]
