"""Quotations of the words that a card rests on."""

from __future__ import annotations

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from justmem.domain import Card, Session, Turn
from justmem.language.citing import cite, cite_turn
from justmem.language.words import best_passage

AT = datetime(2023, 5, 8)
LONG = (
    "It has been a long and busy month for all of us here at home, with school and work and all. "
    "My sister came to visit from Oslo. "
    "I finally signed up for a pottery class on Monday. "
    "The weather has been awful, so we stayed inside and played board games most of the time."
)


def card(fact: str, *turns: int) -> Card:
    return Card(id="c1", subject="Mel", fact=fact, session_id="s", said_at=AT, turns=turns)


def session(*texts: str) -> Session:
    return Session(id="s", at=AT, turns=tuple(Turn(speaker="Mel", text=text) for text in texts))


def test_a_short_turn_is_quoted_whole() -> None:
    (cited,) = cite(card("moved to Rome", 1), session(" I moved to Rome! "))
    assert cited.quote == "I moved to Rome!"
    assert (cited.turn, cited.speaker, cited.card_id) == (1, "Mel", "c1")


def test_of_a_long_turn_only_the_sentence_that_supports_the_card() -> None:
    (cited,) = cite(card("signed up for a pottery class", 1), session(LONG))
    assert cited.quote == "I finally signed up for a pottery class on Monday."


def test_two_sentences_where_the_card_rests_on_both() -> None:
    (cited,) = cite(
        card("had a visit by a sister from Oslo; signed up for pottery", 1), session(LONG)
    )
    assert cited.quote.startswith("My sister came")
    assert cited.quote.endswith("on Monday.")


def test_one_citation_for_each_turn_of_the_card() -> None:
    told = session("How long have you painted?", "Since 2016.")
    cited = cite(card("has painted since 2016", 1, 2), told)
    assert [one.quote for one in cited] == ["How long have you painted?", "Since 2016."]


def test_turns_the_session_does_not_have_are_left_out() -> None:
    assert cite(card("moved", 7), session("I moved.")) == ()


def test_a_turn_with_its_own_time_was_said_then() -> None:
    later = datetime(2023, 5, 9, 10, 0)
    told = Session(id="s", at=AT, turns=(Turn(speaker="Mel", text="Hello.", at=later),))
    assert cite_turn("hello", told, 1).said_at == later


@given(st.text(max_size=600), st.text(max_size=60))
def test_a_quote_is_always_a_part_of_its_turn(text: str, hint: str) -> None:
    start, end = best_passage(hint, text)
    assert 0 <= start <= end <= len(text)
    cited = cite_turn(hint, session(text), 1)
    assert cited.quote == text[cited.start : cited.end]
