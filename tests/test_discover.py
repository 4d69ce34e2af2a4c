"""Where nothing in memory is relevant, nothing is read and nothing is spent."""

from pathlib import Path

import pytest

import justmem
from justmem.language.en.sentence_types import is_small_talk_message
from justmem.testing import HashEmbedder
from stories import HISTORY, NOW, Make, by_rules, extract_history, plan, scripted


@pytest.mark.parametrize(
    "text",
    [
        "hi",
        "Thanks!",
        "Thank you so much, that was really helpful!",
        "hey, how are you?",
        "what's up?",
        "Good morning! How are you doing today?",
        "ok",
        "no",
        "lol 😂",
        "👍",
        "Hi! Can you help me?",
        "oh my god, that's amazing",
        "stop",
        "Continue.",
        "Great, that works.",
    ],
)
def test_small_talk_is_heard(text: str) -> None:
    assert is_small_talk_message(text)


@pytest.mark.parametrize(
    "text",
    [
        "Who am I?",
        "What do I love?",
        "what's my job",
        "hi, where do I live?",
        "Tell me about myself",
        "What do you know about me?",
        "What did you say about the picture?",
        "my plan for tomorrow",
        "hi, I moved to Vienna",
        "My cat died",
        "I ran 5 km today",
        "Ines",
        "你好吗",
        "thanks " * 100,
    ],
)
def test_questions_and_statements_are_no_small_talk(text: str) -> None:
    assert not is_small_talk_message(text)


@pytest.mark.parametrize("text", ["hi", "thanks!"])
async def test_small_talk_finds_nothing_and_costs_nothing(make: Make, text: str) -> None:
    model = scripted(extract=extract_history, plan=plan())
    memory = await make(model)
    await memory.remember_many(HISTORY)
    calls = len(model.prompts)

    evidence = await memory.recall(text, at=NOW)
    answer = await memory.ask(text, at=NOW)

    assert (evidence.cards, evidence.sources, evidence.candidates) == ((), (), ())
    assert (evidence.receipt.tokens, evidence.receipt.embedding) == (0, ())
    assert "small talk: memory was not searched" in evidence.receipt.notes
    assert not answer.sufficient
    assert len(model.prompts) == calls


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    with justmem.open("x", folder=folder, reranker="none") as memory:
        for number, text in enumerate(
            [
                "I live in Graz and work as a nurse at the children's hospital.",
                "My sister Ines got married in June. The party was in a vineyard.",
                "I bought a gravel bike for 1,450 euros.",
                "My manager Tom wants me to take the night shifts.",
            ]
        ):
            memory.remember([{"role": "user", "content": text}], at=f"2024-05-{number + 1:02}")
    return folder


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What is the capital of Mongolia?", False),
        ("Who won the chess tournament?", False),
        ("Which violin teacher do I have?", False),
        ("What is 17 times 23?", False),
        ("Write a haiku about rain.", False),
        ("Write a Python function that reverses a string.", False),
        ("When did Evan start lifting weights?", False),
        ("What did my bicycle cost?", True),
        ("Who is Ines?", True),
        ("Where am I employed?", True),
        ("Where was the wedding?", True),
    ],
)
def test_a_question_about_something_never_mentioned_finds_nothing(
    told: Path, question: str, found: bool
) -> None:
    with justmem.open("x", folder=told, reranker="none") as memory:
        evidence = memory.recall(question, at="2024-06-01")
    assert bool(evidence.cards) is found
    assert ("nothing in memory is relevant to this" in evidence.receipt.notes) is not found


async def test_nothing_is_spent_on_a_question_about_something_never_mentioned(told: Path) -> None:
    model = scripted(plan=plan())
    async with justmem.open_async("x", folder=told, model=model, reranker="none") as memory:
        answer = await memory.ask("Which violin teacher do I have?", at="2024-06-01")
    assert not answer.sufficient
    assert (answer.receipt.tokens, len(model.prompts)) == (0, 0)


@pytest.mark.parametrize("cards", [True, False])
async def test_a_question_that_was_asked_before_is_no_evidence(make: Make, cards: bool) -> None:
    memory = await make(**by_rules())
    await memory.remember("I am allergic to walnuts.", id="told")
    asked = [{"role": "user", "content": "What am I allergic to?"}]
    await memory.append(asked, id="asked", cards=cards)

    found = await memory.recall("what am I allergic to")

    assert [card.session_id for card in found.cards] == ["told"]


class Bounded(HashEmbedder):
    relevance_bound = 10.0  # more than any question reaches


@pytest.mark.parametrize(("embedder", "found"), [(HashEmbedder(512), True), (Bounded(512), False)])
async def test_only_the_bound_of_an_embedder_makes_a_question_irrelevant(
    make: Make, embedder: HashEmbedder, found: bool
) -> None:
    memory = await make(embedder=embedder)
    await memory.remember("I am allergic to walnuts.", id="told")
    evidence = await memory.recall("What is the capital of Mongolia?")
    assert bool(evidence.cards) is found
