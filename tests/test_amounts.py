"""Numbers and amounts as cards state them, and sums of money."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.answering.amounts import counted, stated_amount, stated_number, summed
from justmem.answering.support import Supported
from justmem.domain import Candidate, Card, Status


def told(*facts: str, subject: str = "Nora", status: Status = "completed") -> list[Supported]:
    """One card for each fact, told one day after the other."""
    cards = [
        Card(
            id=f"c{day}",
            subject=subject,
            fact=fact,
            status=status,
            session_id=f"s{day}",
            said_at=datetime(2023, 5, day),
            turns=(1,),
        )
        for day, fact in enumerate(facts, 1)
    ]
    return [Supported(Candidate(card=card), 6.0) for card in cards]


def total(question: str, *facts: str, status: Status = "completed") -> str:
    found = summed(question, told(*facts, status=status))
    return found.total if found else ""


@pytest.mark.parametrize(
    ("facts", "whole"),
    [
        (("paid €45 for a train", "paid 120 euros for a room"), "€165"),
        (("paid 50€ for a train", "paid EUR 20 for a room"), "€70"),
        (("paid $1,200 for a desk", "paid 80.50 dollars for a lamp"), "$1,280.50"),
        (("paid £2k for a boat", "paid 300 quid for its motor"), "£2,300"),
        (("paid 45 euros for a train and 120 euros for a room",), "€165"),
        (("bought a desk for $420 on 6 January 2025 and a chair for $310",), "$730"),
    ],
)
def test_money_of_one_currency_is_added(facts: tuple[str, ...], whole: str) -> None:
    assert total("How much did Nora pay in total?", *facts) == whole


@pytest.mark.parametrize(
    "facts",
    [
        ("paid €45 for a train", "paid $120 for a room"),  # no rate is known
        ("paid €45 for a train",),
        ("paid €45 for a train, down from €60",),
        ("paid €45 for a train", "paid €200 in total"),  # the total is told
        ("paid €45 for a train", "sold a bike for €100"),
        ("paid €45 for a train", "has a budget of €900"),
        ("lost 10 pounds", "lost 5 pounds"),
    ],
)
def test_what_does_not_add_up_is_not_added(facts: tuple[str, ...]) -> None:
    assert total("How much did Nora pay in total?", *facts) == ""


def test_only_what_is_asked_about_is_added() -> None:
    facts = (
        "spent €30 on a museum in Paris",
        "spent €70 on a room in Paris",
        "spent €200 on a room in Oslo",
        "spent €9 on a book",
    )
    assert total("How much did Nora spend in Paris in total?", *facts) == "€100"
    assert total("How much did Nora spend on rooms?", *facts) == "€270"
    assert total("How much did Nora spend in Paris in total?", *facts, status="planned") == ""


def test_no_total_is_made_where_none_is_asked_for() -> None:
    assert total("How much was the train?", "paid €45 for a train", "paid €9 for a train") == ""


@pytest.mark.parametrize(
    ("question", "fact", "number"),
    [
        ("How many houseplants do I have?", "has 14 houseplants and two bikes", "14"),
        ("How many bikes do I have?", "has 14 houseplants and two bikes", "two"),
        ("How many followers do I have?", "reached 2000 followers", "2000"),
        ("What is the number of followers I have?", "reached 2,100 followers", "2,100"),
        ("How many species have I seen?", "brought the count of species to 32", "32"),
        ("How many guests came?", "had twenty-five guests", "twenty-five"),
        ("How many times did I go to Rome?", "went to Rome twice", "twice"),
        ("How many times a week do I run?", "runs twice a week", "twice a week"),
    ],
)
def test_a_number_is_of_what_it_stands_before(question: str, fact: str, number: str) -> None:
    stated = stated_number(question, told(fact))
    assert stated is not None
    assert stated[0] == number


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("How many dogs do I have?", "walked one of the dogs"),
        ("How many museums did I visit?", "visited museums on 7 May 2023"),
        ("How many museums did I visit?", "once liked museums"),
        ("How many eggs did I eat?", "ate at 7:30, eggs as ever"),
        ("How many times has Nora gone to the beach?", "goes to the beach once or twice a year"),
        ("How many cats do I have?", 'has cats (asked "Are 3 cats enough?")'),
    ],
)
def test_what_is_no_number_of_it_is_not_taken_for_one(question: str, fact: str) -> None:
    assert stated_number(question, told(fact)) is None


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("How much more was the room than the train?", ("paid €45 for a train",)),
        ("How much is the train instead of a taxi?", ("paid €45 for a train",)),
        ("How much did Nora save on the shoes?", ("said the shoes were $500",)),
        ("What is the total time of the commute?", ("has a commute of 30 minutes",)),
        ("How much did I spend on wine in total?", ("paid €45, down from €60, for wine",)),
        ("How much did I pay in total?", ("paid €45 for a train", "paid $12 for a room")),
    ],
)
def test_one_amount_is_not_the_answer_where_several_are_needed(
    question: str, facts: tuple[str, ...]
) -> None:
    assert stated_amount(question, told(*facts)) is None


def test_euros_are_an_amount_however_they_are_asked_for() -> None:
    assert counted("How many euros did I spend?") == set()
    assert counted("How many different museums did I visit?") == {"museum"}


@pytest.mark.parametrize(
    ("question", "facts", "amount"),
    [
        ("How much is the rent?", ("moved to York; the rent is 950 pounds a month",), "950 pounds"),
        ("How much do I weigh?", ("weighs 82 kg now", "weighs 79 kg now"), "79 kg"),
        ("How much did I weigh?", ("weighs 82 kg now", "weighs 79 kg now"), "82 kg"),
        ("How much did the cake cost?", ("paid $60 for wine, and $85 for a cake",), "$85"),
        (
            "How much did I pay for the Honda?",
            ("sold the Honda for £9", "bought a Honda for £8"),
            "£8",
        ),
    ],
)
def test_an_amount_is_of_the_clause_that_is_asked_about(
    question: str, facts: tuple[str, ...], amount: str
) -> None:
    stated = stated_amount(question, told(*facts))
    assert stated is not None
    assert stated[0] == amount
