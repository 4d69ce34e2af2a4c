"""The rules planner: what a person hears in the way a question is put."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.domain import Access
from justmem.planning.rules import RulesPlanner, plan_by_rules
from justmem.planning.topics import related

AT = datetime(2023, 5, 25, 12, 0)


def plan(question: str):
    return plan_by_rules(question, AT)


@pytest.mark.parametrize(
    "question",
    [
        "Can you remind me of the campsite near Bergen you recommended?",
        "We talked about garden sheds the other day. Which one was the cheapest?",
        "In our last conversation about bread, what temperature was given?",
        "Could you remind me of the third step for oiling a bicycle chain?",
        "You mentioned soaking the beans first. For how long?",
        "What was the dragon called in the fairy tale you wrote?",
        "What was the phone number that you provided me earlier?",
        "What exactly did Maria say about the move?",
        "Quote the answer word for word.",
        "What did you say was the second step?",
    ],
)
def test_what_was_told_before_or_word_for_word_needs_the_source(question: str) -> None:
    assert plan(question).access is Access.REPLAY


@pytest.mark.parametrize(
    "question",
    [
        "Can you recommend some books about beekeeping?",
        "Could you suggest a tent for my trip to Iceland?",
        "Who did I have a conversation with about chess?",
        "How long was my last session with my therapist?",
        "Can you remind me what I bought for my sister?",
        "How many cakes have we made this year?",
        "What did I tell you about my job?",
        "When did Nora join the choir?",
    ],
)
def test_new_requests_and_own_doings_do_not_need_the_source(question: str) -> None:
    assert not plan(question).needs_source


@pytest.mark.parametrize(
    ("question", "mode", "operation"),
    [
        ("When did Nora repaint the boat?", "date", "temporal"),
        ("How long ago was Nora's graduation?", "duration", "temporal"),
        ("How many kayaks did I rent in the last month?", "count", "aggregate"),
        ("What languages does Nora speak?", "list", "aggregate"),
        ("Which course did I take first, the one on glass or the one on wood?", "short", "order"),
        ("What is the order of the concerts I attended?", "order", "order"),
        ("Would Nora be more interested in a ferry or a flight?", "yesno", "compare"),
        ("Is Bruno Nora's neighbour?", "yesno", "lookup"),
        ("Any tips for drying my hiking boots?", "advice", "lookup"),
        ("What colour did I paint the door?", "short", "lookup"),
        ("What song am I currently practising?", "short", "temporal"),
    ],
)
def test_mode_and_operation_follow_the_wording(question: str, mode: str, operation: str) -> None:
    made = plan(question)
    assert (made.mode, made.operation) == (mode, operation)


@pytest.mark.parametrize(
    "question",
    [
        "How many lighthouses have I visited?",
        "What do Nora and Ivar have in common?",
        "What mushrooms has Nora found with her brother?",
        "How many days passed between the race and the party?",
        "Can you suggest some routes for my bicycle?",
    ],
)
def test_what_many_memories_answer_together_is_composed_with_rewrites(question: str) -> None:
    made = plan(question)
    assert made.access is Access.COMPOSE
    assert 1 <= len(made.rewrites) <= 2


def test_a_rewrite_keeps_the_order_of_words_that_need_no_turning() -> None:
    made = plan_by_rules("How many days passed between the race and the party?", AT)
    assert made.rewrites[0] == "days passed between the race and the party"


def test_a_local_question_is_looked_up_without_rewrites() -> None:
    made = plan("Where did I leave the spare key?")
    assert made.access is Access.LOOKUP
    assert made.rewrites == ()


def test_a_remark_becomes_a_reply_with_views_of_what_may_lie_behind_it() -> None:
    made = plan("I agreed to run the choir's bake sale, and now I can't sleep.")
    assert made.mode == "reply"
    assert made.access is Access.COMPOSE
    assert any("choir" in rewrite for rewrite in made.rewrites)


@pytest.mark.parametrize(
    "remark",
    [
        "When the ferry stopped running, I took the long road and my hands shook all the way.",
        "Can you believe it snowed on the tulips?",
        "My cousin sold grandmother's clock and everyone shrugged—am I too sentimental?",
    ],
)
def test_a_story_that_begins_or_ends_like_a_question_is_still_a_remark(remark: str) -> None:
    assert plan(remark).mode == "reply"


def test_a_question_may_come_after_an_introduction() -> None:
    assert plan("According to Ivar, what makes a good knot for Nora?").mode != "reply"


def test_entities_are_names_quotations_and_what_the_question_is_about() -> None:
    made = plan('Did Nora read "The Summer Book" before the rowing regatta?')
    assert made.entities[:2] == ("The Summer Book", "Nora")
    assert "rowing regatta" in made.entities


def test_the_period_is_resolved_against_the_time_of_asking() -> None:
    assert str(plan("What fence did I mend last month?").period) == "2023-04"
    assert str(plan("What did Nora build in July 2022?").period) == "2022-07"
    assert str(plan("What colour did I paint the door?").period) == "unknown"


async def test_the_planner_makes_no_calls() -> None:
    planned = await RulesPlanner().plan("Who am I?", AT, limit=None)
    assert planned.calls == ()


@pytest.mark.parametrize(
    "question", ["", "?", "   ", "¿Dónde vive María?", "在哪里?", "word " * 5000, "🎉🎉", "a\0b"]
)
def test_any_text_has_a_plan(question: str) -> None:
    made = plan(question)
    assert len(made.rewrites) <= 2
    assert all(len(rewrite.split()) <= 45 for rewrite in made.rewrites)


@pytest.mark.parametrize(
    ("question", "mode", "spans"),
    [
        ("Which songs does Nora sing?", "list", True),
        ("Which songs move Nora?", "list", True),
        ("Which song moves Nora to tears?", "short", False),
        ("Which people work in Nora's bakery?", "list", True),
        ("What kind of pot did Nora make?", "short", False),
        ("What kinds of pots did Nora make?", "list", True),
        ("What dishes did Nora serve at the picnic?", "list", False),
        ("Which classes did Nora join in mid-August 2023?", "list", False),
        ("What topic has Nora been writing about?", "short", False),
        ("What topics has Nora written about?", "list", True),
        ("What is something that Nora misses?", "short", True),
        ("What recurring dream does Nora have?", "short", True),
        ("Do Nora and Tomas like the sea?", "yesno", True),
        ("What did Nora and Tomas eat on Sunday?", "short", False),
        ("How did Nora's knee trouble develop over the year?", "short", True),
    ],
)
def test_one_occasion_is_one_place_and_what_comes_again_is_many(
    question: str, mode: str, spans: bool
) -> None:
    assert (plan(question).mode, plan(question).spans_sessions) == (mode, spans)


def test_a_rewrite_leaves_out_how_it_is_asked() -> None:
    asked = "What is the order of the three races I ran in the past month, from earliest to latest?"
    assert plan(asked).rewrites[0] == "races ran"
    for word in ("order", "three", "month", "earliest"):
        assert all(word not in view for view in plan(asked).rewrites)


@pytest.mark.parametrize(
    ("asked", "view"),
    [
        ("What kinds of boats has Nora built?", "Nora built boats"),
        ("What type of bread do Nora and Tomas bake?", "Nora and Tomas bake bread"),
        (
            "What tricks do Nora and Tomas know, and how did they learn them?",
            "Nora and Tomas know tricks, they learn them",
        ),
        ("How many boats and who built them?", "boats, built them"),
    ],
)
def test_a_rewrite_reads_as_somebody_would_tell_it(asked: str, view: str) -> None:
    assert plan(asked).rewrites[0] == view


def test_words_that_go_together_are_found_by_their_forms_and_not_by_their_stems() -> None:
    assert "trail" in related(["hikes"])
    assert "gallery" in related(["museums"])
    assert not related(["care", "caring"])  # no cars
    assert "hiking" not in related(["activities", "hike"])
