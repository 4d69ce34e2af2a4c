"""Answers in the very words of a reply: all of what is asked for, and no more."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.answering.quoting import quotation
from justmem.answering.rules import answer_by_rules
from justmem.answering.stretches import stretch_asked_for
from justmem.domain import Candidate, Evidence, Session, Source, Turn
from justmem.extraction.rules import extract_by_rules
from justmem.language.en.questions import plan_by_rules
from justmem.ports import Reply

AT = datetime(2025, 3, 4)
REPLY = """Sure! Here are some quick desserts that need no oven:

1. Chocolate mousse
2. Lemon fridge cake
   - 100 g butter
   - 2 lemons
3. Tiramisu cups

Enjoy your dinner party, and tell me whether anybody has allergies, so that I can change these.

### Lentil and Sweet Potato Curry

**Ingredients**
- 200 g lentils
- 2 sweet potatoes

**Steps**
1. Fry.
2. Simmer.

### Rice
Cook it.

| Day | Place | Sights |
|---|---|---|
| 4 | Porto | Ribeira |
| 5 | Sintra | Pena |

Enable the worker with this command:

```bash
systemctl daemon-reload
systemctl enable --now worker
```
"""
CURRY = REPLY[REPLY.index("### Lentil") : REPLY.index("\n\n### Rice")]
COMMAND = REPLY[REPLY.index("Enable the") :].rstrip()
DESSERTS = REPLY[: REPLY.index("\n\nEnjoy")]


@pytest.mark.parametrize(
    ("question", "stretch"),
    [
        ("What was the third dessert you suggested?", "3. Tiramisu cups"),
        ("What was the last dessert on your list?", "3. Tiramisu cups"),
        ("What was the 2nd step of the curry?", "2. Simmer."),
        ("What did you recommend for day 5 of the trip?", "| 5 | Sintra | Pena |"),
        ("Remind me of the lentil and sweet potato curry you gave me.", CURRY),
        ("Which command enables the worker?", COMMAND),
        ("Which quick desserts need no oven?", DESSERTS),
        (
            "How much butter goes into the lemon fridge cake?",
            "2. Lemon fridge cake\n   - 100 g butter\n   - 2 lemons",
        ),
        ("What about allergies at the party?", REPLY.split("\n\n")[2]),
    ],
)
def test_a_stretch_is_all_that_is_asked_for(question: str, stretch: str) -> None:
    start, end = stretch_asked_for(question, REPLY)
    assert REPLY[start:end] == stretch


def test_one_item_brings_its_list_where_a_list_is_asked_for() -> None:
    start, end = stretch_asked_for("Which had tiramisu?", REPLY, whole_list=True)
    assert REPLY[start:end].startswith("1. Chocolate mousse")
    assert REPLY[start:end].endswith("3. Tiramisu cups")


@pytest.mark.parametrize("mark", ["|", "- ", "# ", "```\n", "1. ", ":\n", "**a**\n", " " * 50])
def test_any_shape_has_a_stretch(mark: str) -> None:
    text = f"{mark}worker {mark * 300}\n{mark}the third step"
    start, end = stretch_asked_for("What was the third step for the worker?", text)
    assert 0 <= start < end <= len(text)


def source(*said: tuple[str, str]) -> Source:
    return Source(
        session_id="s1",
        at=AT,
        turns=tuple((n, Turn(speaker=who, text=text)) for n, (who, text) in enumerate(said, 1)),
    )


def quoted(question: str, *said: tuple[str, str]) -> str:
    plan = plan_by_rules(question, AT)
    evidence = Evidence(question=question, at=AT, plan=plan, sources=(source(*said),))
    reply = quotation(evidence)
    return reply.citations[0].quote if reply else ""


def test_the_words_of_whom_the_question_names() -> None:
    said = (
        ("Walter", "How do whales sleep, Isla?"),
        ("Isla", "Upright, with half of the brain at a time."),
        ("Walter", "I sold the Rover, Isla."),
    )
    assert quoted("What exactly did Isla say about how whales sleep?", *said) == said[1][1]


def test_no_words_about_what_is_not_named_there() -> None:
    said = (("assistant", "Welcome back! That sounds like a wonderful trip to recommend."),)
    assert quoted("What did you recommend for my trip to Italy?", *said) == ""


def test_the_sentence_that_asks_counts_more_than_what_leads_up_to_it() -> None:
    long = "The Lost Temple of the Djinn is a one-shot for four. " + "It is old. " * 20
    said = (("assistant", f"{long}The party will face nine mummies and a golem."),)
    question = (
        "I'm going back to our chat about the Lost Temple of the Djinn one-shot. "
        "How many mummies will the party face?"
    )
    assert quoted(question, *said) == "The party will face nine mummies and a golem."


def asked_again(question: str) -> Reply:
    request = "Write a systemd unit for the worker."
    session = Session(
        id="s1",
        at=AT,
        turns=(
            Turn(speaker="user", role="user", text=request),
            Turn(speaker="assistant", role="assistant", text="[Unit]\nDescription=Worker"),
        ),
    )
    [card] = extract_by_rules(session)
    evidence = Evidence(
        question=question,
        at=AT,
        plan=plan_by_rules(question, AT),
        chosen=(Candidate(card=card, score=8.0, scores={"rerank": 8.0}),),
    )
    return answer_by_rules(evidence, {"s1": session})


def test_who_asks_again_gets_the_reply_and_not_the_request() -> None:
    reply = asked_again("Which systemd unit does the worker have?")
    assert reply.text == 'Assistant, 4 March 2025: "[Unit]\nDescription=Worker"'
    assert reply.citations[0].turn == 2


def test_where_and_when_may_ask_for_the_request_itself() -> None:
    assert "[Unit]" not in asked_again("When was the systemd unit for the worker written?").text
    assert "[Unit]" in asked_again("Where can I get a systemd unit for the worker?").text


def test_a_word_of_asking_is_no_name() -> None:
    said = (("assistant", "For dinner try the trattoria by the river."),)
    assert quoted("Which trattoria? Remind me, for dinner by the river.", *said) == said[0][1]


def test_what_leads_up_to_a_question_does_not_choose_the_words() -> None:
    soup = "1. Soften an onion.\n2. Add red lentils and a litre of stock for the soup, and salt.\n"
    soup += "3. Simmer for 20 minutes, and stir now and then.\n4. Stir in the juice of two lemons."
    question = "In the lentil soup you gave me, how many lemons did you say to use?"
    assert quoted(question, ("assistant", soup)) == "4. Stir in the juice of two lemons."


def test_advice_is_asked_for_anew() -> None:
    reply = asked_again("Can you suggest a systemd unit for the worker?")
    assert reply.text.startswith("What memory holds that bears on it: ")
