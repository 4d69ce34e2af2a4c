"""Recall, routing and source figures, by hand."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from justmem.domain import Plan
from justmem_eval import metrics
from justmem_eval.benchmarks import Case, Gold, Question, TurnKey, load
from justmem_eval.judging import parse
from justmem_eval.records import Piece, Place, Predicted, Retrieved


def pair(
    gold: set[TurnKey],
    chosen: list[Place],
    *,
    read: list[Place] | None = None,
    category: str = "x",
    abstain: bool = False,
    plan: Plan | None = None,
    sources: tuple[Place, ...] = (),
) -> tuple[Case, Retrieved]:
    id = f"q{hash((frozenset(gold), category, abstain))}"
    question = Question(id=id, text="?", at=datetime(2024, 1, 1))
    told = Gold(
        answer="a",
        category=category,
        turns=frozenset(gold),
        abstain=abstain,
    )
    row = Retrieved(
        id=id,
        chosen=tuple(Piece(place=place) for place in chosen),
        read=tuple(Piece(place=place) for place in read or ()),
        sources=sources,
        plan=plan,
        access=plan.access.value if plan else "",
    )
    return Case(question, told, "h"), row


def values(found: metrics.Figures) -> tuple[float | None, ...]:
    return tuple(found[name].value for name in ("any", "all", "fraction"))


def test_any_all_and_fraction_with_their_denominator() -> None:
    half = pair({("a", 1), ("b", 2)}, [("a", (1,))])
    none = pair({("c", 1)}, [("a", (1,))])
    found = metrics.turn_recall([half, none])
    assert values(found) == (50.0, 0.0, 25.0)
    assert found["fraction"].n == 2


def test_everything_read_counts_unless_only_the_ten_do() -> None:
    one = pair({("b", 2)}, [("a", (1,))], read=[("a", (1,)), ("b", (2,))])
    assert metrics.turn_recall([one], "read")["fraction"].value == 100.0
    assert metrics.turn_recall([one], "ten")["fraction"].value == 0.0


def test_sources_count_only_where_asked_for() -> None:
    one = pair({("b", 2)}, [("a", (1,))], sources=(("b", (1, 2)),))
    assert metrics.turn_recall([one], "read")["fraction"].value == 0.0
    assert metrics.turn_recall([one], "source")["fraction"].value == 100.0


def test_the_eleventh_slot_does_not_count() -> None:
    chosen: list[Place] = [("a", (n,)) for n in range(1, 12)]
    one = pair({("a", 11)}, chosen)
    assert metrics.turn_recall([one])["fraction"].value == 0.0
    assert metrics.session_recall([one])["fraction"].value == 100.0


def test_questions_without_evidence_and_abstentions_are_in_no_denominator() -> None:
    found = metrics.turn_recall([pair(set(), []), pair({("a", 1)}, [], abstain=True)])
    assert found["fraction"].n == 0
    assert found["fraction"].value is None


def test_source_hit_looks_at_the_first_source() -> None:
    asked = "single-session-assistant"
    first = pair({("a", 2)}, [], category=asked, sources=(("a", (1, 2)), ("b", (1,))))
    second = pair({("c", 1)}, [], category=asked, sources=(("b", (1,)), ("c", (1,))))
    missed = pair({("d", 1)}, [], category=asked)
    found = metrics.source_hits([first, second, missed])
    assert [hit for _, hit in found] == [True, False, False]
    assert metrics.recalls([first, second, missed])["source_hit"].n == 3


def test_an_answer_rests_on_a_gold_turn_or_on_none() -> None:
    cases = [pair({("a", 1)}, []) for _ in range(3)]
    cases += [pair(set(), []), pair(set(), [], abstain=True)]
    found = [(c, r.model_copy(update={"id": str(n)})) for n, (c, r) in enumerate(cases)]
    answers = {
        "0": Predicted(id="0", cited=(("b", 3), ("a", 1))),
        "1": Predicted(id="1", cited=(("a", 2),)),
        "2": Predicted(id="2", sufficient=False),
        "3": Predicted(id="3", cited=(("a", 1),)),  # without gold turns, in no denominator
        "4": Predicted(id="4", cited=(("a", 1),)),
    }
    scores = metrics.scores(found, answers)
    assert (scores["answers.rests"].value, scores["answers.misled"].value) == pytest.approx(
        (100 / 3, 100 / 3)
    )
    assert scores["answers.rests"].n == scores["answers.misled"].n == 3


def test_all_at_5_is_strict_and_ranks_sessions_not_cards() -> None:
    chosen: list[Place] = [("a", (1,)), ("a", (2,)), ("b", (1,)), ("c", (1,)), ("d", (1,))]
    more: list[Place] = [("e", (1,)), ("f", (1,))]
    whole = pair({("a", 1), ("e", 1)}, [*chosen, *more])  # "e" is the fifth session
    partly = pair({("a", 1), ("f", 1)}, [*chosen, *more])  # "f" the sixth
    found = metrics.sessions_at([whole, partly], 5)
    assert values(found) == (100.0, 50.0, 75.0)


def test_a_question_with_six_gold_sessions_can_never_be_complete_at_5() -> None:
    names = "abcdef"
    six = pair({(name, 1) for name in names}, [(name, (1,)) for name in names])
    one = pair({("a", 1)}, [("a", (1,))])
    assert metrics.sessions_at([six, one], 5)["all"].value == 50.0
    assert metrics.recalls([six, one])["most_all_at_5"].value == 50.0


def test_words_per_answer_leaves_refusals_out() -> None:
    told, refused = pair({("a", 1)}, []), pair({("b", 1)}, [])
    answers = {
        told[1].id: Predicted(id=told[1].id, answer="a blue couch"),
        refused[1].id: Predicted(id=refused[1].id, answer="That is not there.", sufficient=False),
    }
    assert metrics.scores([told, refused], answers)["answers.words"].value == 3.0


def test_the_papers_flips_give_the_papers_p_value() -> None:
    assert f"{metrics.mcnemar(134, 49):.2e}" == "2.54e-10"
    assert f"{metrics.mcnemar(49, 134):.2e}" == "2.54e-10"
    assert metrics.mcnemar(0, 0) == metrics.mcnemar(7, 7) == 1.0


def test_mean_and_sample_deviation() -> None:
    runs = [[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    assert str(metrics.over_runs(runs)) == "75.00 ± 25.00 (4)"
    assert str(metrics.over_runs(runs[:1])) == "50.00 (4)"
    assert str(metrics.over_runs([])) == "-"


def test_flips_count_only_questions_that_both_have_a_verdict_for() -> None:
    found = metrics.flips({"a": True, "b": False, "c": True}, {"a": False, "b": True, "d": True})
    assert (found.gained, found.lost, found.both) == (("b",), ("a",), 0)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ('{"verdict": "correct"}', True),
        ('{"verdict": "wrong"}', False),
        ('{"verdict": "CORRECT"}', True),
        ("Correct.", True),
        ("incorrect", False),
        ("The answer is correct.", None),
        ('{"label": "correct"}', None),
        ('{"verdict": "correct", "label": "wrong"}', None),
        ('{"verdict": "mostly"}', None),
        ("[1, 2", None),
    ],
)
def test_a_verdict_is_read_strictly(said: str, verdict: bool | None) -> None:
    assert parse(said) is verdict


def test_harm_asks_each_history_what_needs_no_memory(data: Path) -> None:
    asked = load("harm", data)
    assert len(asked.cases) >= 3 * 40
    assert not any(case.gold.has_evidence or case.gold.judged for case in asked.cases)


def test_the_share_of_questions_for_which_nothing_is_read() -> None:
    found = metrics.recalls([pair(set(), []), pair({("a", 1)}, [("a", (1,))])])
    assert found["costs.nothing_read"].value == 50.0
