"""From a ranking to slots: spreading over sessions, and what is read beside the chosen."""

import numpy as np

from justmem import slots
from stories import card_told


def test_another_session_comes_before_a_third_card_of_the_same() -> None:
    cards = [card_told("a"), card_told("a"), card_told("a"), card_told("b"), card_told("b")]
    scores = np.array([1.0, 0.9, 0.8, 0.75, 0.1], np.float32)
    ranked = [[0], [1], [2], [3], [4]]
    assert slots.spread(ranked, scores, cards, again=-0.05, count=4) == [[0], [1], [3], [2], [4]]


def test_what_is_far_better_stays_first_wherever_it_was_said() -> None:
    cards = [card_told("a"), card_told("a"), card_told("b")]
    scores = np.array([1.0, 0.9, 0.2], np.float32)
    assert slots.spread([[0], [1], [2]], scores, cards, again=-0.05, count=2) == [[0], [1], [2]]


def test_slots_keep_the_cards_that_share_them() -> None:
    cards = [card_told("a"), card_told("a"), card_told("a"), card_told("b")]
    scores = np.array([1.0, 0.9, 0.5, 0.49], np.float32)
    assert slots.spread([[0, 1], [2], [3]], scores, cards, again=-0.05, count=3) == [
        [0, 1],
        [3],
        [2],
    ]


def test_what_was_told_a_few_turns_away_is_read_beside_the_card_it_is_nearest_to() -> None:
    cards = [card_told("a", 2), card_told("a", 9), card_told("a", 7, 8), card_told("b", 9)]
    scores = np.array([3.0, 2.0, 1.0, 0.9], np.float32)
    near = slots.beside([[0], [1]], [0, 1, 2, 3], scores, cards, least=0.5)
    assert near == {0: [], 1: [2]}
    assert slots.without([[0], [1], [2], [3]], near) == [[0], [1], [3]]


def test_what_is_far_away_or_scores_too_little_is_not() -> None:
    cards = [card_told("a", 1), card_told("b", 1), card_told("a", 10), card_told("a", 2)]
    scores = np.array([3.0, 2.0, 1.0, 0.4], np.float32)
    near = slots.beside([[0], [1]], [0, 1, 2, 3], scores, cards, least=0.5)
    assert near == {0: [], 1: []}


def test_only_so_much_is_read_beside_and_nothing_is_lost() -> None:
    cards = [card_told("a", 5), *(card_told("a", n) for n in (4, 6, 3))]
    scores = np.array([3.0, 1.0, 0.9, 0.8], np.float32)
    near = slots.beside([[0]], [0, 1, 2, 3], scores, cards, least=0.5)
    assert near == {0: [1]}
    assert slots.without([[0], [1, 2], [3]], near) == [[0], [2], [3]]


def test_a_card_without_turns_is_beside_nothing() -> None:
    cards = [card_told("a", 1), card_told("a").model_copy(update={"turns": ()})]
    scores = np.array([2.0, 1.0], np.float32)
    assert slots.beside([[0]], [0, 1], scores, cards, least=0) == {0: []}
