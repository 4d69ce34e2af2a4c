"""First person to third, so that a question meets the cards that answer it."""

import pytest

from justmem.language.en.speaker import is_first_person, name_speaker


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("What am I allergic to?", "What is Mira allergic to?"),
        ("Where do I live?", "Where does Mira live?"),
        ("Have I ever been to Rome?", "Has Mira ever been to Rome?"),
        ("What's my cat's name?", "What's Mira's cat's name?"),
        ("Can you remind me what I bought?", "Can you remind me what Mira bought?"),
        ("How did Ana meet me?", "How did Ana meet Mira?"),
        ("Where did we go skiing?", "Where did Mira go skiing?"),
        ("Who visited us in the US?", "Who visited Mira in the US?"),
        ("What are we planning?", "What is Mira planning?"),
        ("What breed is our dog?", "What breed is Mira's dog?"),
        ("Do we own a boat, and are we insured?", "Does Mira own a boat, and is Mira insured?"),
        (
            "I'm overwhelmed, and I've said yes again",
            "Mira is overwhelmed, and Mira has said yes again",
        ),
    ],
)
def test_the_speaker_is_named(asked: str, meant: str) -> None:
    assert name_speaker(asked, "Mira") == meant
    assert is_first_person(asked)


@pytest.mark.parametrize(
    "text",
    [
        "Tell me about Ana",
        "Who is Ben?",
        "Did Ana go?",
        "Henry I. of England",
        "What did we discuss in our last conversation?",
        "What have we talked about?",
        "You know what we're discussing",
        "Can you remind us?",
        "",
    ],
)
def test_what_is_about_others_stays_as_it_is(text: str) -> None:
    assert name_speaker(text, "Mira") == text
    assert not is_first_person(text)


def test_a_strange_name_is_only_text() -> None:
    assert name_speaker("What do I like?", r"\1 {x}") == r"What does \1 {x} like?"
