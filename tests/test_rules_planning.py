"""The rules planner: what a person hears in the way a question is put."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.domain import Access
from justmem.planning.rules import RulesPlanner, plan_by_rules

AT = datetime(2023, 5, 25, 12, 0)


def plan(question: str):
    return plan_by_rules(question, AT)


@pytest.mark.parametrize(
    "question",
    [
        "Can you remind me of the name of the Italian restaurant in Rome you recommended?",
        "I think we discussed jobs for seniors earlier. What was the 7th job in the list?",
        "I'm checking our previous chat about the shift rotation. What was Admon's on a Sunday?",
        "Could you remind me of that dessert shop with the giant milkshakes?",
        "You mentioned tomato juice for dark circles. How long should I leave it on?",
        "What was Andy wearing in the script you wrote for the comedy scene?",
        "I'm trying to recall what the designation on my jumpsuit was in the story.",
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
        "Can you recommend some resources about video editing?",
        "Could you suggest a hotel for my trip to Miami?",
        "Who did I have a conversation with about destiny?",
        "How long was my last session with my therapist?",
        "Can you remind me what I bought for my sister?",
        "How many cakes have we made this year?",
        "What did I tell you about my job?",
        "When did Caroline go to the support group?",
    ],
)
def test_new_requests_and_own_doings_do_not_need_the_source(question: str) -> None:
    assert not plan(question).needs_source


@pytest.mark.parametrize(
    ("question", "mode", "operation"),
    [
        ("When did Melanie paint a sunrise?", "date", "temporal"),
        ("How long ago was Caroline's 18th birthday?", "duration", "temporal"),
        ("How many plants did I acquire in the last month?", "count", "aggregate"),
        ("What instruments does Melanie play?", "list", "aggregate"),
        ("Which trip did I take first, the one to Europe or the one to Asia?", "short", "order"),
        ("What is the order of the concerts I attended?", "order", "order"),
        ("Would Melanie be more interested in a park or a museum?", "yesno", "compare"),
        ("Is Oscar Melanie's pet?", "yesno", "lookup"),
        ("Any tips for keeping my kitchen clean?", "advice", "lookup"),
        ("What degree did I graduate with?", "short", "lookup"),
        ("What book am I currently reading?", "short", "temporal"),
    ],
)
def test_mode_and_operation_follow_the_wording(question: str, mode: str, operation: str) -> None:
    made = plan(question)
    assert (made.mode, made.operation) == (mode, operation)


@pytest.mark.parametrize(
    "question",
    [
        "How many movie festivals have I attended?",
        "What do Jon and Gina have in common?",
        "What activities has Melanie done with her family?",
        "How many days passed between the race and the party?",
        "Can you suggest some accessories for my camera?",
    ],
)
def test_what_many_memories_answer_together_is_composed_with_rewrites(question: str) -> None:
    made = plan(question)
    assert made.access is Access.COMPOSE
    assert 1 <= len(made.rewrites) <= 2


def test_a_local_question_is_looked_up_without_rewrites() -> None:
    made = plan("Where did I redeem a $5 coupon on coffee creamer?")
    assert made.access is Access.LOOKUP
    assert made.rewrites == ()


def test_a_remark_becomes_a_reply_with_views_of_what_may_lie_behind_it() -> None:
    made = plan("I ended up volunteering for that project, and now I'm totally overwhelmed.")
    assert made.mode == "reply"
    assert made.access is Access.COMPOSE
    assert any("volunteering" in rewrite for rewrite in made.rewrites)


@pytest.mark.parametrize(
    "remark",
    [
        "When HR announced that training, I signed up immediately because I never want to freeze.",
        "Can you believe they charge that much for a car key?",
        "My sister bent the story and everyone praises her—am I old-fashioned?",
    ],
)
def test_a_story_that_begins_or_ends_like_a_question_is_still_a_remark(remark: str) -> None:
    assert plan(remark).mode == "reply"


def test_a_question_may_come_after_an_introduction() -> None:
    assert plan("According to Evan, what is important for Sam to believe in?").mode != "reply"


def test_entities_are_names_quotations_and_what_the_question_is_about() -> None:
    made = plan('Did Caroline read "Becoming Nicole" before the charity race?')
    assert made.entities[:2] == ("Becoming Nicole", "Caroline")
    assert "charity race" in made.entities


def test_the_period_is_resolved_against_the_time_of_asking() -> None:
    assert str(plan("What certification did I complete last month?").period) == "2023-04"
    assert str(plan("What did Mel paint in July 2022?").period) == "2022-07"
    assert str(plan("What degree did I graduate with?").period) == "unknown"


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
