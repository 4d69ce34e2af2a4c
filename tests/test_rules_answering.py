"""Answers without a model: cut out of the cards, cited, and refused where support is weak."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from justmem.answering.rules import NOT_IN_MEMORY, RulesAnswerer, answer_by_rules
from justmem.answering.spans import age_in, durations_in
from justmem.answering.support import supported
from justmem.domain import Candidate, Card, EventDate, Evidence, Session, Source, Status, Turn
from justmem.language.en.questions import plan_by_rules
from justmem.ports import Reply
from stories import Make

ASKED = datetime(2023, 6, 1)


def card(
    fact: str,
    *,
    subject: str = "Nora",
    when: str = "unknown",
    said: str = "2023-05-08",
    status: Status = "stable",
) -> Card:
    return Card(
        id=f"c{abs(hash((subject, fact))):x}",
        subject=subject,
        fact=fact,
        event_date=EventDate.parse(when),
        status=status,
        session_id=said,
        said_at=datetime.fromisoformat(said),
        turns=(1,),
    )


def ask(
    question: str, cards: Sequence[Card], *, rerank: float = 6.0, sources: tuple[Source, ...] = ()
) -> Reply:
    chosen = tuple(
        Candidate(card=one, score=rerank, scores={"rerank": rerank - place * 0.01})
        for place, one in enumerate(cards)
    )
    evidence = Evidence(
        question=question,
        at=ASKED,
        plan=plan_by_rules(question, ASKED),
        chosen=chosen,
        sources=sources,
    )
    sessions = {
        one.session_id: Session(
            id=one.session_id,
            at=one.said_at,
            turns=(Turn(speaker=one.subject, text=f"I {one.fact}."),),
        )
        for one in cards
    }
    return answer_by_rules(evidence, sessions)


def test_when_is_answered_with_a_date_and_its_source() -> None:
    reply = ask(
        "When did Nora go to the choir?",
        [card("went to a choir", when="2023-05-07")],
    )
    assert reply.text.startswith("7 May 2023")
    assert reply.sufficient
    assert reply.citations[0].quote == "I went to a choir."


def test_when_is_answered_without_what_else_the_card_tells() -> None:
    told = "opens the bakery on 2 June 2023; is working hard to make it right (photo: an oven)"
    reply = ask("When does Nora open the bakery?", [card(told, when="2023-06-02")])
    assert reply.text == "Nora opens the bakery on 2 June 2023."


def test_when_keeps_what_leads_to_the_answer() -> None:
    told = "had news on 2 June 2023; the bakery is hers; is over the moon"
    reply = ask("When did Nora get the bakery?", [card(told, when="2023-06-02")])
    assert reply.text == "Nora had news on 2 June 2023; the bakery is hers."


def test_the_things_on_a_list_can_be_told_apart() -> None:
    museums = [card("visited the Design Museum; loved the chairs"), card("visited the Zoo Museum")]
    reply = ask("Which museums has Nora visited?", museums)
    assert reply.text == (
        "(1) Nora visited the Design Museum; loved the chairs; (2) Nora visited the Zoo Museum."
    )


def test_when_without_a_date_says_when_it_was_told() -> None:
    reply = ask("When did Nora lose her job?", [card("lost a job")])
    assert "told on 8 May 2023" in reply.text


def test_a_plan_is_replaced_by_a_later_plan() -> None:
    first = card("visits Bergen", when="2023-07-01", status="planned", said="2023-04-01")
    then = card("visits Bergen", when="2023-08-01", status="planned", said="2023-05-20")
    assert ask("When does Nora visit Bergen?", [first, then]).text.startswith("1 August 2023")


def test_what_happened_comes_before_what_was_planned() -> None:
    plan = card("visits Bergen", when="2023-05-01", status="planned", said="2023-04-01")
    done = card("visited Bergen", when="2023-05-12", status="completed", said="2023-05-20")
    assert ask("When did Nora visit Bergen?", [plan, done]).text.startswith("12 May 2023")
    assert ask("When will Nora visit Bergen?", [plan, done]).text.startswith("1 May 2023")


def test_a_date_that_was_put_off_is_replaced() -> None:
    race, moved = (
        card("is on 12 May 2023", subject="Nora's race", when="2023-05-12", said="2023-04-01"),
        card("was moved to 9 June 2023", subject="Nora's race", when="2023-06-09"),
    )
    assert "9 June 2023" in ask("When is Nora's race?", [race, moved]).text


def test_the_date_of_something_else_is_no_answer() -> None:
    told = card("learned to ride a horse")
    other = card("saw a horse in Rome", when="2023-05-02", said="2023-05-09")
    assert "No date was given" in ask("When did Nora learn to ride a horse?", [told, other]).text


def test_how_long_ago_is_computed_from_the_time_of_asking() -> None:
    reply = ask(
        "How many days ago did Nora harvest herbs?",
        [card("harvested herbs", when="2023-05-29")],
    )
    assert reply.text.startswith("3 days ago")


def test_the_time_between_two_events_is_computed() -> None:
    reply = ask(
        "How many days passed between the day I planted the herbs and the day I harvested them?",
        [
            card("planted the herbs", subject="User", when="2023-05-01", said="2023-05-01"),
            card("harvested the first batch", subject="User", when="2023-05-25"),
        ],
    )
    assert reply.text.startswith("24 days")
    assert len(reply.citations) == 2


def test_a_stated_duration_is_taken_as_stated() -> None:
    reply = ask("How long has Nora been married?", [card("has been married for 5 years")])
    assert reply.text.startswith("5 years")


@pytest.mark.parametrize(
    ("fact", "spans"),
    [
        ("studied in Hull from 2010 to 2016", ["6 years"]),
        ("studied in Hull between 2010 and 2011", ["1 year"]),
        ("was in Lisbon from 2 June 2025 to 9 June 2025", ["7 days"]),
        ("finished in 2 hours and 11 minutes", ["2 hours and 11 minutes"]),
        ("has painted since 2016", ["since 2016"]),
        ("has painted since she was ten", ["since she was ten"]),
        ("stayed a week in Rome", ["a week"]),
        ("runs twice a week", []),
        ("trains three times a week", []),
        ("pays 950 pounds a month", []),
        ("left two weeks ago", []),
    ],
)
def test_how_long_is_not_how_often(fact: str, spans: list[str]) -> None:
    assert [span for span, _ in durations_in(fact)] == spans


def test_a_duration_is_of_the_clause_that_is_asked_about() -> None:
    told = card("left the hospital after six years; has had the flu for two days")
    assert ask("How long did Nora have the flu?", [told]).text.startswith("Two days: ")
    assert ask("How long was Nora at the hospital?", [told]).text.startswith("Six years: ")


def test_of_two_durations_the_better_card_has_the_one() -> None:
    better = card("said the parents have been staying for nine months")
    other = card("asked whether parents staying in the US for two years need a visa")
    reply = ask("How long have Nora's parents been staying in the US?", [better, other])
    assert reply.text.startswith("Nine months: ")


@pytest.mark.parametrize(
    ("fact", "age"),
    [
        ("turned 7 on 1 September 2024", "7"),
        ("is 4 years old", "4"),
        ("has a dog, who is nearly twelve", "twelve"),
        ("has a 9-year-old cat", "9 year"),
        ("has a baby that is 5 months old", "5 months"),
        ("is two blocks away", ""),
        ("was 20 minutes late", ""),
        ("was one of the first", ""),
        ("is 3.5 points ahead", ""),
    ],
)
def test_an_age_is_told_from_other_numbers(fact: str, age: str) -> None:
    assert age_in(fact) == age


def test_how_old_is_answered_with_the_age_told_last() -> None:
    cards = [
        card("turned 6 on 1 May 2022", subject="Theo", said="2022-05-02"),
        card("turned 7 on 1 May 2023", subject="Theo", said="2023-05-02"),
    ]
    assert ask("How old is Theo?", cards).text.startswith("7: Theo turned 7")


def test_counting_names_the_distinct_things() -> None:
    reply = ask(
        "How many museums did I visit?",
        [
            card("visited the Science Museum", subject="User"),
            card("visited the Munch Museum in Oslo", subject="User", said="2023-05-09"),
            card("visited the Science Museum again", subject="User", said="2023-05-10"),
        ],
    )
    assert reply.text.startswith("2: ")
    assert "Science Museum" in reply.text
    assert "Munch Museum" in reply.text


def test_a_number_that_memory_states_is_not_counted_anew_and_the_latest_holds() -> None:
    reply = ask(
        "How many followers do I have?",
        [
            card("has 500 followers on Instagram", subject="User", said="2023-05-01"),
            card("has 600 followers on Instagram", subject="User", said="2023-05-20"),
        ],
    )
    assert reply.text.startswith("600")


def test_a_total_is_a_sum_with_all_that_was_added() -> None:
    cards = [
        card("spent €30 on a museum in Paris"),
        card("spent €70 on a room in Paris", said="2023-05-09"),
    ]
    reply = ask("How much did Nora spend in Paris in total?", cards)
    assert reply.text.startswith("€100 in total: (1) Nora spent €30")
    assert len(reply.citations) == 2


def test_an_amount_is_given_as_it_was_told() -> None:
    reply = ask("How much is Nora's rent?", [card("moved to York; the rent is 950 pounds a month")])
    assert reply.text.startswith("950 pounds: ")


def test_an_amount_is_never_the_number_of_cards() -> None:
    reply = ask("How much money has Nora got?", [card("has money"), card("saves money")])
    assert reply.text == "Nora has money."


def test_numbers_in_several_cards_are_shown_and_not_taken_for_the_total() -> None:
    courses = [card("took three courses on Coursera"), card("took two courses at a college")]
    reply = ask("How many courses did Nora take in total?", courses)
    assert reply.text.startswith("(1) Nora took three courses on Coursera; (2) ")


def test_one_card_is_no_count() -> None:
    reply = ask("How many museums did Nora visit?", [card("visited museums in Oslo")])
    assert reply.text == "Nora visited museums in Oslo."


def test_what_happened_at_another_time_is_not_counted() -> None:
    museums = [
        card("visited the Design Museum", when="2023-03-04"),
        card("visited the Zoo Museum", when="2023-03-20"),
        card("visited the Munch Museum", when="2023-04-11"),
    ]
    reply = ask("How many museums did Nora visit in March 2023?", museums)
    assert reply.text.startswith("2: ")
    assert "Munch" not in reply.text


def test_asked_of_the_present_the_newest_state_holds() -> None:
    old = card("works for Brightleaf", said="2023-04-01")
    new = card("works for Northwind", said="2023-05-20")
    assert ask("Who does Nora work for?", [old, new]).text == "Nora works for Northwind."
    assert ask("Who did Nora work for?", [old, new]).text == "Nora works for Brightleaf."


def test_who_moved_lives_there() -> None:
    cards = [
        card("lives in Leeds", said="2023-04-01"),
        card("moved to York", said="2023-05-20"),
    ]
    assert ask("Where does Nora live?", cards).text == "Nora moved to York."


def test_what_tells_of_less_is_not_a_newer_state() -> None:
    about = card("teaches maths at a school", said="2023-04-01")
    beside = card("walks past a school", said="2023-05-20")
    reply = ask("What is it that Nora teaches at school?", [about, beside])
    assert reply.text == "Nora teaches maths at a school."


def test_a_plan_does_not_replace_what_is() -> None:
    is_so = card("works for Brightleaf", said="2023-04-01")
    plan = card("plans to work for Northwind", said="2023-05-20", status="planned")
    assert "Brightleaf" in ask("Who does Nora work for?", [is_so, plan]).text


def test_the_latest_state_comes_with_what_it_replaced() -> None:
    reply = ask(
        "What book am I currently reading?",
        [
            card("is reading the book Dune", subject="User", said="2023-04-01"),
            card("is reading the book Emma", subject="User", said="2023-05-20"),
        ],
    )
    assert reply.text.index("Emma") < reply.text.index("Dune")
    assert "Before that, told on 1 April 2023" in reply.text


def test_which_came_first_is_settled_by_the_dates() -> None:
    reply = ask(
        "Which event happened first, the road trip or the boat show?",
        [
            card("went to the boat show", subject="User", when="2023-05-20", said="2023-05-21"),
            card("took a road trip", subject="User", when="2023-04-02"),
        ],
    )
    assert reply.text.startswith("First: User took a road trip")


def test_an_order_is_given_from_early_to_late() -> None:
    reply = ask(
        "What is the order of the races I ran?",
        [
            card("ran the harbour race", subject="User", when="2023-05-20", said="2023-05-21"),
            card("ran the forest race", subject="User", when="2023-04-02"),
        ],
    )
    assert reply.text.index("forest") < reply.text.index("harbour")


def test_yes_and_no_come_with_the_card() -> None:
    assert ask("Does Nora play guitar?", [card("plays guitar")]).text.startswith("Yes: ")
    assert ask("Does Nora eat meat?", [card("doesn't eat meat")]).text.startswith("No: ")


def test_a_card_that_does_not_say_so_is_shown_without_a_verdict() -> None:
    reply = ask("Does Nora have a dog?", [card("walks dogs in the park")])
    assert reply.text == "Memory does not say so outright. Nora walks dogs in the park."


def test_of_yes_and_no_the_later_holds_for_the_present() -> None:
    cards = [
        card("smokes a pipe", said="2023-04-01"),
        card("stopped smoking a pipe", said="2023-05-20"),
    ]
    assert ask("Does Nora smoke a pipe?", cards).text == "No: Nora stopped smoking a pipe."
    assert ask("Did Nora smoke a pipe?", cards).text == "Yes: Nora smokes a pipe."


async def test_we_and_our_are_of_the_one_who_asks(make: Make) -> None:
    memory = await make()
    talk = [
        {"speaker": "Mira", "text": "We adopted a dog named Rex."},
        {"speaker": "Theo", "text": "I adopted a dog named Bello."},
    ]
    await memory.remember(talk, at="2023-05-08")
    for speaker, dog in (("Mira", "Rex"), ("Theo", "Bello")):
        asked = await memory.ask("What dog did we adopt?", at=ASKED, speaker=speaker)
        assert asked.text == f"{speaker} adopted a dog named {dog}."
        ours = await memory.recall("What is our dog's name?", at=ASKED, speaker=speaker)
        assert dog in ours.chosen[0].card.fact


def test_a_judgement_is_not_made_up() -> None:
    reply = ask("Would Nora likely enjoy jazz music?", [card("loves music like jazz")])
    assert reply.text.startswith("Memory does not say so outright.")


def test_a_lookup_is_the_best_card_as_a_sentence() -> None:
    reply = ask("What did Nora adopt?", [card("adopted a cat named Pim")])
    assert reply.text == "Nora adopted a cat named Pim."


def test_exact_words_are_quoted_with_speaker_and_date() -> None:
    turns = (
        (1, Turn(speaker="user", text="Can you suggest a restaurant in Rome?")),
        (2, Turn(speaker="assistant", role="assistant", text="For dinner in Rome, try Da Piero.")),
    )
    source = Source(session_id="s9", at=datetime(2023, 5, 3), turns=turns)
    reply = ask("Remind me of the restaurant in Rome you recommended?", [], sources=(source,))
    assert reply.text == 'Assistant, 3 May 2023: "For dinner in Rome, try Da Piero."'
    assert (reply.citations[0].session_id, reply.citations[0].turn) == ("s9", 2)


def test_a_remark_is_answered_with_the_memories_that_bear_on_it() -> None:
    reply = ask(
        "I agreed to run the bake sale, and now I can't sleep.",
        [card("promised to take on fewer duties", subject="User")],
        rerank=-8.0,
    )
    assert "fewer duties" in reply.text
    assert reply.citations


def test_what_happened_on_the_very_day_asked_about_needs_less_support() -> None:
    (then, other) = (card("got a smoker", when="2023-05-22"), card("got a smoker", when="2023-04"))
    question = "What appliance did Nora get 10 days ago?"
    assert ask(question, [then], rerank=1.0).text.startswith("Nora got a smoker")
    assert not ask(question, [other], rerank=1.0).sufficient


def test_two_events_need_a_card_each_and_none_that_answers_alone() -> None:
    walk = card("joined the Walk for Hunger", when="2023-02-21", said="2023-02-22")
    cleanup = card("helped at the Coastal Cleanup", when="2023-03-07", said="2023-03-08")
    question = "How many days were there between the 'Walk for Hunger' and the 'Coastal Cleanup'?"
    reply = ask(question, [walk, cleanup], rerank=-9.0)
    assert reply.text.startswith("14 days: ")
    assert len(reply.citations) == 2
    assert not ask(question, [walk, card("likes tea")], rerank=-9.0).sufficient


def test_advice_is_given_what_bears_on_it_even_if_nothing_answers() -> None:
    cards = [card("has an iPhone 13"), card("wants a case with room for cards")]
    reply = ask("Can you suggest some accessories for my phone?", cards, rerank=-2.0)
    assert reply.text.startswith("What memory holds that bears on it: Nora has an iPhone 13.")
    assert not ask("Can you suggest a hotel in Miami?", cards, rerank=-9.0).sufficient


def test_words_that_nothing_at_hand_has_lower_support() -> None:
    told = card("likes tea and cake")
    assert ask("Does Nora like tea?", [told], rerank=2.0).sufficient
    assert not ask("Does Nora like tea from Ceylon gardens?", [told], rerank=2.0).sufficient
    beside = card("has Ceylon gardens on a picture", said="2023-05-09")
    question = "Does Nora like tea in gardens?"
    assert not ask(question, [told], rerank=2.3).sufficient
    assert ask(question, [told, beside], rerank=2.3).sufficient


def support(question: str, *cards: Card) -> float:
    """Of the first card, in the company of the others."""
    chosen = tuple(Candidate(card=one, scores={"rerank": 3.0}) for one in cards)
    plan = plan_by_rules(question, ASKED)
    found = supported(Evidence(question=question, at=ASKED, plan=plan, chosen=chosen))
    return next(one.support for one in found if one.card is cards[0])


def test_a_number_that_is_part_of_a_name_must_be_there() -> None:
    told = card("runs Postgres 16 on the server")
    sixteen = support("Where does Nora run Postgres 16?", told)
    assert sixteen - support("Where does Nora run Postgres 17?", told) > 2.0
    books = card("read books by Le Guin")
    counted, plain = "Which of the 5 books did Nora read?", "Which of the books did Nora read?"
    assert support(counted, books) > support(plain, books) - 1.5


def test_a_name_may_be_typed_in_lower_case() -> None:
    cards = [card("lives near Nora", subject="Ivar"), card("likes tea", said="2023-05-09")]
    assert ask("Where does Ivar live?", cards, rerank=4.0).sufficient
    assert not ask("Where does Nora live?", cards, rerank=4.0).sufficient
    assert not ask("where does nora live?", cards, rerank=4.0).sufficient


@pytest.mark.parametrize("rerank", [-8.0, 0.0])
def test_weak_support_is_no_answer(rerank: float) -> None:
    reply = ask("What country is Nora's neighbour from?", [card("likes tea")], rerank=rerank)
    assert (reply.text, reply.sufficient, reply.citations) == (NOT_IN_MEMORY, False, ())


def test_what_another_person_did_is_no_answer() -> None:
    cards = [
        card("realized after the rowing regatta that rest matters", subject="Ivar"),
        card("likes tea", subject="Nora", said="2023-05-09"),
    ]
    chosen = tuple(
        Candidate(card=one, scores={"rerank": logit})
        for one, logit in zip(cards, (7.0, -9.0), strict=True)
    )
    question = "What did Nora realize after her rowing regatta?"
    evidence = Evidence(
        question=question, at=ASKED, plan=plan_by_rules(question, ASKED), chosen=chosen
    )
    assert not answer_by_rules(evidence, {}).sufficient


def test_without_evidence_there_is_no_answer() -> None:
    assert ask("What is my name?", []).text == NOT_IN_MEMORY


async def test_the_answerer_makes_no_calls() -> None:
    question = "What is my name?"
    evidence = Evidence(question=question, at=ASKED, plan=plan_by_rules(question, ASKED))
    reply = await RulesAnswerer().answer(evidence, {}, limit=None)
    assert reply.calls == ()
