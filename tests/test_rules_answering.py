"""Answers without a model: cut out of the cards, cited, and refused where support is weak."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from justmem.answering.rules import NOT_IN_MEMORY, RulesAnswerer, answer_by_rules
from justmem.domain import Candidate, Card, EventDate, Evidence, Session, Source, Turn
from justmem.planning.rules import plan_by_rules
from justmem.ports import Reply

ASKED = datetime(2023, 6, 1)


def card(
    fact: str, *, subject: str = "Nora", when: str = "unknown", said: str = "2023-05-08"
) -> Card:
    return Card(
        id=f"c{abs(hash((subject, fact))):x}",
        subject=subject,
        fact=fact,
        event_date=EventDate.parse(when),
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
