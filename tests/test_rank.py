"""How signals become scores, and scores become places."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from justmem import rank
from justmem.domain import Card, EventDate, Weights
from justmem.rank import Scores
from stories import card_told


def unit(*rows: list[float]) -> Scores:
    given = np.array(rows, np.float32)
    lengths: Scores = np.linalg.norm(given, axis=1, keepdims=True)
    return (given / lengths).astype(np.float32)


def test_what_all_candidates_have_in_common_does_not_count() -> None:
    """The first candidate is nearest only in the direction that all of them share."""
    vectors = unit([1.0, 0.0, 0.0], [1.0, 0.0, 0.9], [1.0, 0.9, 0.0], [1.0, 0.9, 0.1])
    query = unit([1.0, 0.0, 0.35])
    assert int((query @ vectors.T).argmax()) == 0
    assert int(rank.similarity(query, vectors).argmax()) == 1


@pytest.mark.parametrize("vectors", [unit([1.0, 0.0]), unit([0.0, 1.0], [0.0, 1.0])])
def test_equal_candidates_are_equally_similar(vectors: Scores) -> None:
    found = rank.similarity(unit([0.6, 0.8]), vectors)
    assert np.isfinite(found).all()
    assert len(set(found[0].tolist())) == 1


def test_a_signal_is_the_mean_over_all_views_whatever_their_scale() -> None:
    near = np.array([[0.0, 1.0, 2.0], [0.0, 2000.0, 1000.0]], np.float32)
    signal = rank.averaged(near)
    assert signal[0] < 0
    assert signal[1] == pytest.approx(signal[2])
    assert not rank.averaged(np.ones((2, 3), np.float32)).any()


def test_a_score_is_the_weighted_sum_of_the_signals() -> None:
    signals = {"dense": np.array([1.0, 0.0]), "date": np.array([0.0, 1.0])}
    weights = Weights(dense=2.0, date=0.5)
    assert rank.scored(signals, weights).tolist() == [2.0, 0.5]


def test_a_card_counts_for_a_period_if_it_happened_or_was_said_in_it() -> None:
    told = card_told("a")  # said on 8 May 2023
    cards = [
        told.model_copy(update={"event_date": EventDate.parse("2023-06-02")}),
        told,
        told.model_copy(update={"said_at": datetime(2023, 6, 8)}),
    ]
    assert rank.in_period(cards, EventDate.parse("2023-06")).tolist() == [1, 0, 1]
    assert rank.in_period(cards, EventDate.parse("2023-05-08")).tolist() == [1, 1, 0]
    assert not rank.in_period(cards, EventDate.parse("unknown")).any()


def test_a_subject_that_a_view_names_is_marked() -> None:
    nora, ivar = card_told("a"), card_told("a").model_copy(update={"subject": "Ivar"})
    assert rank.names_subject([nora, ivar], ["What did Nora's cat do?"]).tolist() == [1, 0]


def test_a_card_is_supported_by_the_best_three_of_its_session() -> None:
    cards = [card_told("a", n) for n in range(1, 5)] + [card_told("b", 1)]
    scores = np.array([4.0, 3.0, 2.0, -9.0, 6.0], np.float32)
    assert rank.support(scores, cards).tolist() == [3, 3, 3, 3, 2]


# ---------------------------------------------------------------- reranker


def test_probabilities_and_logits_of_a_reranker_come_to_the_same() -> None:
    said = np.array([[-3.0, 0.5, 6.0]], np.float32)
    chances = (1 / (1 + np.exp(-said))).astype(np.float32)
    np.testing.assert_allclose(rank.logits(chances), said, atol=1e-3)
    assert rank.logits(said) is said


@pytest.mark.parametrize("read", [[[0.0, 1.0]], [[1.0, 1.0]], [[0.0]], [[]]])
def test_a_reranker_that_is_quite_sure_stays_finite(read: list[list[float]]) -> None:
    assert np.isfinite(rank.logits(np.array(read, np.float32))).all()


def test_logits_of_any_size_become_probabilities() -> None:
    chances = rank.probability(np.array([[-1e6, 0.0, 1e6]], np.float32))
    assert chances.tolist() == [[pytest.approx(0.0, abs=1e-6), 0.5, pytest.approx(1.0)]]


# ---------------------------------------------------------------- places

A, B = "a", "b"


def chosen(
    cards: list[Card], scores: list[float], count: int, discount: float, far: float = 9.0
) -> list[int]:
    return rank.choose(np.array(scores, np.float32), cards, count, discount, far)


@pytest.mark.parametrize(
    ("scores", "discount", "places"),
    [
        ([1.0, 0.9, 0.8, 0.75, 0.1], 0.05, [0, 1, 3, 2]),  # another session before a third card
        ([1.0, 0.9, 0.8, 0.75, 0.1], 0.0, [0, 1, 2, 3]),
        ([1.0, 0.9, 0.8, 0.2, 0.1], 0.05, [0, 1, 2, 3]),  # too far below
    ],
)
def test_each_place_makes_its_session_worth_less(
    scores: list[float], discount: float, places: list[int]
) -> None:
    cards = [card_told(A, 1), card_told(A, 2), card_told(A, 3), card_told(B, 1), card_told(B, 2)]
    assert chosen(cards, scores, 4, discount) == places


def test_a_card_of_a_places_turns_takes_no_place() -> None:
    cards = [card_told(A, 1, 2), card_told(A, 2), card_told(B, 2), card_told(A, 2, 3)]
    assert chosen(cards, [4.0, 3.0, 2.0, 1.0], 3, 0.0) == [0, 2, 3]


def test_cards_far_below_the_best_are_not_chosen_after_the_first_four() -> None:
    cards = [card_told(session, 1) for session in "abcdef"]
    assert chosen(cards, [9.0, 3.0, 2.0, 1.0, 0.9, 0.8], 6, 0.0, far=4.0) == [0, 1, 2, 3]
    assert chosen(cards, [9.0, 8.0, 7.0, 6.0, 5.0, 4.9], 6, 0.0, far=4.0) == [0, 1, 2, 3, 4]


def read_with(cards: list[Card], scores: list[float], places: list[int], gap: float) -> list[int]:
    least = sorted(scores)[-len(places)] - gap if places else 0.0
    return rank.with_neighbours(places, np.array(scores, np.float32), cards, least, 6)


def test_cards_near_a_place_are_read_with_the_nearest_place() -> None:
    cards = [card_told(A, 2), card_told(A, 9), card_told(A, 7, 8), card_told(B, 9)]
    assert read_with(cards, [3.0, 2.0, 1.0, 0.9], [0, 1], 1.5) == [0, 1, 2]


def test_cards_that_are_far_away_or_score_too_little_are_not_read() -> None:
    cards = [card_told(A, 1), card_told(B, 1), card_told(A, 8), card_told(A, 2)]
    assert read_with(cards, [3.0, 2.0, 1.9, 0.4], [0, 1], 1.5) == [0, 1]


def test_the_number_of_cards_around_places_is_bounded() -> None:
    cards = [card_told(A, 5), *(card_told(A, n) for n in (4, 6, 3))]
    assert read_with(cards, [3.0, 1.0, 0.9, 0.8], [0], 9.0) == [0, 1]


def test_a_card_without_turns_is_near_nothing() -> None:
    cards = [card_told(A, 1), card_told(A).model_copy(update={"turns": ()})]
    assert read_with(cards, [2.0, 1.0], [0], 9.0) == [0]


def test_no_candidates_give_no_places() -> None:
    assert chosen([], [], 10, 0.3) == []
    assert read_with([], [], [], 0.3) == []
