"""Fit the ranking weights by conditional logistic regression, with whole groups held out.

    python bench/fit.py --data folder

The model is a softmax over the candidates of a question. Each gold turn needs one of its cards, so
the likelihood of a gold turn is the sum over its cards. A group is a data set or a conversation of
LoCoMo. Its recall is measured with the weights that were fitted without it.
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

from justmem import Profile
from justmem.domain import Candidate
from justmem_eval import benchmarks
from justmem_eval.benchmarks import Case
from justmem_eval.models import cache_folder
from justmem_eval.settings import Settings
from justmem_eval.systems.justmem import JustMem

FITTED = ("dense", "lexical", "turn", "subject", "date")
_SETS = (  # benchmark, cards, plans, histories (empty: all), most questions
    ("locomo", "rules", "rules", (), 400),
    ("locomo", "recorded", "recorded", (), 400),
    ("longmemeval", "rules", "rules", (), 30),
    ("living", "rules", "rules", ("person", "messy"), 80),
)
_STEPS = 30
_RIDGE = 0.01  # pulls weights towards 0, so that a signal that always holds stays finite
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Example:
    """One question: its candidates with their signals, and for each gold turn (or session, where
    the turns are unknown) the candidates that rest on it."""

    dataset: str
    case: Case
    candidates: Sequence[Candidate]
    signals: Matrix  # candidates by FITTED
    gold: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Held:
    """A group that was held out: the weights fitted without it, and its recall@10 with them and
    with the weights in use."""

    name: str
    questions: int
    weights: Matrix
    recall: float
    in_use: float


async def examples(data: Path, cache: Path) -> list[Example]:
    found: list[Example] = []
    for name, cards, plans, histories, most in _SETS:
        bench = benchmarks.load(name, data)
        bench = bench.of(histories or bench.histories)
        bench = bench.only(lambda case: case.gold.has_evidence).limited(most)
        off = ["reranker=none"]
        given = Settings(benchmark=bench, data=data, cards=cards, plans=plans, switches=off)  # type: ignore[arg-type]
        with TemporaryDirectory(prefix="justmem-fit-") as folder:
            system = JustMem(given, None, Path(folder), cache)
            for history in map(bench.history, bench.histories):
                async with system.memory(history) as memory:
                    for case in bench.of([history.id]).cases:
                        evidence, _ = await system.recall(memory, case.question)
                        one = example(f"{name}, {cards} cards", case, evidence.candidates)
                        if (
                            one.gold and evidence.plan.operation != "reply"
                        ):  # scored by meaning alone
                            found.append(one)
    return found


def example(dataset: str, case: Case, candidates: Sequence[Candidate]) -> Example:
    wanted: frozenset[object] = case.gold.turns or case.gold.sessions
    gold: dict[object, list[int]] = {}
    for index, candidate in enumerate(candidates):
        card = candidate.card
        for place in (card.session_id, *((card.session_id, turn) for turn in card.turns)):
            if place in wanted:
                gold.setdefault(place, []).append(index)
    signals = [[c.scores.get(name, 0.0) for name in FITTED] for c in candidates]
    return Example(dataset, case, candidates, np.array(signals), tuple(gold.values()))


def fit(given: Sequence[Example]) -> Matrix:
    """Fisher scoring. Every data set weighs the same, and so does every question in it. The first
    three weights are scaled to a sum of 1."""
    sizes = Counter(one.dataset for one in given)
    weights = np.zeros(len(FITTED))
    for _ in range(_STEPS):
        slope, information = -_RIDGE * weights, _RIDGE * np.eye(len(FITTED))
        for one in given:
            share = 1 / sizes[one.dataset] / len(sizes)
            worth = one.signals @ weights
            chance = np.exp(worth - worth.max())
            chance /= chance.sum()
            centred = one.signals - chance @ one.signals
            information += share * (centred.T * chance) @ centred
            for cards in one.gold:
                found = chance[cards] @ centred[cards] / chance[cards].sum()
                slope += share * found / len(one.gold)
        weights = weights + 0.5 * np.linalg.solve(information, slope)  # half steps converge
    scaled: Matrix = weights / weights[:3].sum()
    return scaled


def recall(given: Sequence[Example], weights: Matrix) -> float:
    """Fraction of gold turns (or sessions) that the ten best cards hold, in percent. The memory
    itself also spreads its ten over sessions."""
    shares = []
    for one in given:
        cards = [candidate.card for candidate in one.candidates]
        best = np.argsort(-(one.signals @ weights), kind="stable")[:10]
        chosen = [cards[i] for i in best]
        gold = one.case.gold
        turns = {(card.session_id, turn) for card in chosen for turn in card.turns}
        sessions = {card.session_id for card in chosen}
        shares.append(
            len(turns & gold.turns) / len(gold.turns)
            if gold.turns
            else len(sessions & gold.sessions) / len(gold.sessions)
        )
    return 100 * float(np.mean(shares))


def held_out(given: Sequence[Example]) -> list[Held]:
    """Each data set fitted on the others, then each LoCoMo conversation on everything else."""
    in_use = np.array([getattr(Profile().weights, name) for name in FITTED])
    names = list(dict.fromkeys(e.dataset for e in given))
    groups = [(name, [e for e in given if e.dataset == name]) for name in names]
    talks = dict.fromkeys(e.case.history for e in given if e.dataset.startswith("locomo"))
    groups += [(talk, [e for e in given if e.case.history == talk]) for talk in talks]
    found = []
    for name, group in groups:
        inside = {id(one) for one in group}
        weights = fit([one for one in given if id(one) not in inside])
        found.append(Held(name, len(group), weights, recall(group, weights), recall(group, in_use)))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, required=True)
    given = asyncio.run(examples(options.parse_args().data, cache_folder()))
    print(f"{'held out':30} questions", *(f"{name:>8}" for name in FITTED), "recall  in use")
    for held in held_out(given):
        print(
            *line(held.name, held.questions, held.weights), f"{held.recall:6.1f}  {held.in_use:.1f}"
        )
    print(*line("fitted on everything", len(given), fit(given)))


def line(name: str, questions: int, weights: Matrix) -> list[str]:
    return [f"{name:30} {questions:9}", *(f"{weight:8.2f}" for weight in weights)]


if __name__ == "__main__":
    main()
