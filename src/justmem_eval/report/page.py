"""The page itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

from justmem.errors import InvalidSetting
from justmem_eval import tables
from justmem_eval.benchmarks import TITLES
from justmem_eval.compare import compare
from justmem_eval.report.svg import Point, bars, scatter
from justmem_eval.results import Recalls, RunFigures
from justmem_eval.tables import Line

Found = Mapping[str, RunFigures]  # by folder


def page(
    found: Found, pinned: Mapping[str, dict[str, Any]], words: Mapping[str, Recalls] = {}
) -> str:
    """`words`: our own runs under the alignment rule, by folder."""
    # A run over one category alone is in its table, and in no plot beside whole ones.
    whole = {folder: f for folder, f in found.items() if not pinned[folder]["category"]}
    style = files("justmem_eval.report").joinpath("style.css").read_text("utf-8")
    body = "\n".join(
        [
            "<h1>Memory, measured</h1>",
            _lead(found),
            _runs(found),
            _recalls(found, words),
            _tradeoff(whole),
            _recall(whole),
            _tokens(whole),
            _paper(found, pinned),
            _flips(found),
            _pins(pinned),
        ]
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Memory, measured</title><style>{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _lead(found: Found) -> str:
    judged = sum(f.judged for f in found.values())
    unjudged = sum(f.unjudged for f in found.values())
    missing = sum(f.missing for f in found.values())
    lost = (
        f" {unjudged} questions have no verdict in some run; they are in no average."
        if unjudged
        else ""
    )
    if missing:
        lost += f" <strong>INCOMPLETE: {missing} questions are missing.</strong>"
    return (
        f"<p>{len(found)} runs, {judged:,} questions with a verdict in every run.{lost} "
        "Accuracy is the mean over answer-and-judge runs with its sample standard deviation; "
        "memories and evidence are the same in all of them. Hollow points and grey figures are "
        "the paper's.</p>"
    )


def _runs(found: Found) -> str:
    heads = [
        "System",
        "Benchmark",
        "Accuracy",
        "Judge's false positives",
        "Construction",
        "Infer",
        "Errors",
    ]
    rows = [
        [
            tables.titled(f.label, f),
            TITLES[f.benchmark],
            tables.shown(f.accuracy),
            str(f.false_positives),
            f"{f.tokens.construction.value or 0:,.0f}",
            f"{f.tokens.infer.value or 0:,.0f}",
            ", ".join(f"{n} {stage}" for stage, n in f.errors.items()) or "none",
        ]
        for f in found.values()
    ]
    return _section("Runs", _table(heads, rows) + _note("Tokens per history and per question."))


def _recalls(found: Found, words: Mapping[str, Recalls]) -> str:
    note = _note(
        "Cards and turns are means: the pieces that are counted, and the turns that they claim as "
        "their source. Placed by words: the source is found by the alignment rule."
    )
    return _section("Recall", _table(tables.RECALLS, tables.recalls(found, words)) + note)


def _tradeoff(found: Found) -> str:
    parts = []
    for entry in tables.reference()["main"]:
        benchmark = entry["benchmark"]
        points = [
            Point(name=f.label, x=f.tokens.infer.value / 1000, y=f.accuracy.mean, ours=True)
            for f in found.values()
            if f.benchmark == benchmark and f.accuracy and f.tokens.infer.value
        ]
        if not points:
            continue
        points += [
            Point(name=f"{row['title']} (paper)", x=row["infer"], y=row["accuracy"])
            for row in entry["rows"]
        ]
        plot = scatter(points, "thousand tokens per question (log scale)", "accuracy, %")
        parts.append(f"<h3>{TITLES[benchmark]}</h3><figure>{plot}</figure>")
    return _section("Accuracy against tokens per question", "".join(parts))


def _recall(found: Found) -> str:
    parts = []
    for benchmark in dict.fromkeys(f.benchmark for f in found.values()):
        groups: dict[str, dict[str, float | None]] = {}
        for figures in found.values():
            if figures.benchmark == benchmark:
                for category, value in figures.recall_by_category.items():
                    if value is not None:
                        groups.setdefault(category, {})[figures.label] = value
        if groups:
            parts.append(f"<h3>{TITLES[benchmark]}</h3><figure>{bars(groups)}</figure>")
    return _section("Turn recall@10 by category", "".join(parts))


def _tokens(found: Found) -> str:
    groups = {
        f"{f.label}, {TITLES[f.benchmark]}": {
            "planning": f.tokens.planning.value,
            "answering": f.tokens.answering.value,
        }
        for f in found.values()
        if f.tokens.infer.value
    }
    return _section(
        "Tokens per question by stage",
        f"<figure>{bars(groups, 'tokens')}</figure>" if groups else "",
    )


def _paper(found: Found, pinned: Mapping[str, dict[str, Any]]) -> str:
    """Each of the paper's tables for which there is a run."""
    parts = []
    for name in tables.NAMES:
        table = tables.table(name)
        folders = {
            line.slug: folder
            for line in table.lines
            for folder in found
            if _is(line, pinned[folder])
        }
        if folders:
            mine = {slug: found[folder] for slug, folder in folders.items()}
            rows = _table(tables.headings(table, mine), tables.cells(table, mine), paper=True)
            judged = {slug: Path(f) for slug, f in folders.items() if found[f].judged}
            tests = tables.tested(table, judged)
            tested = _table(tables.TESTED, tests, paper=True) if tests else ""
            parts.append(f"<h3>{escape(table.title)}</h3>{rows}{tested}")
    return _section("The paper's tables", "".join(parts))


def _is(line: Line, run: Mapping[str, Any]) -> bool:
    """Whether a run is the one that a line of a table asks for."""
    same = (run["benchmark"], run["system"], run["category"]) == (
        line.benchmark,
        line.system,
        line.category,
    )
    wanted = {"access": "adaptive", "reading": "adaptive", "granularity": "global"}
    wanted |= dict(switch.split("=", 1) for switch in line.switches)
    return same and all(run["switches"].get(name) == value for name, value in wanted.items())


def _flips(found: Found) -> str:
    rows = []
    for a, b in combinations(found, 2):
        if found[a].benchmark != found[b].benchmark or not found[a].judged or not found[b].judged:
            continue
        try:
            flips = compare(Path(a), Path(b)).majority
        except InvalidSetting:
            continue
        rows.append(
            [
                f"{found[a].label} → {found[b].label}",
                TITLES[found[a].benchmark],
                str(len(flips.gained)),
                str(len(flips.lost)),
                f"{flips.p:.3g}",
            ]
        )
    heads = ["Comparison", "Benchmark", "Wrong to right", "Right to wrong", "p, exact McNemar"]
    note = _note("Each question once, by what most of its runs say.")
    return _section("Flips", _table(heads, rows) + note if rows else "")


def _pins(pinned: Mapping[str, dict[str, Any]]) -> str:
    parts = [
        f"<details><summary>{escape(folder)}</summary><pre>"
        f"{escape(json.dumps(run, indent=1))}</pre></details>"
        for folder, run in pinned.items()
    ]
    return _section("What is pinned", "".join(parts))


# ---------------------------------------------------------------- pieces


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _table(heads: list[str], rows: list[list[str]], *, paper: bool = False) -> str:
    """`paper`: every second column from the fourth on is the paper's, and set apart."""

    def kind(place: int) -> str:
        if place < 2:
            return ' class="name"'
        return ' class="paper"' if paper and place % 2 else ""

    top = "".join(f"<th{kind(n)}>{escape(name)}</th>" for n, name in enumerate(heads))
    lines = "".join(
        "<tr>" + "".join(f"<td{kind(n)}>{escape(c)}</td>" for n, c in enumerate(row)) + "</tr>"
        for row in rows
    )
    head = f"<thead><tr>{top}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{lines}</tbody></table></div>'
