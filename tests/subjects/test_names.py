""" "My name is Oskar" sets the user's name wherever memory is read."""

from __future__ import annotations

from typing import Any

import pytest

from justmem.language.en.speaker import name_in
from stories import Make, scripted

HOME = {"id": "home", "at": "2025-01-10", "turns": [{"role": "user", "content": "I live in Graz."}]}
NAME = {
    "id": "name",
    "at": "2025-01-11",
    "turns": [
        {"role": "user", "content": "I'm Oskar, by the way. My sister Ines is a nurse."},
        {"role": "assistant", "content": "Nice to meet you, Oskar!"},
    ],
}
NOW = "2025-06-01"
QUESTIONS = ["Where do I live?", "Where does Oskar live?"]
GRAZ = 'Oskar, 10 January 2025: "I live in Graz."'


# ---------------------------------------------------------------- what gives a name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("My name is Oskar.", "Oskar"),
        ("my name is oskar and i live in graz", "Oskar"),
        ("My name's Oskar Lind, nice to meet you.", "Oskar Lind"),
        ("My name is Will.", "Will"),
        ("I'm Oskar, by the way.", "Oskar"),
        ("Hi, I'm Oskar!", "Oskar"),
        ("Hello! I am Oskar and I run a bakery.", "Oskar"),
        ("Please call me Oz.", "Oz"),
        ("Everyone calls me Oz", "Oz"),
        ("is named Oskar", "Oskar"),
        ("I'm tired.", None),
        ("Hi, I'm German.", None),
        ("Hi, this is Great!", None),
        ("Hey, I'm Going home", None),
        ("My name is on the list.", None),
        ("my name is misspelled.", None),
        ("My name is not Oskar.", None),
        ("Call me later.", None),
        ("Her boss called me Oskar.", None),
        ("My dog's name is Miso.", None),
        ("His name is Oskar.", None),
    ],
)
def test_only_a_plain_introduction_gives_a_name(said: str, name: str | None) -> None:
    assert name_in(said) == name


# ---------------------------------------------------------------- the library


async def named(make: Make, *more: Any) -> Any:
    memory = await make()
    await memory.remember_many([HOME, NAME, *more])
    return memory


@pytest.mark.parametrize("question", QUESTIONS)
async def test_answers_and_evidence_show_the_name(make: Make, question: str) -> None:
    memory = await named(make)
    answer = await memory.ask(question, at=NOW)
    assert answer.text.startswith(GRAZ)
    assert {citation.speaker for citation in answer.citations} == {"Oskar"}
    evidence = await memory.recall(question, at=NOW)
    assert {card.subject for card in evidence.cards} == {"Oskar"}


async def test_what_is_known_about_the_user_is_found_by_name(make: Make) -> None:
    memory = await named(make)
    told = await memory.ask("What do you know about Oskar?", at=NOW)
    assert '"I live in Graz."' in told.text
    assert "Ines" in told.text
    assert (await memory.about("Oskar")).cards == 2
    assert {card.subject for card in (await memory.about("Oskar")).known} == {"Oskar"}
    assert [card.text for card in await memory.cards(subject="oskar", limit=1)] == [
        "Oskar said: I live in Graz."
    ]
    assert not (await memory.ask("Where does Marta live?", at=NOW)).sufficient


async def test_the_newest_name_is_shown_and_the_older_one_still_understood(make: Make) -> None:
    later = {"id": "oz", "at": "2025-03-01", "turns": [{"role": "user", "content": "Call me Oz."}]}
    memory = await named(make, later)
    for name in ("Oz", "Oskar"):
        answer = await memory.ask(f"Where does {name} live?", at=NOW)
        assert 'Oz, 10 January 2025: "I live in Graz."' in answer.text
    before = await memory.ask("Where do I live?", at="2025-02-01")  # before the new name was given
    assert before.text.startswith(GRAZ)


async def test_stored_cards_keep_their_subject_and_their_ids(make: Make) -> None:
    memory = await make()
    (card,) = (await memory.remember(HOME)).cards
    await memory.remember(NAME)
    assert (await memory.card(card.id)).subject == "Oskar"
    exported = "".join([line async for line in memory.export()])
    assert "User" in exported
    assert '"Oskar"' not in exported
    await memory.forget(session="name")
    assert (await memory.card(card.id)).subject == "User"


async def test_the_user_can_be_forgotten_by_name(make: Make) -> None:
    memory = await named(make)
    preview = await memory.preview_forget(subject="Oskar")
    assert {card.subject for card in preview.cards} == {"Oskar"}
    assert (await memory.forget(subject="Oskar", verify=True)).cards == 2
    assert await memory.cards() == []


async def test_a_model_reads_the_name(make: Make) -> None:
    answer = {"answer": "In Graz.", "used": ["1"], "sufficient": True}
    row = "User | lives in Graz | unknown | stable | state | 1"
    name = "User | is named Oskar | unknown | stable | fact | 1"
    model = scripted(
        extract=lambda prompt: {"cards": [name if "Oskar" in prompt.user else row]}, answer=answer
    )
    memory = await make(model)
    await memory.remember_many([HOME, NAME])
    reply = await memory.ask("Where does Oskar live?", at=NOW)
    assert "Oskar lives in Graz" in model.prompts[-1].user
    assert [citation.speaker for citation in reply.citations] == ["Oskar"]


# ---------------------------------------------------------------- command, HTTP, MCP
