"""How cards are ranked and chosen: the weights of the signals, and the two profiles."""

from __future__ import annotations

from typing import Literal

from justmem.domain.cards import Value


class Weights(Value):
    """What each signal is worth. The first five are fitted by `bench/fit.py`, with whole
    conversations and whole data sets held out, and rounded."""

    dense: float = 0.5  # similarity of the card's centred vector, in standard deviations
    lexical: float = 0.3  # rarity of the words that the card and its turns share with the views
    turn: float = 0.2  # similarity of the turns that the card rests on
    subject: float = 1.0  # the views name the card's subject
    date: float = 1.0  # it happened, or was said, in the period asked about
    support: float = 0.4  # the mean of the best three scores of the card's session
    rerank: float = 0.4  # the reranker's probability, for the cards it reads
    session: float = 0.4  # discount for each place that its session already has
    far: float = 3.75  # how far below the best a card may score that is read
    around: float = 0.2  # how far below the tenth best a card near a place may score
    around_spread: float = 1.0  # the same, where the evidence spans sessions


class Profile(Value):
    """How cards are found and chosen: our default, or only as the paper describes (`PAPER`)."""

    name: Literal["default", "paper"] = "default"
    weights: Weights = Weights()

    @property
    def is_paper(self) -> bool:
        return self.name == "paper"


PAPER = Profile(name="paper")
