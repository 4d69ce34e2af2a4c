"""The lines that an answer model reads: as terse as they can be, and no terser."""

from datetime import datetime

import pytest

from justmem.answer.reading import card_line, evidence_text
from justmem.domain import Card, EventDate, Evidence, Plan, Status
from justmem.language.languages import LANGUAGES


def card(event_date: str = "unknown", status: Status = "stable", session: str = "s") -> Card:
    return Card(
        id=f"{event_date}{session}",
        subject="Nora",
        fact="ran a race",
        event_date=EventDate.parse(event_date),
        status=status,
        session_id=session,
        said_at=datetime(2024, 5, 20, 9),
        turns=(1,),
    )


@pytest.mark.parametrize(
    ("event_date", "status", "notes"),
    [
        ("2024-05-19", "completed", " [2024-05-19]"),  # told the day after: plain
        ("2024-05-06", "stable", " [2024-05-06]"),
        ("2024-05-05", "stable", " [2024-05-05, said 2024-05-20]"),  # more than two weeks
        ("2024-05", "ongoing", " [2024-05, ongoing]"),
        ("2024-06-01", "planned", " [2024-06-01, planned, said 2024-05-20]"),
        ("2016", "ongoing", " [2016, ongoing, said 2024-05-20]"),
        ("unknown", "completed", " [said 2024-05-20]"),
    ],
)
def test_when_it_was_said_stands_there_unless_it_is_plain(
    event_date: str, status: Status, notes: str
) -> None:
    assert card_line(3, card(event_date, status)) == f"3 Nora ran a race{notes}"


def test_below_a_line_of_its_session_it_was_said_with_it() -> None:
    below, elsewhere = card(session="s"), card(session="t")
    assert card_line(2, below, above=card("2024-05-19")) == "2 Nora ran a race"
    assert card_line(2, elsewhere, above=card()) == "2 Nora ran a race [said 2024-05-20]"


def test_the_cards_are_listed_as_they_are() -> None:
    cards = (card(session="a"), card("2024-06", session="a"), card(session="b"))
    evidence = Evidence(question="?", at=datetime(2024, 6, 1), plan=Plan(), cards=cards)
    assert evidence_text(evidence, mark="").splitlines()[1:4] == [
        "1 Nora ran a race [said 2024-05-20]",
        "2 Nora ran a race [2024-06]",
        "3 Nora ran a race [said 2024-05-20]",
    ]


def test_a_card_that_a_newer_one_replaces_is_marked() -> None:
    def told(fact: str, at: datetime) -> Card:
        return Card(id=fact, subject="Nora", fact=fact, session_id=fact, said_at=at, turns=(1,))

    cards = (
        told("said: I live in Graz.", datetime(2024, 1, 10)),
        told("said: We moved to Vienna.", datetime(2024, 2, 10)),
        told("said: My sister lives in Linz.", datetime(2024, 1, 5)),
    )
    at = datetime(2024, 6, 1)
    earlier = LANGUAGES.superseded(cards, at.date())
    evidence = Evidence(question="?", at=at, plan=Plan(), cards=cards, earlier=tuple(earlier))
    assert evidence_text(evidence, "0").splitlines()[1:4] == [
        "1 Nora: I live in Graz. [said 2024-01-10, earlier]",
        "2 Nora: We moved to Vienna. [said 2024-02-10]",
        "3 Nora: My sister lives in Linz. [said 2024-01-05]",
    ]
