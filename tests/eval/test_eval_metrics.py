"""Recall, routing and source figures, by hand."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.domain import Plan
from justmem_eval import answers, metrics
from justmem_eval.benchmarks import Case, Gold, Question, TurnKey
from justmem_eval.rows import Place, Row, Slot


def pair(
    gold: set[TurnKey],
    chosen: list[Place],
    *,
    read: tuple[Place, ...] = (),
    category: str = "x",
    abstain: bool = False,
    plan: Plan | None = None,
    sources: tuple[Place, ...] = (),
) -> tuple[Case, Row]:
    id = f"q{hash((frozenset(gold), category, abstain))}"
    question = Question(id=id, text="?", at=datetime(2024, 1, 1))
    told = Gold(
        answer="a",
        category=category,
        turns=frozenset(gold),
        sessions=frozenset(session for session, _ in gold),
        abstain=abstain,
    )
    row = Row(
        id=id,
        history="h",
        slots=tuple(Slot(place=place) for place in chosen),
        read=read,
        sources=sources,
        plan=plan,
        access=plan.access.value if plan else "",
    )
    return Case(question, told, "h"), row


def test_any_all_and_fraction_with_their_denominator() -> None:
    half = pair({("a", 1), ("b", 2)}, [("a", (1,))])
    none = pair({("c", 1)}, [("a", (1,))])
    found = metrics.turn_recall([half, none])
    assert (found.any.value, found.all.value, found.fraction.value) == (50.0, 0.0, 25.0)
    assert found.fraction.n == 2


def test_everything_read_counts_unless_only_the_ten_do() -> None:
    one = pair({("b", 2)}, [("a", (1,))], read=(("a", (1,)), ("b", (2,))))
    assert metrics.turn_recall([one], "read").fraction.value == 100.0
    assert metrics.turn_recall([one], "ten").fraction.value == 0.0


def test_sources_count_only_where_asked_for() -> None:
    one = pair({("b", 2)}, [("a", (1,))], sources=(("b", (1, 2)),))
    assert metrics.turn_recall([one], "read").fraction.value == 0.0
    assert metrics.turn_recall([one], "source").fraction.value == 100.0


def test_the_eleventh_slot_does_not_count() -> None:
    chosen: list[Place] = [("a", (n,)) for n in range(1, 12)]
    one = pair({("a", 11)}, chosen)
    assert metrics.turn_recall([one]).fraction.value == 0.0
    assert metrics.session_recall([one]).fraction.value == 100.0


def test_questions_without_evidence_and_abstentions_are_in_no_denominator() -> None:
    found = metrics.turn_recall([pair(set(), []), pair({("a", 1)}, [], abstain=True)])
    assert found.fraction.n == 0
    assert found.fraction.value is None


def test_routing_is_measured_against_assistant_output() -> None:
    source, local = Plan(needs_source=True), Plan()
    asked = "single-session-assistant"
    found = metrics.routing(
        [
            pair({("a", 1)}, [], category=asked, plan=source),
            pair({("b", 1)}, [], category=asked, plan=local),
            pair({("c", 1)}, [], category="other", plan=source),
        ]
    )
    assert found.precision.value == 50.0
    assert found.recall.value == 50.0
    assert found.access == {"LOOKUP": 1, "REPLAY": 2}


def test_source_hit_looks_at_the_first_source() -> None:
    asked = "single-session-assistant"
    first = pair({("a", 2)}, [], category=asked, sources=(("a", (1, 2)), ("b", (1,))))
    second = pair({("c", 1)}, [], category=asked, sources=(("b", (1,)), ("c", (1,))))
    missed = pair({("d", 1)}, [], category=asked)
    found = metrics.source_hits([first, second, missed])
    assert found.session_at_1.value == pytest.approx(100 / 3)
    assert found.turn_at_1.value == pytest.approx(100 / 3)
    assert found.turn_any.value == pytest.approx(200 / 3)
    assert found.session_at_1.n == 3


def test_an_answer_rests_on_a_gold_turn_or_on_none() -> None:
    rests, misled, refused = (pair({("a", 1)}, []) for _ in range(3))
    nowhere, unanswerable = pair(set(), []), pair(set(), [], abstain=True)
    answered = [
        (rests, {"cited": (("b", 3), ("a", 1))}),
        (misled, {"cited": (("a", 2),)}),
        (refused, {"sufficient": False}),
        (nowhere, {"cited": (("a", 1),)}),  # without gold turns, in no denominator
        (unanswerable, {"cited": (("a", 1),)}),
    ]
    found = answers.scores([(case, row.model_copy(update=more)) for (case, row), more in answered])
    assert (found.rests.value, found.misled.value) == pytest.approx((100 / 3, 100 / 3))
    assert found.rests.n == found.misled.n == 3


def test_all_at_5_is_strict_and_ranks_sessions_not_cards() -> None:
    chosen: list[Place] = [("a", (1,)), ("a", (2,)), ("b", (1,)), ("c", (1,)), ("d", (1,))]
    more: list[Place] = [("e", (1,)), ("f", (1,))]
    whole = pair({("a", 1), ("e", 1)}, [*chosen, *more])  # "e" is the fifth session
    partly = pair({("a", 1), ("f", 1)}, [*chosen, *more])  # "f" the sixth
    found = metrics.sessions_at([whole, partly], 5)
    assert (found.any.value, found.all.value, found.fraction.value) == (100.0, 50.0, 75.0)


def test_a_question_with_six_gold_sessions_can_never_be_complete_at_5() -> None:
    names = "abcdef"
    six = pair({(name, 1) for name in names}, [(name, (1,)) for name in names])
    one = pair({("a", 1)}, [("a", (1,))])
    assert metrics.sessions_at([six, one], 5).all.value == 50.0
    assert metrics.most_all_at([six, one], 5).value == 50.0


def test_words_per_answer_leaves_refusals_out() -> None:
    case, row = pair({("a", 1)}, [])
    told = [
        (case, row.model_copy(update={"answer": "a blue couch"})),
        (case, row.model_copy(update={"answer": "That is not in memory.", "sufficient": False})),
    ]
    assert answers.scores(told).words.value == 3.0
