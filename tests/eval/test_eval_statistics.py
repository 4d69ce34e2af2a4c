"""The paper's p-values from its flip counts, and the small sums around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justmem_eval import answers
from justmem_eval.judging import parse
from justmem_eval.statistics import flips, mcnemar, spread


def test_the_papers_flips_give_the_papers_p_value() -> None:
    assert f"{mcnemar(134, 49):.2e}" == "2.54e-10"


def test_no_flips_and_even_flips_prove_nothing() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(7, 7) == 1.0


@given(st.integers(0, 200), st.integers(0, 200))
def test_the_test_does_not_care_for_the_direction(gained: int, lost: int) -> None:
    assert mcnemar(gained, lost) == mcnemar(lost, gained)
    assert 0.0 < mcnemar(gained, lost) <= 1.0


def test_mean_and_sample_deviation() -> None:
    found = spread([79.5, 79.6, 79.7])
    assert found is not None
    assert found.mean == pytest.approx(79.6)
    assert found.deviation == pytest.approx(0.1)
    one = spread([50.0])
    assert one is not None
    assert one.deviation is None
    assert spread([]) is None


def test_flips_count_only_questions_that_both_have_a_verdict_for() -> None:
    found = flips({"a": True, "b": False, "c": True}, {"a": False, "b": True, "d": True})
    assert found.gained == ("b",)
    assert found.lost == ("a",)
    assert found.both == found.neither == 0


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ('{"verdict": "correct"}', True),
        ('{"verdict": "wrong"}', False),
        ('{"label": "CORRECT"}', True),
        ("Correct.", True),
        ("incorrect", False),
        ("no", False),
        ("The answer is correct.", None),
        ('{"verdict": "correct", "label": "wrong"}', None),
        ('{"verdict": "mostly"}', None),
        ("", None),
        ("[1, 2", None),
    ],
)
def test_a_verdict_is_read_strictly(said: str, verdict: bool | None) -> None:
    assert parse(said) is verdict


def test_answers_are_compared_without_case_articles_and_punctuation() -> None:
    assert answers.f1("The green bowl!", "a green bowl") == 1.0
    assert answers.f1("a red bowl", "a green bowl") == 0.5
    assert answers.f1("nothing", "a green bowl") == 0.0
    assert answers.contained("green bowl", "He made a GREEN, leaking bowl")
    assert not answers.contained("green bowl", "He made a bowl")
