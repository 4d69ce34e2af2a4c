"""Fitting the ranking weights."""

from __future__ import annotations

import importlib
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from justmem.domain import Candidate, Card
from justmem_eval.benchmarks import Case, Gold, Question

sys.path.append(str(Path(__file__).parents[2] / "bench"))
fit = importlib.import_module("fit")


def card(session: str, turn: int) -> Card:
    return Card(
        id=f"{session}{turn}",
        subject="Nora",
        fact="sang",
        session_id=session,
        said_at=datetime(2024, 5, 1),
        turns=(turn,),
    )


def example(dataset: str, history: str, number: int) -> Any:
    """Thirty candidates. Words and turns are noise; the gold card is among the most similar."""
    noise = np.random.default_rng(number)
    candidates = []
    for turn in range(1, 31):
        drawn = noise.normal(size=3)
        scores = dict(zip(("dense", "lexical", "turn"), drawn, strict=True))
        scores |= {"subject": float(turn % 2), "date": 0.0}
        scores["dense"] += 3.0 * (turn == 7)
        candidates.append(Candidate(card=card(f"s{number}-{turn}", turn), scores=scores))
    gold = (f"s{number}-7", 7)
    case = Case(
        Question(id=str(number), text="?", at=datetime(2024, 6, 1)),
        Gold(answer="a", category="x", turns=frozenset({gold})),
        history,
    )
    return fit.example(dataset, case, candidates)


def given() -> list[Any]:
    return [
        example("locomo, rules cards" if n % 2 else "living, rules cards", f"talk-{n % 4}", n)
        for n in range(80)
    ]


def test_the_signal_that_tells_gets_the_weight() -> None:
    dense, lexical, turn, _, date = fit.fit(given())
    assert dense + lexical + turn == pytest.approx(1.0)
    assert dense > 5 * max(abs(lexical), abs(turn))
    assert date == 0.0


def test_whole_data_sets_and_conversations_are_held_out() -> None:
    found = {held.name: held for held in fit.held_out(given())}
    assert set(found) == {"locomo, rules cards", "living, rules cards", "talk-1", "talk-3"}
    assert found["talk-1"].questions == 20
    assert found["living, rules cards"].questions == 40
    assert found["living, rules cards"].recall > 90.0
    others = fit.fit([one for one in given() if one.dataset != "living, rules cards"])
    np.testing.assert_allclose(found["living, rules cards"].weights, others)
