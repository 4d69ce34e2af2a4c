"""The rules planner: tables of questions and what is heard in them."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.domain import Access, Plan
from justmem.language.languages import LANGUAGES

AT = datetime(2023, 5, 25, 12, 0)


def plan(question: str) -> Plan:
    return LANGUAGES.plan(question, AT)


NEED_THE_SOURCE = """
Can you remind me of the campsite near Bergen you recommended?
We talked about garden sheds the other day. Which one was the cheapest?
In our last conversation about bread, what temperature was given?
Could you remind me of the third step for oiling a bicycle chain?
You mentioned soaking the beans first. For how long?
What was the dragon called in the fairy tale you wrote?
What was the phone number that you provided me earlier?
What exactly did Maria say about the move?
Quote the answer word for word.
What did you say was the second step?
"""
NEED_NO_SOURCE = """
Can you recommend some books about beekeeping?
Could you suggest a tent for my trip to Iceland?
Who did I have a conversation with about chess?
How long was my last session with my therapist?
Can you remind me what I bought for my sister?
How many cakes have we made this year?
What did I tell you about my job?
When did Nora join the choir?
"""


@pytest.mark.parametrize("question", NEED_THE_SOURCE.strip().splitlines())
def test_what_was_told_before_or_word_for_word_needs_the_source(question: str) -> None:
    assert plan(question).access is Access.REPLAY


@pytest.mark.parametrize("question", NEED_NO_SOURCE.strip().splitlines())
def test_new_requests_and_facts_do_not_need_the_source(question: str) -> None:
    assert not plan(question).needs_source


# question | operation | spans sessions
FORMS = """
When did Nora repaint the boat? | temporal | no
By when do I have to pay the rent? | temporal | no
How long ago was Nora's graduation? | temporal | no
How many days passed between the race and the party? | temporal | no
How many kayaks did I rent in the last month? | aggregate | yes
How many times has Nora been to Oslo? | aggregate | yes
What languages does Nora speak? | aggregate | yes
Which songs move Nora? | aggregate | yes
Which song moves Nora to tears? | lookup | no
Which people work in Nora's bakery? | aggregate | yes
What kind of pot did Nora make? | lookup | no
What kinds of pots did Nora make? | aggregate | yes
What types of yoga has Nora practised? | aggregate | yes
What topics has Nora written about? | aggregate | yes
What films have both Nora and Tomas seen? | compare | yes
What do Nora and Ivar have in common? | compare | yes
What did Nora and Tomas eat on Sunday? | lookup | no
Which course did I take first, the one on glass or the one on wood? | order | yes
What is the order of the concerts I attended? | order | yes
Would Nora be more interested in a ferry or a flight? | compare | yes
Is Bruno Nora's neighbour? | lookup | no
Any tips for drying my hiking boots? | advice | yes
What colour did I paint the door? | lookup | no
What song am I currently practising? | temporal | no
whats my name | lookup | no
whos my boss rn | temporal | no
whats the right order: the flood, the move, the wedding | order | yes
"""


@pytest.mark.parametrize("row", FORMS.strip().splitlines())
def test_the_wording_says_what_is_asked_for(row: str) -> None:
    question, operation, spans = row.split(" | ")
    made = plan(question)
    assert made.operation == operation
    assert made.spans_sessions is (spans == "yes")
    assert bool(made.rewrites) <= made.spans_sessions


@pytest.mark.parametrize(
    ("remark", "word"),
    [
        ("I agreed to run the choir's bake sale, and now I can't sleep.", "choir"),
        ("My cousin sold grandmother's clock and all shrugged—am I too sentimental?", "clock"),
    ],
)
def test_a_remark_is_searched_for_what_may_lie_behind_it(remark: str, word: str) -> None:
    made = plan(remark)
    assert (made.operation, made.access) == ("reply", Access.COMPOSE)
    assert len(made.rewrites) == 2
    assert all(word in view for view in made.rewrites)


@pytest.mark.parametrize("said", ["hi", "thanks!", "Good morning", "ok, sounds great"])
def test_small_talk_is_not_searched_for_reasons(said: str) -> None:
    assert (plan(said).operation, plan(said).rewrites) == ("reply", ())


def test_a_question_may_come_after_an_introduction() -> None:
    assert plan("According to Ivar, what makes a good knot for Nora?").operation != "reply"


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("What fence did I mend last month?", "2023-04"),
        ("What did Nora build in July 2022?", "2022-07"),
        ("What colour did I paint the door?", "unknown"),
    ],
)
def test_the_period_is_resolved_against_the_time_of_asking(question: str, period: str) -> None:
    assert str(plan(question).period) == period


@pytest.mark.parametrize(
    "question",
    [
        "Wo wohnt meine Schwester, seit sie aus dem alten Haus ausgezogen ist?",
        "¿Dónde vive mi hermana con los niños y el perro?",
        "在哪里?",
    ],
)
def test_no_english_rule_is_applied_to_another_language(question: str) -> None:
    assert plan(question) == Plan()


@pytest.mark.parametrize("question", ["", "?", "   ", "word " * 5000, "🎉🎉", "a\0b"])
def test_any_text_has_a_plan(question: str) -> None:
    made = plan(question)
    assert len(made.rewrites) <= 2
    assert all(len(rewrite.split()) <= 45 for rewrite in made.rewrites)
