"""Each text is left to its own language; what is not known is quoted unchanged."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from justmem.domain import UNKNOWN_DATE, Plan, Session, Turn
from justmem.language.detection import detect
from justmem.language.en.english import English
from justmem.language.languages import LANGUAGES, REGISTERED, Languages
from justmem.language.plain import Plain
from justmem.ports import Language
from stories import Make

AT = datetime(2024, 5, 20)
GERMAN = "Ich habe gestern mit meiner Schwester in Graz einen Kuchen gebacken."
SPANISH = "Mañana voy con mi hermana a la playa de Cádiz."


def implementations() -> list[Language]:
    return [Plain(), English(), LANGUAGES]  # mypy checks that each has all methods


def session(*texts: str) -> Session:
    return Session(id="s", at=AT, turns=tuple(Turn(speaker="Nora", text=text) for text in texts))


@pytest.mark.parametrize("text", [GERMAN, SPANISH])
def test_other_languages_are_kept_as_they_were_said(text: str) -> None:
    (card,) = LANGUAGES.cards(session(text))
    assert card.fact == f"said: {text}"
    assert card.event_date == UNKNOWN_DATE
    assert LANGUAGES.search_text(card.text) == f"Nora: {text}"
    assert LANGUAGES.plan(text, AT) == Plan()


def test_a_session_in_two_languages_has_cards_of_both() -> None:
    german, english = LANGUAGES.cards(session(GERMAN, "I moved to Ghent yesterday."))
    assert german.fact == f"said: {GERMAN}"
    assert german.event_date == UNKNOWN_DATE
    assert english.event_date.start == date(2024, 5, 19)


@pytest.mark.parametrize("text", ["Call me Oz.", "No, come home!", "My son plays the tuba."])
def test_short_english_is_english(text: str) -> None:
    assert detect(text) == "en"


async def test_a_question_in_another_language_is_answered_with_quotations(make: Make) -> None:
    memory = await make()
    await memory.remember(session(GERMAN, "Wir fahren nicht mit dem Auto, die Bahn ist besser."))
    answer = await memory.ask("Wann habe ich mit meiner Schwester Kuchen gebacken?")
    assert answer.text.splitlines()[0] == f'Nora, 2024-05-20: "{GERMAN}"'
    assert answer.citations[0].quote == GERMAN
    for unknown in ("Wer ist der Bruder von Emil?", "Wie heißt meine Katze?"):
        assert not (await memory.ask(unknown)).sufficient


async def test_frequent_words_of_a_question_need_no_match(make: Make) -> None:
    memory = await make()
    await memory.remember(session("Die Gesamtmiete steigt zum 1. Februar von 1.140 auf 1.296 €."))
    answer = await memory.ask("auf wie viel ist die Gesamtmiete der WG gestiegen und ab wann")
    assert "1.296" in answer.text


class French(Plain):
    def is_small_talk(self, text: str) -> bool:
        return "merci" in text.lower()


def test_a_language_is_added_by_one_registration() -> None:
    both = Languages({**REGISTERED, "fr": French})
    thanks = "merci beaucoup, je suis très content avec vous"
    assert both.is_small_talk(thanks)
    assert not LANGUAGES.is_small_talk(thanks)
    assert both.is_small_talk("thanks a lot!")
