"""Fit the weights of answers by rules by logistic regression, with whole groups held out.

    python bench/fit_answers.py --data folder

Three fits: whether a statement rests on a gold turn (`WORTH` in language/en/scores.py), whether
the best statement does (`_RIGHT`), and whether a question names the wrong person
(`_OTHER_PERSON`). A group is a LoCoMo conversation, a history of `living`, or LongMemEval. Its
figures are measured with the weights that were fitted without it.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Evidence
from justmem.language.en import quoting, scores
from justmem_eval import benchmarks
from justmem_eval.benchmarks import Gold
from justmem_eval.models import cache_folder
from justmem_eval.settings import Settings
from justmem_eval.systems.justmem import JustMem

# Benchmark, histories (empty: all), most questions, weight. `friends` is for the final measurement.
_SETS = (
    ("locomo", (), None, 0.6),
    ("living", ("person", "messy"), None, 0.3),
    ("longmemeval", (), 50, 0.1),
)
_WEIGHT = {name: weight for name, *_, weight in _SETS}
_STEPS = 25
_RIDGE = 1.0
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Example:
    """One question. The statements about the people it names, best first by the weights in use,
    with logit, score and share; whether each rests on a gold turn; and the turn of each."""

    dataset: str
    group: str
    answerable: bool
    statements: Matrix
    gold: Matrix
    turns: Sequence[tuple[str, int]]
    other: Sequence[float] | None  # signals of a question that may name the wrong person


async def examples(data: Path, cache: Path) -> list[Example]:
    found: list[Example] = []
    for name, histories, most, _ in _SETS:
        bench = benchmarks.load(name, data)
        bench = bench.of(histories or bench.histories).limited(most)
        given = Settings(benchmark=bench, data=data, cards="rules", plans="rules")
        with TemporaryDirectory(prefix="justmem-fit-") as folder:
            system = JustMem(given, None, Path(folder), cache)
            for history in map(bench.history, bench.histories):
                async with system.memory(history) as memory:
                    for case in bench.of([history.id]).cases:
                        evidence, _ = await system.recall(memory, case.question)
                        if evidence.chosen and evidence.plan.operation != "reply":
                            group = name if name == "longmemeval" else history.id
                            found += _example(name, group, case.gold, evidence)
    return found


def _example(dataset: str, group: str, gold: Gold, evidence: Evidence) -> list[Example]:
    asked = quoting.parse_question(evidence)
    found = quoting.rank_statements(evidence, asked, {})
    own, others = quoting.split_by_person(found, asked)
    if not own:
        return []
    places = gold.turns or gold.sessions
    held = [(one.turn if gold.turns else one.turn[0]) in places for one in own]
    return [
        Example(
            dataset,
            group,
            gold.has_evidence,
            np.array([one.signals for one in own]),
            np.array(held, float) * gold.has_evidence,
            [one.turn for one in own],
            scores.compare(own, others) if others else None,
        )
    ]


def logistic(signals: Matrix, held: Matrix, weights: Matrix) -> Matrix:
    """The constant and the weight of each signal."""
    rows = np.column_stack([np.ones(len(signals)), signals])
    ridge = _RIDGE * np.diag([0.0, *np.ones(rows.shape[1] - 1)])
    found = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-rows @ found))
        information = (rows.T * (weights * chance * (1 - chance))) @ rows + ridge
        slope = rows.T @ (weights * (held - chance)) - ridge @ found
        found = found + np.linalg.solve(information, slope)
    return found


@dataclass(frozen=True, slots=True)
class Fit:
    worth: Matrix
    right: Matrix
    other: Matrix


def fit(given: Sequence[Example]) -> Fit:
    counts = Counter(one.dataset for one in given)
    share = {name: _WEIGHT[name] * len(given) / counts[name] for name in counts}
    known = [one for one in given if one.answerable]
    worth = logistic(
        np.concatenate([one.statements for one in known]),
        np.concatenate([one.gold for one in known]),
        np.concatenate([[share[one.dataset] * 8 / len(one.gold)] * len(one.gold) for one in known]),
    )
    best = [_best(one, worth[1:]) for one in given]
    right = logistic(
        np.array([signals for _, signals in best]),
        np.array([one.gold[place] for one, (place, _) in zip(given, best, strict=True)]),
        np.array([share[one.dataset] for one in given]),
    )
    named = [one for one in given if one.other is not None and one.dataset == "locomo"]
    other = logistic(
        np.array([one.other for one in named]),
        np.array([float(not one.answerable) for one in named]),
        np.ones(len(named)),
    )
    return Fit(worth[1:], right, other)


def _best(one: Example, weights: Matrix) -> tuple[int, tuple[float, float]]:
    """The place of the best statement, its logit, and its lead over that of another turn."""
    worth = one.statements @ weights
    place = int(np.argmax(worth))
    rest = [w for w, turn in zip(worth, one.turns, strict=True) if turn != one.turns[place]]
    lead = scores.lead(float(worth[place]), rest)
    return place, (one.statements[place][0], lead)


def held_out(given: Sequence[Example]) -> None:
    """In percent: the best statement is right; answers that are hedged; right ones among these and
    among the others; refused because of the person, if unanswerable and if answerable."""
    columns = "questions right hedged hedged:right plain:right refused:absent refused:known"
    print(f"{'held out':24}", columns)
    for group in dict.fromkeys(one.group for one in given):
        fitted = fit([one for one in given if one.group != group])
        inside = [one for one in given if one.group == group]
        best = [_best(one, fitted.worth) for one in inside]
        right = np.array([one.gold[place] for one, (place, _) in zip(inside, best, strict=True)])
        known = np.array([one.answerable for one in inside])
        chance = _chance(fitted.right, [signals for _, signals in best])
        hedged = chance < scores.LIKELY
        person = _chance(fitted.other, [one.other or (11.0, -11.0, -1.0) for one in inside])
        refused = person >= scores.REFUSED
        shown = right[known], hedged, right[hedged], right[~hedged], refused[~known], refused[known]
        print(f"{group:24} {len(inside):9}", *(f"{100 * one.mean():6.1f}" for one in shown))


def _chance(weights: Matrix, signals: Sequence[Sequence[float]]) -> Matrix:
    found: Matrix = 1 / (1 + np.exp(-weights[0] - np.array(signals) @ weights[1:]))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, required=True)
    given = asyncio.run(examples(options.parse_args().data, cache_folder()))
    held_out(given)
    fitted = fit(given)
    for name in ("worth", "right", "other"):
        print(f"{name:24}", *(f"{weight:7.2f}" for weight in getattr(fitted, name)))


if __name__ == "__main__":
    main()
