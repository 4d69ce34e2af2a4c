"""Cards without a model: statements as they were said, with context, dates and turns."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.domain import Card, Session, Turn
from justmem.language.en.sentence_types import asks_memory, is_request, is_small_talk
from justmem.language.languages import LANGUAGES

AT = datetime(2025, 3, 10, 19, 30)  # a Monday


def people(*turns: tuple[str, str]) -> list[Card]:
    said = tuple(Turn(speaker=speaker, text=text) for speaker, text in turns)
    return LANGUAGES.cards(Session(id="s", at=AT, turns=said))


def chat(*texts: str) -> list[Card]:
    """User and assistant in turn."""
    turns = tuple(
        Turn(speaker="Assistant", role="assistant", text=text)
        if place % 2
        else Turn(speaker="User", text=text)
        for place, text in enumerate(texts)
    )
    return LANGUAGES.cards(Session(id="s", at=AT, turns=turns))


def test_a_statement_is_kept_as_it_was_said() -> None:
    (card,) = chat("I moved to Ghent last Saturday.", "Nice!")
    assert card.text == "User said: I moved to Ghent last Saturday."
    assert str(card.event_date) == "2025-03-08"
    assert (card.session_id, card.turns, card.said_at) == ("s", (1,), AT)


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        ("Nora said: I moved to Ghent.", "Nora moved to Ghent."),
        ("Nora said: My dog is ill.", "Nora's dog is ill."),
        ("Nora said: It rained.", "Nora: It rained."),
        ("Nora moved to Ghent.", "Nora moved to Ghent."),  # a model's card
    ],
)
def test_the_search_text_has_the_name_instead_of_i(text: str, searched: str) -> None:
    assert LANGUAGES.search_text(text) == searched


def test_an_answer_is_kept_with_its_question() -> None:
    (card,) = people(("Nora", "He is lovely! How old is he?"), ("Tomas", "Four. He used to race."))
    assert card.text == (
        'Tomas said: Four. He used to race. (asked "He is lovely! How old is he?")'
    )
    assert card.turns == (1, 2)


def test_a_statement_that_points_back_is_kept_with_what_it_points_at() -> None:
    first, second = people(("Nora", "I bought a deck oven."), ("Tomas", "That weighs a ton."))
    assert first.text == "Nora said: I bought a deck oven."
    assert second.text == 'Tomas said: That weighs a ton. (about "I bought a deck oven.")'


def test_a_photo_stays_with_what_was_said_about_it() -> None:
    (card,) = people(("Nora", "Look at my first loaf! [shared a photo: a photo of a rye loaf]"))
    assert card.text == "Nora said: Look at my first loaf! (photo: a rye loaf)"
    (alone,) = people(("Nora", "[shared a photo: a photo of a rye loaf]"))
    assert alone.text == "Nora said: [photo: a rye loaf]"
    (plain,) = people(("Nora", "Here is the plan. [file: plan.pdf] [audio]"))
    assert plain.text == "Nora said: Here is the plan."
    assert people(("Nora", "[file: plan.pdf]")) == []


def test_short_statements_share_a_card_and_long_ones_do_not() -> None:
    (card,) = people(("Nora", "Three of us. Plus the dog."))
    assert card.fact == "said: Three of us. Plus the dog."
    told = "I signed the lease for the bakery on Harbour Street at noon. "
    more = "My sister Ines will help me with the accounts from the first of June on."
    assert len(people(("Nora", told + more))) == 2


def test_a_date_is_not_passed_on_to_the_next_statement() -> None:
    moved, allergic = chat("I moved to Ghent last Saturday. I am allergic to walnuts.", "ok")
    assert str(moved.event_date) == "2025-03-08"
    assert str(allergic.event_date) == "unknown"


def test_what_is_asked_of_an_assistant_is_an_interaction_with_its_reply() -> None:
    (card,) = chat("Can you write a packing list for Oslo?", "1. Hat 2. Gloves")
    assert (card.kind, card.turns) == ("interaction", (1, 2))
    assert card.text == "User asked the assistant: Can you write a packing list for Oslo?"


def test_a_long_paste_is_one_card_with_its_beginning() -> None:
    text = "Please check this. " + "The engine starts and the valve opens slowly. " * 40
    (card,) = chat(text, "Done.")
    assert card.kind == "interaction"
    assert card.fact.startswith("asked the assistant: Please check this. The engine")
    assert card.fact.endswith("…")


def test_the_same_statement_twice_is_one_card() -> None:
    assert (
        len(chat("I am allergic to walnuts.", "Noted.", "I am allergic to walnuts.", "I know."))
        == 1
    )


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("Oh my god, congratulations!!!", True),
        ("Thanks, that sounds great!", True),
        ("Hey, good to hear from you!", True),
        ("So proud of you!", True),
        ("Wow, that's awesome.", True),
        ("ty, you are the best", True),
        ("Can't wait to hear about it!", True),
        ("i'm 34.", False),
        ("I have two kids.", False),
        ("Great, I got the job!", False),
        ("Emma is allergic to cats.", False),
        ("14th", False),
    ],
)
def test_small_talk_makes_no_card(text: str, small: bool) -> None:
    assert is_small_talk(text) is small
    assert len(chat(text, "You are welcome.")) == (0 if small else 1)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Give me a menu idea for one evening", True),
        ("ok now rewrite it in a friendlier tone", True),
        ("could you shorten it", True),
        ("how to clean a deck oven", True),
        ("Any tips for stairs", True),
        ("Plan of the week: swim on Monday", False),
        ("I made a plan", False),
        ("My wife is vegetarian", False),
    ],
)
def test_requests(text: str, wanted: bool) -> None:
    assert is_request(text) is wanted


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("where do I live?", True),
        ("what's my name?", True),
        ("When did I buy the bike?", True),
        ("Do you remember my sister?", True),
        ("What do you know about me?", True),
        ("How do I fix my bike?", False),
        ("What should I cook for my mum?", False),
        ("Can you write a mail to my boss?", False),
    ],
)
def test_questions_to_the_memory_make_no_card(text: str, memory: bool) -> None:
    assert asks_memory(text) is memory
    assert (chat(text, "Let me see.") == []) is memory


# ---------------------------------------------------------------- other languages, code, logs


@pytest.mark.parametrize(
    "text",
    [
        "for i in range(3):\n    total += tips[i]\nprint(total)",
        "2025-03-01 10:00:01 ERROR worker: failed\n2025-03-01 10:00:02 INFO worker: retry",
    ],
)
def test_code_and_logs_are_one_card(text: str) -> None:
    (card,) = chat(text, "Your loop skips the first item.")
    assert card.kind == "interaction"
    assert card.fact.removeprefix("asked the assistant: ").split() == text.split()


# ---------------------------------------------------------------- dates


@pytest.mark.parametrize(
    ("day", "text", "when"),
    [
        ("2025-04-27", "I've signed up for the Edinburgh half marathon on 25 May.", "2025-05-25"),
        ("2024-12-15", "I booked a table for Friday.", "2024-12-20"),
        ("2025-01-10", "I bought tickets for the concert on 3 March.", "2025-03-03"),
        ("2024-12-15", "I've got an interview at Kestrel on Thursday.", "2024-12-19"),
        ("2024-12-15", "I have an interview at Kestrel on Thursday.", "2024-12-19"),
        ("2024-04-21", "I booked the flight to Genoa, June 12.", "2024-06-12"),
        ("2025-01-09", "I promised to call Ana on Monday.", "2025-01-13"),
        ("2024-02-10", "My next goal is a half marathon in September.", "2024-09"),
        ("2025-01-10", "In two weeks I'm having knee surgery.", "2025-01-24"),
        ("2025-01-09", "My knee is fine again since December.", "2024-12"),
        ("2024-09-29", "Lorenzo's moving here in January.", "2025-01"),
        ("2024-11-21", "My mum's birthday is on 2 December.", "2024-12-02"),
        ("2025-05-27", "tomorrow i fly to rome", "2025-05-28"),
        ("2025-06-01", "On the 20th we have the inspection, I'm told.", "2025-06-20"),
        ("2025-03-10", "I was at the doctor on Monday.", "2025-03-03"),
        ("2025-03-10", "The Monday class was full.", "unknown"),
        ("2025-03-10", "Thursday, maybe.", "unknown"),
        ("2023-06-12", "They recharge me for the entire week.", "unknown"),
    ],
)
def test_the_date_of_a_statement(day: str, text: str, when: str) -> None:
    turns = (Turn(speaker="Ana", text=text), Turn(speaker="Ben", text="Good."))
    card = LANGUAGES.cards(Session(id="s", at=datetime.fromisoformat(day), turns=turns))[0]
    assert str(card.event_date) == when
    assert text in card.fact  # the date is never written into the words


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("I booked a table for Friday.", "planned"),
        ("I have signed up for the half marathon in May.", "planned"),
        ("I will be careful on the ladder.", "stable"),
        ("Wow, they look so cool overcoming obstacles!", "stable"),
        ("I can't wait to see the ladder.", "stable"),
        ("I'll always remember our trip last year.", "completed"),
        ("I have a dog.", "stable"),
        ("I have a cold since Monday.", "completed"),
        ("My sister has a doctor's appointment on Friday.", "planned"),
        ("I ran ten kilometres yesterday.", "completed"),
        ("I am allergic to walnuts.", "stable"),
        ("My new manager is Aisling.", "stable"),
    ],
)
def test_status(text: str, status: str) -> None:
    (card,) = chat(text, "ok")
    assert card.status == status


def test_cards_never_depend_on_the_order_of_dictionaries() -> None:
    text = "I moved to Ghent. My sister Ines is an accountant. I will bake rye bread on Sunday."
    assert chat(text, "ok") == chat(text, "ok")
