"""Date phrases, resolved against the day they were said: Thursday 25 May 2023."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from justmem.language.en import dates

AT = date(2023, 5, 25)


def meaning(text: str, at: date = AT) -> str:
    return str(dates.resolve(text, at))


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("today", "2023-05-25"),
        ("yesterday", "2023-05-24"),
        ("tonight", "2023-05-25"),
        ("this morning", "2023-05-25"),
        ("last night", "2023-05-24"),
        ("tomorrow", "2023-05-26"),
        ("the day before yesterday", "2023-05-23"),
        ("last Friday", "2023-05-19"),
        ("next Tuesday", "2023-05-30"),
        ("three days ago", "2023-05-22"),
        ("a week ago", "2023-05-18"),
        ("a couple of weeks ago", "2023-05-11"),
    ],
)
def test_days(phrase: str, expected: str) -> None:
    assert meaning(phrase) == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("last week", "2023-05-15/2023-05-21"),
        ("last weekend", "2023-05-20/2023-05-21"),
        ("two weekends ago", "2023-05-13/2023-05-14"),
        ("the Wednesday two months ago", "2023-03"),
        ("Monday last week", "2023-05-15/2023-05-21"),
        ("the first weekend in August", "2023-08"),
        ("last month", "2023-04"),
        ("next month", "2023-06"),
        ("last year", "2022"),
        ("3 years ago", "2020"),
        ("a few months ago", "2022-12/2023-03"),
        ("last summer", "2022-06/2022-08"),
        ("in the summer of 2021", "2021-06/2021-08"),
        ("in the last 3 months", "2023-02-25/2023-05-25"),
        ("since 2019", "2019"),
    ],
)
def test_weeks_months_and_years_keep_their_precision(phrase: str, expected: str) -> None:
    assert meaning(phrase) == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("7 May 2023", "2023-05-07"),
        ("May 7th, 2021", "2021-05-07"),
        ("the 3rd of June 2022", "2022-06-03"),
        ("5/7/2023", "unknown"),  # May or July
        ("12/25/2022", "2022-12-25"),
        ("5.7.2023", "2023-07-05"),
        ("25/12/2022", "2022-12-25"),
        ("2023-05-07", "2023-05-07"),
        ("June 2022", "2022-06"),
        ("May 5-7", "2023-05-05/2023-05-07"),
    ],
)
def test_dates_in_the_calendar(phrase: str, expected: str) -> None:
    assert meaning(phrase) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("We went there in June", "2022-06"),
        ("We'll go there in June", "2023-06"),
        ("I saw her Friday", "2023-05-19"),
        ("I will see her Friday", "2023-05-26"),
        ("I hiked this weekend", "2023-05-20/2023-05-21"),
        ("I am going to hike this weekend", "2023-05-27/2023-05-28"),
        ("We will move in two weeks", "2023-06-08"),
        ("The doctor had the flu, the new date is 15 June", "2023-06-15"),
        ("She got a job in Bremen, starts in October", "2023-10"),
        ("The concert on 11 June, got two tickets", "2023-06-11"),
        ("Our flight leaves on Sunday", "2023-05-28"),
        ("She turns 8 on the 21st", "2023-06-21"),
        ("I had a dentist appointment on Tuesday", "2023-05-23"),
        ("We found a spot in the shade on Sunday", "2023-05-21"),
        ("The run took place on March 12th", "2023-03-12"),
        ("I have a new job since June", "2022-06"),
        ("I am learning Greek since January", "2023-01"),
    ],
)
def test_the_tense_settles_the_direction(sentence: str, expected: str) -> None:
    assert meaning(sentence) == expected


@pytest.mark.parametrize(
    "text",
    [
        "for 3 years",
        "the week before last",
        "the week of May 8",
        "the sunday before 25 May 2023",
        "two days before last Christmas",
        "for the last 3 months",
        "built it in two weeks",
        "every Friday",
        "on Fridays",
        "It rained, as planned, Saturday the 13th",
        "I may go",
        "March on",
        "my 2018 Honda",
        "31 June 2023",
        "24/7",
        "May 10:30",
        "",
        "el martes pasado",
    ],
)
def test_what_is_no_date_stays_unknown(text: str) -> None:
    assert meaning(text) == "unknown"


def test_find_gives_the_place_of_each_phrase() -> None:
    text = "I ran last Friday and rested two days ago."
    found = dates.find(text, AT)
    assert [text[one.start : one.end] for one in found] == ["last Friday", "two days ago"]
    assert [str(one.date) for one in found] == ["2023-05-19", "2023-05-23"]


def test_a_time_of_day_does_not_matter() -> None:
    assert str(dates.resolve("yesterday", datetime(2023, 5, 25, 23, 59))) == "2023-05-24"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did I do between March and May?", "2023-03-01/2023-05-31"),
        ("How many did I buy in May 2023?", "2023-05"),
        ("Where did I live before June 2020?", "1900-01-01/2020-05-31"),
        ("What have I done since 2019?", "2019-01-01/2023-05-25"),
        ("What did I watch in the past month?", "2023-04-25/2023-05-25"),
        ("What is my name?", "unknown"),
    ],
)
def test_the_period_of_a_question(question: str, expected: str) -> None:
    assert str(dates.period(question, AT)) == expected


@pytest.mark.parametrize(
    ("said", "sentence", "expected"),
    [
        ("2025-03-16", "So the wedding is 4 October now.", "2025-10-04"),
        ("2025-03-16", "They told us the surgery is on 2 June.", "2025-06-02"),
        ("2024-10-20", "I got a place in the half marathon on 11 May!", "2025-05-11"),
        ("2025-08-20", "I had to cancel the gig in Ghent on 30 August.", "unknown"),
        ("2025-03-16", "The gig in Ghent, 4 October", "unknown"),
        ("2025-02-01", "We went to Spain in August.", "2024-08"),
    ],
)
def test_a_date_without_a_year_is_unknown_if_it_is_unclear(
    said: str, sentence: str, expected: str
) -> None:
    assert str(dates.resolve(sentence, date.fromisoformat(said))) == expected
