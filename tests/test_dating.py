"""Dates written out in a fact, said on Friday 26 May 2023. The other words stay as they are."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.extraction.dating import absolute

AT = datetime(2023, 5, 26)


@pytest.mark.parametrize(
    ("told", "written"),
    [
        ("moved yesterday", "moved on 25 May 2023"),
        ("plans meals for the coming week", "plans meals for the week of 29 May 2023"),
        ("left on the Saturday with Ada", "left on the Saturday (20 May 2023) with Ada"),
        ("booked it last Friday evening", "booked it on the evening of 19 May 2023"),
        ("stayed until last Friday night", "stayed until the night of 19 May 2023"),
        ("met John Friday and sang", "met John on 19 May 2023 and sang"),
        ("saw her Friday", "saw her on 19 May 2023"),
    ],
)
def test_a_relative_date_is_written_out(told: str, written: str) -> None:
    assert absolute(told, AT, False)[0] == written


@pytest.mark.parametrize(
    "told",
    [
        "bought it on a Saturday",
        "got it in the Black Friday sale",
        "went to the Turbocharged Tuesday event",
        "enjoys their Friday evening rides",
        "walks on Tuesday evenings",
        "likes her Sunday routine",
        "read every Monday",
        "got up 30 minutes earlier each day",
        "left an hour earlier",
    ],
)
def test_what_is_no_day_in_particular_stays_as_it_was_said(told: str) -> None:
    fact, when = absolute(told, AT, False)
    assert (fact, str(when)) == (told, "unknown")


@pytest.mark.parametrize(
    "told", ["works Monday to Friday", "is open Tue-Sat", "swims on Monday and Friday every week"]
)
def test_what_is_so_in_any_week_stays_as_it_was_said(told: str) -> None:
    fact, when = absolute(told, AT, None)
    assert (fact, str(when)) == (told, "unknown")


def test_from_one_day_to_another_is_one_week() -> None:
    told = "be in Oslo from Monday to Saturday"
    assert absolute(told, AT, True)[0] == "be in Oslo from 29 May 2023 to 3 June 2023"
    assert absolute(told, AT, False)[0] == "be in Oslo from 15 May 2023 to 20 May 2023"


@pytest.mark.parametrize(
    ("told", "written", "date"),
    [
        (
            "began it 12 days before February 10th, which has really helped with reading",
            "began it on 29 January 2023, which has really helped with reading",
            "2023-01-29",
        ),
        (
            "took the paper since the first week of October, but wants to stay informed",
            "took the paper since the week of 3 October 2022, but wants to stay informed",
            "2022-10-03/2022-10-09",
        ),
        (
            "came the weekend after 1 May and brought three friends of theirs",
            "came on the weekend of 6 May 2023 and brought three friends of theirs",
            "2023-05-06/2023-05-07",
        ),
    ],
)
def test_a_date_beside_another_takes_no_word_that_follows_it(
    told: str, written: str, date: str
) -> None:
    fact, when = absolute(told, AT, False)
    assert (fact, str(when)) == (written, date)


def test_a_date_in_a_possessive_is_left_in_place() -> None:
    assert absolute("liked Friday night's game", AT, False)[0] == "liked Friday night's game"


@pytest.mark.parametrize(
    "told", ["flying to Oslo on Friday for a week", "starting on Monday, 30 hours a week"]
)
def test_a_day_beside_a_week_is_still_a_day(told: str) -> None:
    assert str(absolute(told, AT, None)[1]) != "unknown"
