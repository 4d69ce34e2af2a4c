"""How cards are ranked and chosen: the weights of the signals, and the two profiles."""

from __future__ import annotations

from typing import Literal

from justmem.domain.cards import Value


class Weights(Value):
    """What each signal is worth. The first five are fitted by `justmem-eval fit --data DIR`, with
    whole conversations and whole data sets held out, and rounded."""

    dense: float = 0.5  # similarity of the card's centred vector, in standard deviations
    lexical: float = 0.3  # rarity of the words that the card and its turns share with the views
    turn: float = 0.2  # similarity of the turns that the card rests on
    subject: float = 1.0  # the views name the card's subject
    date: float = 1.0  # it happened, or was said, in the period asked about
    rerank: float = 0.4  # the reranker's probability, for the cards it reads
    session: float = 0.3  # discount for each place that its session already has
    around: float = 0.3  # how far below the tenth best a card near a place may score
    around_spread: float = 1.0  # the same, where the evidence spans sessions


class Profile(Value):
    """How cards are chosen: our default, or the paper's way (`PAPER`)."""

    name: str = "default"
    # question: the reranker's score of each candidate against the question decides (Eq. 3).
    select_by: Literal["views", "question"] = "views"
    # session: REPLAY reads the whole session of the best card.
    replay: Literal["turns", "session"] = "turns"
    weights: Weights = Weights()


PAPER = Profile(name="paper", select_by="question", replay="session")
