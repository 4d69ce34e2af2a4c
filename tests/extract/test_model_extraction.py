"""A card rests on turns that code has checked, or it is not a card."""

from datetime import datetime

from justmem.domain import Session, Turn
from justmem.extract import CardsReply, Draft, check
from justmem.language.languages import LANGUAGES

SESSION = Session(
    id="s1",
    at=datetime(2024, 3, 11, 18, 0),
    turns=(
        Turn(speaker="Ana", text="Hey! How have you been?"),
        Turn(speaker="Ben", text="Good! I adopted a greyhound last Friday."),
        Turn(speaker="Ana", text="Oh wow. What is the name of your dog?"),
        Turn(speaker="Ben", text="Juniper."),
    ),
)


def row(text: str):
    draft = Draft.model_validate(text)
    assert draft is not None
    return draft


def checked(*rows: str):
    return check([row(text) for text in rows], SESSION, LANGUAGES)


def test_a_named_turn_that_shares_words_is_kept() -> None:
    [card] = checked("Ben | adopted a greyhound | 2024-03-08 | completed | event | 2").cards
    assert card.turns == (2,)
    assert str(card.event_date) == "2024-03-08"
    assert card.said_at == SESSION.at


def test_a_short_answer_is_understood_from_the_question_before_it() -> None:
    [card] = checked(
        "Ben | calls the dog by the name of a bush | unknown | stable | fact | 4"
    ).cards
    assert card.turns == (4,)


def test_a_wrong_turn_is_corrected_to_the_one_that_says_it() -> None:
    result = checked("Ben | adopted a greyhound | 2024-03-08 | completed | event | 1")
    assert result.cards[0].turns == (2,)
    assert any("moved" in note for note in result.notes)


def test_numbers_that_are_no_turns_are_ignored() -> None:
    result = checked("Ben | adopted a greyhound | unknown | completed | event | 0,2,99")
    assert result.cards[0].turns == (2,)


def test_a_card_that_no_turn_supports_is_quarantined() -> None:
    result = checked("Ben | won the lottery in Lisbon | unknown | completed | event | 2")
    assert not result.cards
    assert result.quarantined[0].fact == "won the lottery in Lisbon"
    assert any("quarantined" in note for note in result.notes)


def test_unknown_kinds_statuses_and_dates_take_the_defaults() -> None:
    [card] = checked("Ben | adopted a greyhound | someday | whatever | thing | 2").cards
    assert (card.kind, card.status, card.event_date.text) == ("fact", "stable", "unknown")


def test_a_date_in_words_is_resolved_against_the_session() -> None:
    [card] = checked("Ben | adopted a greyhound | last Friday | completed | event | 2").cards
    assert str(card.event_date) == "2024-03-08"


def test_the_same_card_twice_is_one() -> None:
    line = "Ben | adopted a greyhound | unknown | completed | event | 2"
    assert len(checked(line, line).cards) == 1


def test_objects_with_the_same_fields_are_read_too() -> None:
    draft = Draft.model_validate(
        {
            "subject": "Ben",
            "fact": "Ben adopted a greyhound",
            "event_date": "2024-03-08",
            "status": "completed",
            "kind": "event",
            "turns": [2],
        }
    )
    assert draft is not None
    assert draft.fact == "adopted a greyhound"
    assert draft.turns == (2,)


def test_an_interaction_is_anchored_to_the_reply() -> None:
    chat = Session(
        id="s2",
        at=SESSION.at,
        turns=(
            Turn(speaker="User", text="Plan a week in Kyoto for me"),
            Turn(speaker="Assistant", role="assistant", text="Day 1: Fushimi Inari ..."),
        ),
    )
    line = "User | asked for a week's plan for Kyoto | unknown | completed | interaction | 1"
    [card] = check([row(line)], chat, LANGUAGES).cards
    assert card.turns == (1, 2)


def test_whatever_a_model_sends_is_a_draft_or_nothing() -> None:
    items = [None, 3, "", "a | b", {"subject": 1}, {"subject": "A", "fact": " "}, [], ["x"]]
    assert CardsReply.model_validate(items).cards == [None] * len(items)
    odd = Draft.model_validate(
        {"subject": "A", "fact": "b", "turns": {"x": "9" * 10_000}, "kind": []}
    )
    assert odd.turns == ()
