"""Figures of runs as tables of text: the same for one run, for the paper's tables and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from justmem_eval.benchmarks import TITLES
from justmem_eval.metrics import Figures
from justmem_eval.results import Measured


@dataclass(frozen=True, slots=True)
class Grid:
    title: str
    headings: Sequence[str]  # the first two columns are words
    rows: Sequence[Sequence[str]]


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
_JUDGES = ("strict", "lenient")


def recalls(found: Mapping[str, Measured], words: Mapping[str, Figures] = {}) -> Grid:
    """What each recall counts: the first ten pieces and everything read, the pieces, the turns
    that they claim, and the tokens. `words`: runs under the rule for systems that keep no sources,
    by the same keys, shown wherever there is such a system."""
    unsourced = {each.benchmark for each in found.values() if each.placed_by_words}
    rows = []
    for key, each in found.items():
        start = (TITLES.get(each.benchmark, each.benchmark), each.titled())
        tokens = each["tokens.evidence"].short(0)
        rows.append([*start, *_recall(each.figures), tokens])
        if key in words and each.benchmark in unsourced and not each.placed_by_words:
            rows.append([start[0], f"{start[1]}, placed by words", *_recall(words[key]), tokens])
    headings = ["", "", *(heading for heading, _, _ in _RECALLS), "Evidence tokens"]
    return Grid("What recall counts", headings, rows)


def _recall(figures: Figures) -> list[str]:
    named = ((figures[name], full) for _, name, full in _RECALLS)
    return [str(figure) if full else figure.short() for figure, full in named]


def judged(found: Mapping[str, Measured]) -> Grid:
    """The same answers by both judges, with the judges' errors on planted answers, and by the
    corrected answer key."""
    headings = ["", ""]
    for name in _JUDGES:
        headings += [name.capitalize(), "accepts wrong", "refuses right"]
    headings += ["Corrected key", "corrected"]
    rows = []
    for each in found.values():
        row = [TITLES.get(each.benchmark, each.benchmark), each.titled()]
        for name in _JUDGES:
            row.append(each[f"judge.{name}.accuracy"].spread())
            row += [
                str(each[f"judge.{name}.{error}"]) for error in ("accepts_wrong", "refuses_right")
            ]
        row += [each["accuracy.corrected"].spread(), each["corrections"].short(0)]
        rows.append(row)
    return Grid("Judges and answer keys", headings, rows)


def all_figures(found: Measured) -> Grid:
    """Every figure that has a value, by its name, with the number of values behind it."""
    rows = [[name, str(each)] for name, each in found.figures.items() if each.value is not None]
    rows += [[f"errors: {stage}", str(count)] for stage, count in found.errors.items()]
    run = found.run
    title = f"{found.titled()} on {run['benchmark']}: {found.questions} questions, "
    title += f"model {run['model']}, {run['cards']} cards, {run['plans']} plans"
    return Grid(title, ["", ""], rows)
