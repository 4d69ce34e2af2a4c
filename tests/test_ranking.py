"""How signals become one ranking."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from justmem import ranking
from justmem.domain import EventDate, Plan
from justmem.ranking import Scores
from stories import card_told


def unit(*rows: list[float]) -> Scores:
    given = np.array(rows, np.float32)
    lengths: Scores = np.linalg.norm(given, axis=1, keepdims=True)
    return (given / lengths).astype(np.float32)


def test_what_is_like_all_the_others_stands_apart_least() -> None:
    talk = [[1.0, 0.1, 0.0], [1.0, 0.0, 0.1], [1.0, 0.1, 0.1]]
    scores = ranking.apart(unit(*talk, [0.2, 1.0, 0.0]))
    assert int(np.argmax(scores)) == 3
    assert all(scores[3] > 0 > each for each in scores[:3])


@pytest.mark.parametrize("vectors", [unit([1.0, 0.0]), unit([0.0, 1.0], [0.0, 1.0])])
def test_among_equals_none_stands_apart(vectors: Scores) -> None:
    assert ranking.apart(vectors).tolist() == [0.0] * len(vectors)


def test_chances_and_logits_of_a_reranker_come_to_the_same() -> None:
    said = np.array([[-3.0, 0.5, 6.0]], np.float32)
    chances = (1 / (1 + np.exp(-said))).astype(np.float32)
    np.testing.assert_allclose(ranking.logits(chances), said, atol=1e-3)
    assert ranking.logits(said) is said


@pytest.mark.parametrize("read", [[[0.0, 1.0]], [[1.0, 1.0]], [[0.0]], [[]]])
def test_a_reranker_that_is_quite_sure_stays_finite(read: list[list[float]]) -> None:
    assert np.isfinite(ranking.logits(np.array(read, np.float32))).all()


def test_small_chances_keep_their_order() -> None:
    read = np.array([[1e-7, 1e-6, 0.5, 0.999999]], np.float32)
    assert (np.diff(ranking.logits(read)) > 0).all()


def test_scores_of_any_size_are_softened() -> None:
    chances = ranking.softened(np.array([[-1e6, 0.0, 1e6]], np.float32))
    assert chances.tolist() == [[pytest.approx(0.0, abs=1e-6), 0.5, pytest.approx(1.0)]]


def test_what_is_said_of_a_hopeless_head_moves_little() -> None:
    hopeless, telling = np.array([[-11.0, -7.0]], np.float32), np.array([[-2.0, 2.0]], np.float32)
    moved = [float(np.ptp(ranking.softened(read))) for read in (hopeless, telling)]
    assert moved[0] < 0.05 < moved[1]


def test_an_event_without_a_date_counts_by_when_it_was_told() -> None:
    plan = Plan(period=EventDate.parse("2023-05"))
    told = card_told("a")
    cards = [
        told.model_copy(update={"event_date": EventDate.parse("2023-05-02")}),
        told,
        told.model_copy(update={"event_date": EventDate.parse("2022")}),
        told.model_copy(update={"kind": "preference"}),
        told.model_copy(update={"said_at": datetime(2023, 6, 8)}),
    ]
    assert ranking.in_period(cards, plan).tolist() == [1, pytest.approx(0.9), 0, 0, 0]
    week = Plan(period=EventDate.parse("2023-05-02/2023-05-08"))
    assert ranking.in_period(cards, week).tolist() == [1, pytest.approx(0.6), 0, 0, 0]
    assert not ranking.in_period(cards, Plan()).any()


def test_what_was_told_on_a_day_counts_where_the_question_gives_its_date() -> None:
    cards = [
        card_told("a"),
        card_told("b").model_copy(update={"said_at": datetime(2023, 6, 16, 9)}),
    ]
    plan = Plan(period=EventDate.parse("2023-06-16"))
    for question in ("on 16 June, 2023?", "June 16th", "2023-06-16", "on 6/16?", "16 jun."):
        assert ranking.told_on(cards, plan, question).tolist() == [0, 1]
    for question in ("last Friday?", "on 16 May", "in June", "16 days ago"):
        assert not ranking.told_on(cards, plan, question).any()
    twice = Plan(period=EventDate.parse("2023-06-06"))
    assert not ranking.told_on(cards, twice, "what did the 6 friends do last Friday?").any()
    month = Plan(period=EventDate.parse("2023-06"))
    assert not ranking.told_on(cards, month, "in June 2023, on the 16th floor").any()


def test_what_happened_is_known_by_its_date() -> None:
    dated = card_told("a").model_copy(update={"event_date": EventDate.parse("2023")})
    assert ranking.dated([card_told("a"), dated]).tolist() == [0, 1]


def test_a_card_is_lifted_by_a_better_one_told_a_turn_before_or_after() -> None:
    cards = [card_told("a", 4), card_told("a", 5), card_told("a", 7), card_told("b", 5)]
    scores = np.array([3.0, 1.0, 2.0, 0.0], np.float32)
    assert ranking.lifted(scores, cards).tolist() == [0, 2, 0, 0]


def test_a_card_is_as_good_as_all_that_its_turns_tell() -> None:
    cards = [card_told("a", 4), card_told("a", 4), card_told("a", 5), card_told("b", 4)]
    scores = np.array([3.0, 1.0, 0.5, 7.0], np.float32)
    assert ranking.of_turns(scores, cards).tolist() == [2, 2, 0.5, 7]


def test_an_answer_counts_with_its_question_and_what_rests_on_no_turn_by_itself() -> None:
    both, question = card_told("a", 4), card_told("a", 4)
    both = both.model_copy(update={"turns": (4, 5)})
    loose = card_told("a", 6).model_copy(update={"turns": ()})
    scores = np.array([3.0, 1.0, 9.0], np.float32)
    assert ranking.of_turns(scores, [both, question, loose]).tolist() == [2, 2, 9]
