"""Texts cut into pieces: the same sentences as ever, and none of endless length."""

from __future__ import annotations

import pytest

from justmem.language.words import sentences, stem
from justmem.runtime.validation import SEGMENT, both_ends

TALK = 'I moved to Ghent. It rains! Does it, really?! Yes... "It does." Dr. No said so at 5 p.m. '


def told(text: str) -> list[str]:
    return [sentence.text for sentence in sentences(text)]


def test_a_sentence_ends_with_its_marks_and_quotes() -> None:
    assert told(TALK) == [
        "I moved to Ghent.",
        "It rains!",
        "Does it, really?!",
        "Yes...",
        '"It does."',
        "Dr. No said so at 5 p.m.",
    ]


def test_a_german_day_ends_no_sentence() -> None:
    said = "Die Miete steigt ab 1. Februar auf 900 Euro. Danke."
    assert told(said) == ["Die Miete steigt ab 1. Februar auf 900 Euro.", "Danke."]


@pytest.mark.parametrize("marks", ["???", "...", "!!!", "…", "?!"])
def test_marks_in_a_row_stay_together(marks: str) -> None:
    assert told(f"Is it{marks} Yes") == [f"Is it{marks}", "Yes"]


def test_a_long_text_has_the_sentences_of_its_parts() -> None:
    assert told(TALK * 500) == told(TALK) * 500


@pytest.mark.parametrize("text", ["x" * 9_999, "word " * 3_000, "?" * 20_000 + "x", "去年" * 5_000])
def test_a_text_without_an_end_is_cut_and_nothing_of_it_is_lost(text: str) -> None:
    found = sentences(text)
    assert "".join("".join(one.text.split()) for one in found) == "".join(text.split())
    assert max(len(one.text) for one in found) <= SEGMENT
    assert all(one.text == text[one.start : one.end] for one in found)


def test_both_ends_of_a_long_text() -> None:
    assert both_ends("short", 10) == "short"
    assert both_ends("0123456789abcdef", 11) == "0123 … cdef"


@pytest.mark.parametrize(
    "forms",
    [
        "paint paints painted painting",
        "live lives lived living",
        "go went gone goes",
        "mum mom mother",
        "photo pictures",
    ],
)
def test_forms_of_a_word_share_their_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize("words", ["car care", "new news"])
def test_different_words_have_different_stems(words: str) -> None:
    first, second = words.split()
    assert stem(first) != stem(second)
