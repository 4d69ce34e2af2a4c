"""Yes or no by rules: said only where a card says so, and of the one who is asked about."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.answering.verdicts import verdict
from justmem.domain import Card, Status


def told(fact: str, *, subject: str = "Nora", status: Status = "stable") -> Card:
    return Card(
        id="c1",
        subject=subject,
        fact=fact,
        status=status,
        session_id="s1",
        said_at=datetime(2023, 5, 8),
        turns=(1,),
    )


@pytest.mark.parametrize(
    ("question", "fact", "said"),
    [
        ("Does Nora play guitar?", "plays guitar", "Yes"),
        ("Does Nora eat meat?", "doesn't eat meat, but does eat fish", "No"),
        ("Does Nora eat fish?", "doesn't eat meat, but does eat fish", "Yes"),
        ("Has Nora been to Italy?", "has never been to Italy", "No"),
        ("Does Nora own a car?", "has no car", "No"),
        ("Does Nora have a car?", "has a car, not a bike", "Yes"),
        ("Does Nora have a bike?", "has a car, not a bike", "No"),
        ("Does Nora drink coffee?", "drinks coffee without sugar", "Yes"),
        ("Does Nora take sugar?", "drinks coffee without sugar", "No"),
        ("So, does Nora play guitar?", "plays guitar", "Yes"),
    ],
)
def test_a_clause_says_yes_or_no_for_itself(question: str, fact: str, said: str) -> None:
    assert verdict(question, told(fact)) == said


@pytest.mark.parametrize(
    ("question", "fact", "said"),
    [
        ("Is Nora no longer a nurse?", "is no longer a nurse", "Yes"),
        ("Is Nora no longer a nurse?", "is a nurse", "No"),
        ("Isn't Nora a nurse?", "is a nurse", "Yes"),  # as people ask who expect a yes
        ("Doesn't Nora eat meat?", "doesn't eat meat", "No"),
        ("Aren't Nora's cats black?", "has cats that are black", "Yes"),
    ],
)
def test_a_question_may_be_in_the_negative(question: str, fact: str, said: str) -> None:
    assert verdict(question, told(fact)) == said


def test_a_not_whose_reach_is_unclear_says_nothing() -> None:
    assert verdict("Will there be a party in June?", told("said the party in June is not on")) == ""


@pytest.mark.parametrize(
    ("question", "fact", "said"),
    [
        ("Does Nora smoke?", "stopped smoking", "No"),
        ("Did Nora smoke?", "stopped smoking", "Yes"),
        ("Did Nora stop smoking?", "stopped smoking", "Yes"),
        ("Does Nora smoke?", "no longer smokes", "No"),
        ("Does Nora own the Honda?", "sold the Honda for 2900 pounds", "No"),
        ("Does Nora still work at Brightleaf?", "quit Nora's job at Brightleaf", "No"),
        ("Does Nora play tennis?", "left the house early to play tennis", "Yes"),
    ],
)
def test_what_has_ended_is_no_more_but_was(question: str, fact: str, said: str) -> None:
    assert verdict(question, told(fact)) == said


@pytest.mark.parametrize(
    ("question", "fact", "said"),
    [
        ("Did Nora pass her driving test?", "failed her driving test", "No"),
        ("Did Nora like the film?", "hated the film", "No"),
        ("Does Nora like jazz?", "can't stand jazz", "No"),
        ("Does Nora hate jazz?", "hates jazz", "Yes"),
        ("Did Nora fail the test?", "failed the test", "Yes"),
    ],
)
def test_what_is_turned_round_was_never_so(question: str, fact: str, said: str) -> None:
    assert verdict(question, told(fact)) == said


@pytest.mark.parametrize(
    ("question", "fact", "said"),
    [
        ("Does Nora have a boat?", "plans to buy a boat", ""),
        ("Did Nora go to Rome?", "will go to Rome in April 2025", ""),
        ("Is Nora going to Rome?", "will go to Rome in April 2025", "Yes"),
        ("Does Nora have a boat?", "wants a boat", ""),
        ("Does Nora want a boat?", "wants a boat", "Yes"),
        ("Will Nora adopt a cat?", "might adopt a cat", ""),
        ("Has Nora been to Italy?", "has never been to Italy, but plans to go to Rome", "No"),
        ("Has Nora been to Rome?", "has never been to Italy, but plans to go to Rome", ""),
        ("Did Nora run in May?", "ran on 7 May 2023", "Yes"),  # the month, not the word
    ],
)
def test_a_plan_or_a_wish_is_not_yet_so(question: str, fact: str, said: str) -> None:
    assert verdict(question, told(fact)) == said


def test_the_status_of_a_card_says_that_it_is_planned() -> None:
    assert verdict("Did Nora visit Bergen?", told("visits Bergen", status="planned")) == ""
    assert verdict("Did Nora visit Bergen?", told("visits Bergen", status="completed")) == "Yes"


@pytest.mark.parametrize(
    ("question", "fact", "subject"),
    [
        ("Does Theo play guitar?", "plays guitar", "Nora"),
        ("Did I lose my watch?", "said Theo lost his watch", "Nora"),
        ("Do I teach maths?", "teaches maths", "Nora's sister Hanna"),
        ("Do I have a sister?", "has met Theo's sister", "Nora"),
        ("Did Nora visit Rome with Theo?", "visited Rome", "Nora"),
    ],
)
def test_what_is_told_of_somebody_else_says_nothing(question: str, fact: str, subject: str) -> None:
    assert verdict(question, told(fact, subject=subject)) == ""


def test_what_is_told_of_somebody_answers_where_they_are_asked_about() -> None:
    assert verdict("Did Theo lose his watch?", told("said Theo lost his watch")) == "Yes"
    sister = told("teaches maths", subject="Nora's sister Hanna")
    assert verdict("Does my sister teach maths?", sister) == "Yes"
    assert verdict("Does Hanna teach maths?", sister) == "Yes"


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("Is Nora a nurse?", "met a nurse"),
        ("Does Nora have a dog?", "walks dogs in the park"),
        ("Does Nora like jazz?", "went to a jazz concert"),
        ("Did Nora run 5 races?", "ran 3 races"),
        ("Has Nora moved into a new apartment for the dogs?", "lives in an apartment"),
        ("Is it so?", "is so"),
    ],
)
def test_what_only_touches_the_matter_says_nothing(question: str, fact: str) -> None:
    assert verdict(question, told(fact)) == ""


@pytest.mark.parametrize(("reply", "said"), [("said no", "No"), ("said yes", "Yes"), ("hums", "")])
def test_who_was_asked_this_very_thing_has_answered_it(reply: str, said: str) -> None:
    card = told(f'{reply} (asked "Do you have any allergies to nuts?")')
    assert verdict("Does Nora have allergies to nuts?", card) == said
