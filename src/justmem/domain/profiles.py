"""How cards are chosen: our default, and the paper's setting."""

from __future__ import annotations

from typing import Literal

from justmem.domain.value import Value


class Weights(Value):
    """What each signal is worth when cards are ranked. The first three are standardised over the
    candidates and averaged; the others are added, in standard deviations of that average."""

    dense: float = 1.3  # the card's vector
    lexical: float = 0.7  # its words and those of its turns
    turn: float = 0.5  # the vectors of its turns
    subject: float = 1.0  # it is about whom the question names
    period: float = 1.0  # its event lies in the period asked about
    told: float = 1.5  # it was told on the day that the question gives by its date
    dated: float = 0.25  # it is known when, where evidence spans sessions
    kind: float = 0.2  # it is of a kind that the plan expects
    apart: float = 0.2  # it is unlike the other candidates: what is like them all says little
    quote: float = -0.5  # it is a quote: nothing says that it is worth remembering
    rerank: float = 0.4  # how likely the reranker thinks it answers, among those it reads
    again: float = -0.3  # each better card of its session
    span_again: float = -0.5  # instead of `again`, where evidence spans sessions
    neighbour: float = 0.1  # each point by which a card told a turn before or after is better
    beside: float = 0.3  # how far below the last chosen what was told beside one may score
    span_beside: float = 1.0  # instead of `beside`, where evidence spans sessions
    remark_lexical: float = 0.2  # instead of `lexical`: what lies behind a remark shares few words
    remark_turn: float = 0.0  # instead of `turn`, likewise
    remark_apart: float = 0.6  # instead of `apart`: small talk is a little like every remark
    remark_reason: float = 0.7  # it tells a reason, a resolution, a lesson or a trouble
    remark_whole: float = 0.25  # how much of a score is that of all that its turns tell


class Profile(Value):
    """The places where our default goes beyond the paper. Each can be switched off by itself."""

    name: str = "default"
    select_by: Literal["views", "question"] = "views"  # question: a reranker's word alone (Eq. 3)
    replay: Literal["turns", "session"] = "turns"  # session: the best card's, whole
    rewrites_under_replay: bool = True
    speaker: bool = True  # "I" in a question is put as the speaker's name
    turns: bool = True  # a card is also found and weighed by the turns it rests on
    quotes: bool = True  # turns that no card rests on may be chosen
    told: bool = True  # what was told in the period asked about is looked through, and counts
    apart: bool = True  # what is like all other candidates counts for less
    merge: bool = True  # cards that say the same, or rest on the same turns, share a slot
    spread: bool = True  # the cards chosen lie in several sessions, more so where evidence does
    beside: bool = True  # what was told beside a chosen card, and nearly chosen, is read with it
    reasons: bool = True  # behind a remark, more is looked through, for reasons, by whole turns
    weights: Weights = Weights()


PAPER = Profile(
    name="paper",
    select_by="question",
    replay="session",
    rewrites_under_replay=False,
    speaker=False,
    turns=False,
    quotes=False,
    told=False,
    apart=False,
    merge=False,
    spread=False,
    beside=False,
    reasons=False,
)
