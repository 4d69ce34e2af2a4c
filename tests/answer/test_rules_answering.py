"""Answers without a model: quotations with their dates.

Each row is a history, a question, what the answer must contain and what it must not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from justmem.domain import Candidate, Evidence, Session, Turn
from justmem.language.en.answers import CLOSEST
from justmem.language.en.excerpts import find_excerpt
from justmem.language.languages import LANGUAGES
from justmem.ports import NOT_IN_MEMORY, Reply
from stories import Make

ASKED = datetime(2025, 6, 20)
Said = tuple[str, str]  # a day, and the user's words or "Name: words"


def session_of(day: str, said: str) -> Session:
    turns = []
    for line in said.split("\n"):
        name, colon, words = line.partition(": ")
        named = bool(colon) and name.isalpha() and name[0].isupper()
        role = "assistant" if name == "Assistant" else "user"
        turns.append(Turn(speaker=name if named else "User", role=role,
                          text=words if named else line))  # fmt: skip
    return Session(id=day, at=datetime.fromisoformat(day), turns=tuple(turns))


def ask(
    question: str,
    said: Sequence[Said],
    *,
    rerank: float = 3.0,
    newest: float | None = None,
    speaker: str = "User",
) -> Reply:
    """All cards are found, the oldest first, all as close to the question, except the newest
    where it has a closeness of its own."""
    sessions = {day: session_of(day, words) for day, words in said}
    cards = [card for session in sessions.values() for card in LANGUAGES.cards(session)]
    close = [rerank] * len(cards)
    if newest is not None:
        close[-1] = newest
    evidence = Evidence(
        question=question,
        at=ASKED,
        speaker=speaker,
        plan=LANGUAGES.plan(question, ASKED),
        chosen=tuple(
            Candidate(card=one, score=1.0, scores={"rerank": near})
            for one, near in zip(cards, close, strict=True)
        ),
    )
    reply = LANGUAGES.answer(evidence, sessions)
    for cited in reply.citations:
        words = sessions[cited.session_id].turn(cited.turn).text
        assert cited.quote == words[cited.start : cited.end]
    return reply


GRAZ = [("2025-01-10", "I live in Graz."), ("2025-02-10", "We moved to Vienna yesterday.")]
JOB = [("2025-01-10", "I work at Siemens."), ("2025-02-10", "I quit Siemens and started at Bosch.")]
QUIT = [("2025-01-10", "I work at Siemens."), ("2025-02-10", "I quit Siemens.")]
MOVED_ON = [
    ("2025-01-10", "I work at Siemens."),
    ("2025-02-10", "I got the Bosch job!"),
    ("2025-02-12", "I resigned from Siemens and quit Facebook."),
]
BOSS = [("2025-01-10", "My manager is Tom."), ("2025-02-10", "My new manager is Aisling.")]
MISO = [("2025-01-10", "Miso weighs 5.4 kg."), ("2025-02-10", "Miso's on 5.1 kilos now.")]
RACE = [
    (
        "2025-04-27",
        "I ran my first race in two years today, the Meadows 10k, in 57:12! I've signed up for the"
        " Edinburgh half marathon on 25 May.",
    )
]
STREET = [
    ("2025-01-10", "I live on Church Street now and I hear the bell at night."),
    ("2025-02-10", "My sister lives in Cardiff."),
    ("2025-03-10", "I said yes to the room. I moved to Sandsend last Saturday."),
]
VET = [*MISO, ("2025-03-10", "Miso's at 4.9 by the way. He has to see the vet on 13 October.")]
CAT = [("2025-01-10", "We adopted a cat, about 2 years old. We paid £95 for the adoption.")]
LUMEN = [
    ("2024-09-03", "I work as a product designer at Lumen Health. I've been there for 4 years."),
    ("2024-09-19", "I hurt my left knee on Sunday."),
    ("2025-01-09", "I handed in my notice at Lumen today."),
]
ELIF = [
    (
        "2025-01-10",
        "Marco: How does Elif feel about a dog in the shop?\nDana: She's scared of dogs.",
    ),
    ("2025-02-10", "Dana: Elif loves Turbo now, she walks him every morning."),
]
NORTHGATE = [
    ("2023-05-08", "Marco: I'm still teaching physics at Westfield High."),
    ("2024-02-11", "Marco: I said yes to Northgate. Starting after the Easter break, on April 8."),
    ("2024-04-21", "Marco: New job is intense but good."),
]
LISBON = [
    ("2024-02-25", "I ran the Lisbon 10K yesterday in 58 minutes. It was my first race ever."),
    ("2024-05-12", "I ran my second race today, the Porto 15K, in 90 minutes."),
]
KNEE = [
    (
        "2024-10-17",
        "I fell off the wall on Saturday and my left knee is a balloon.\nAssistant: Ouch."
        "\nwait no, the right knee.",
    )
]

CASES = [
    # the newest state first, with the older one marked
    (GRAZ, "Where do I live now?", 'User, 10 February 2025: "We moved', ""),
    (GRAZ, "Where do I live?", 'earlier: User, 10 January 2025: "I live', "\nUser, 10 January"),
    (JOB, "Where do I work?", 'earlier: User, 10 January 2025: "I work', "\nUser, 10 January"),
    (QUIT, "Where do I work?", 'earlier: User, 10 January 2025: "I work', "\nUser, 10 January"),
    (MOVED_ON, "Where do I work?", 'User, 10 February 2025: "I got', "resigned"),
    (MOVED_ON, "Where do I work?", 'earlier: User, 10 January 2025: "I work', "\nUser, 10 January"),
    (BOSS, "Who is my manager?", 'earlier: User, 10 January 2025: "My', "\nUser, 10 January"),
    (MISO, "How much does Miso weigh?", 'earlier: User, 10 January', "\nUser, 10 January"),
    (NORTHGATE, "Where does Marco work now?", 'Marco, 11 February 2024: "I said yes', "(said"),
    # no number without its unit or its noun
    (CAT, "How much did we pay to adopt the cat?", "£95", "2:"),
    (LUMEN, "How long was I at Lumen Health before I left?", "for 4 years", "12 days"),
    (LISBON, "How many races did I run?", "Porto 15K", "58:"),
    ([("2025-01-10", "I have two kids.")], "How many kids do I have?", "two kids", ""),
    # each event of an order, by its date
    (JOB + CAT, "Put these in order: the cat, my job at Bosch", "cat", "Siemens.\"\n"),
    # neither planned nor nearly done is done
    (RACE, "Did I finish the half marathon?", "signed up", "Yes"),
    ([("2024-10-06", "I almost bought a boat.")], "Did I buy a boat?", "almost", "Yes"),
    ([("2025-01-10", "I sold my car last week.")], "Do I have a car?", "sold", "Yes"),
    ([("2025-01-10", "I walked a dog yesterday.")], "Do I have a dog?", "walked", "Yes"),
    ([("2025-01-10", "I run the Porto race on 25 May.")], "Did I run the Porto race?", "25 May",
     "Yes"),
    ([("2025-01-10", "My friend Tom has a dog.")], "Do I have a dog?", CLOSEST, ""),
    ([("2025-01-10", "My partner Jonas is allergic to cats.")], "What am I allergic to?", CLOSEST,
     ""),
    ([("2025-01-10", "My goal is a half marathon in March.")], "What are my goals for next year?",
     CLOSEST, ""),
    ([("2025-01-10", "I don't eat meat.")], "Do I eat meat?", "don't", "Yes"),
    ([("2025-01-10", "Marco: Giulia's vegan.")], "Is Giulia vegan?", "vegan", "Yes"),
    ([("2025-01-10", "Marco: Giulia's vegan.")], "Is Marco vegan?", "Giulia", "Yes"),
    ([("2025-01-10", "Giulia's vegan.")], "Am I vegan?", "Giulia", "Yes"),
    ([("2025-01-10", "I think my sister is vegan.")], "Am I vegan?", "sister", "Yes"),
    (ELIF, "Is Elif scared of Turbo?", 'Dana, 10 February 2025: "Elif loves Turbo now', "Yes"),
    # the right subject, and nothing that memory does not hold
    (RACE, "When did I run the London marathon?", NOT_IN_MEMORY, "Meadows"),
    (GRAZ, "What's my blood type?", NOT_IN_MEMORY, "Graz"),
    ([("2025-01-10", "I bought tickets for the concert on 3 March.")], "When is the concert?",
     "3 March", "2024"),
    ([("2025-01-10", "We adopted a cat in May 2023.")], "When did we adopt the cat?",
     "(date: May 2023)", ""),
    # the date of the event, unless it is the day of the statement
    (GRAZ, "When did we move to Vienna?", '"We moved to Vienna yesterday." (date: 9 February 2025)',
     ""),
    ([("2025-01-10", "I sold my car last week.")], "When did I sell my car?",
     "(date: 30 December 2024 to 5 January 2025)", ""),
    (RACE, "When did I run the Meadows 10k?", "today", "(date: 27 April 2025)"),
    # who somebody is
    ([*ELIF, ("2025-03-01", "Dana: Elif bought a van.")], "Who is Elif?",
     'Dana, 1 March 2025: "Elif bought a van."\nDana, 10 February', ""),
    ([("2025-06-01", "Hi, I'm Priya and I have two kids.")], "What's my name?", "Priya", ""),
    (GRAZ, "What do you know about me?", "I live in Graz.", NOT_IN_MEMORY),
    # the newest value of a state, also in other words than the question's
    (STREET, "Where do I live now?", 'User, 10 March 2025: "', "Cardiff"),
    (STREET, "Where do I live?", 'earlier: User, 10 January 2025: "', "Cardiff"),
    (STREET, "Where does my sister live?", "Cardiff", "Sandsend"),
    (VET, "How much does Miso weigh?", 'User, 10 March 2025: "Miso\'s at 4.9', ""),
    # a correction follows what it corrects
    (KNEE, "Which knee did I hurt?", 'corrected: User, 17 October 2024: "wait no, the right knee."',
     ""),
    ([("2024-10-17", "Marco: I bought a red bike.\nDana: wait, what colour is it?")],
     "What colour is Marco's bike?", "red", "corrected"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "question", "expected", "never"), CASES)
def test_answers(said: Sequence[Said], question: str, expected: str, never: str) -> None:
    speaker = "Marco" if "Marco" in question else "User"
    reply = ask(question, said, speaker=speaker)
    assert expected in reply.text
    assert not never or never not in reply.text
    assert reply.sufficient == (reply.text != NOT_IN_MEMORY)
    assert bool(reply.citations) == reply.sufficient


def test_the_past_is_asked_about() -> None:
    first, second = ask("Where did I live before?", GRAZ).text.splitlines()
    assert "Graz" in first
    assert "Vienna" in second


def test_at_most_three_quotations_of_different_turns() -> None:
    said = [(f"2025-01-{day:02}", f"I planted {kind} beans in the garden.")
            for day, kind in enumerate(("red", "white", "black", "green", "broad"), 1)]  # fmt: skip
    assert len(ask("Why are there beans in the garden?", said).citations) == 3


def test_statements_that_may_not_answer_say_so() -> None:
    said = [("2025-01-10", "The bank approved us for 480."), ("2025-02-10", "The mortgage is 4 %.")]
    question = "Which bank do we have the mortgage with?"
    assert ask(question, said, rerank=-3.0).text.startswith(CLOSEST)
    assert CLOSEST not in ask(question, said, rerank=9.0).text


def test_small_talk_asks_for_nothing() -> None:
    assert ask("thanks, you are great!", GRAZ).text == NOT_IN_MEMORY


REPLY = """Here are some quick desserts:

1. Chocolate mousse
2. Lemon fridge cake
   with 100 g butter
3. Tiramisu cups

Tell me whether anybody has allergies, so that I can change these before the party starts. I can
also turn the list into a shopping list for you, sorted by the aisles of your supermarket.

```python
def half(x):
    return x / 2
```
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What was number 2 on the list?", "2. Lemon fridge cake\n   with 100 g butter"),
        ("Which was the third dessert?", "3. Tiramisu cups"),
        ("What was the function you wrote?", "```python\ndef half(x):\n    return x / 2\n```"),
        ("What did you say about allergies?", "Tell me whether anybody has allergies"),
    ],
)
def test_an_excerpt_is_what_was_asked_for(question: str, expected: str) -> None:
    start, end = find_excerpt(question, REPLY)
    assert REPLY[start:end].startswith(expected)
    if "allergies" not in question:
        assert REPLY[start:end] == expected


async def test_turns_of_a_session_without_cards_are_answered_from(make: Make) -> None:
    memory = await make()
    said = [{"role": "user", "content": "I am allergic to walnuts."}]
    await memory.keep(said, at="2025-01-10", id="pending")
    answer = await memory.ask("What am I allergic to?", at="2025-01-12")
    assert answer.text == 'User, 10 January 2025: "I am allergic to walnuts."'
    [note] = answer.receipt.notes
    assert note == "1 session waits for its cards: its turns were searched by their words"
    assert "I am allergic" not in (await memory.ask("What am I allergic to?", at="2025-01-09")).text

    await memory.retry()
    answer = await memory.ask("What am I allergic to?", at="2025-01-12")
    assert "walnuts" in answer.text
    assert not any("waits" in note for note in answer.receipt.notes)


@pytest.mark.parametrize(
    ("said", "question", "first"),
    [
        (GRAZ, "Where do I live?", "We moved to Vienna"),
        (JOB, "Who do I work for?", "started at Bosch"),
        (BOSS, "Who is my manager?", "Aisling"),
        (MISO, "How much does Miso weigh?", "5.1 kilos"),
        (GRAZ, "Where did I live before?", "I live in Graz"),
    ],
)
def test_what_replaced_a_quoted_statement_is_quoted_too(
    said: list[Said], question: str, first: str
) -> None:
    """Even if it has none of the words that were asked for."""
    reply = ask(question, said, newest=-8.0)
    lines = [line for line in reply.text.splitlines() if line != CLOSEST]
    assert first in lines[0]
    assert len(lines) == 2


async def test_a_corrected_card_is_shown_with_its_correction(make: Make) -> None:
    memory = await make()
    await memory.remember("The roof is done on the 25th.", at="2025-09-12")
    (card,) = await memory.cards()
    card = await memory.correct(card.id, fact="said: The roof is done on the 26th.")
    answer = await memory.ask("When is the roof done?", at="2025-09-14")
    words = 'The words were: User, 12 September 2025: "The roof is done on the 25th."'
    assert answer.text == f"User: The roof is done on the 26th. Corrected by hand. {words}"
    assert answer.evidence.corrected == (card.id,)
    assert "The roof is done on the 26th. (corrected)" in answer.evidence.prompt()
    await memory.correct(card.id, fact="gets a roof on the 27th")
    answer = await memory.ask("When is the roof done?", at="2025-09-14")
    assert answer.text == f"User gets a roof on the 27th. Corrected by hand. {words}"


def test_a_corrected_card_stands_for_its_whole_turn() -> None:
    session = session_of("2025-02-16", "We bought a house on Slayter Street. It cost 462,000.")
    card, *more = LANGUAGES.cards(session)
    price = card.model_copy(update={"id": "new", "fact": "said: It cost 426,000.", "turns": (1,)})
    chosen = tuple(Candidate(card=one, scores={"rerank": 3.0}) for one in (card, *more))
    evidence = Evidence(
        question="What did the house cost?",
        at=ASKED,
        plan=LANGUAGES.plan("What did the house cost?", ASKED),
        chosen=chosen,
        candidates=(*chosen, Candidate(card=price)),
        corrected=("new",),
    )
    text = LANGUAGES.answer(evidence, {session.id: session}).text
    assert "It cost 426,000. Corrected by hand. The words were:" in text
