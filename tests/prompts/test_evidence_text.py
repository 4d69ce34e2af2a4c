"""The lines that an answer model reads: one for each card."""

from datetime import datetime
from typing import Any

import pytest

from justmem.domain import Card, EventDate, Evidence, Plan, Status
from justmem.errors import InputError
from justmem.language.languages import LANGUAGES
from justmem.prompts.evidence import card_line, evidence_text


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
        ("2024-05-20", "completed", ""),  # the day it was said
        ("2024-05-19", "completed", " (2024-05-19)"),
        ("2024-06-01", "planned", " (2024-06-01, planned)"),
        ("2016", "ongoing", " (2016, ongoing)"),
        ("2024-05-18/2024-05-19", "completed", " (2024-05-18/19)"),
        ("2024-04-29/2024-05-05", "completed", " (2024-04-29/05-05)"),
        ("2023-12-31/2024-01-01", "completed", " (2023-12-31/2024-01-01)"),
        ("2024-03/2024-05", "completed", " (2024-03/2024-05)"),
        ("unknown", "completed", ""),
    ],
)
def test_a_line_has_its_day_the_words_and_the_date_of_the_event(
    event_date: str, status: Status, notes: str
) -> None:
    assert card_line(card(event_date, status)) == f"2024-05-20 Nora ran a race{notes}"


@pytest.mark.parametrize("tokens", [-1, "many", 1.5])
def test_the_length_of_a_prompt_is_a_count(tokens: Any) -> None:
    evidence = Evidence(question="?", at=datetime(2024, 6, 1), cards=(card("unknown", "stable"),))
    with pytest.raises(InputError, match="tokens must be a whole number"):
        evidence.prompt(tokens)


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
    assert evidence_text(evidence, "0").splitlines()[1:7] == [
        "2024-01-10:",
        "1 Nora: I live in Graz. (earlier)",
        "2024-02-10:",
        "2 Nora: We moved to Vienna.",
        "2024-01-05:",
        "3 Nora: My sister lives in Linz.",
    ]


def test_the_cards_of_a_session_stand_together_under_its_day_as_they_were_said() -> None:
    def told(session: str, turn: int) -> Card:
        at = datetime(2024, 5, 20)
        fact = f"said: {session}{turn}"
        return Card(
            id=fact, subject="Nora", fact=fact, session_id=session, said_at=at, turns=(turn,)
        )

    cards = (told("b", 4), told("a", 1), told("b", 2))
    evidence = Evidence(question="?", at=datetime(2024, 6, 1), plan=Plan(), cards=cards)
    assert evidence.prompt().splitlines()[2:-1] == [
        "2024-05-20 [b]",
        "#2 Nora: b2",
        "#4 Nora: b4",
        "2024-05-20 [a]",
        "#1 Nora: a1",
    ]
