"""A turn cut into statements: what may become one card each."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from justmem import deadlines
from justmem.extraction.pronouns import uncapital
from justmem.extraction.smalltalk import is_greeting, is_pleasantry, is_scrap, strip_interjections
from justmem.words import content, sentences

# A word or two stand for something, as in "my card is [card number]"; more, or a colon, show it.
_CAPTION = re.compile(
    r"\[((?:image|photo|picture|audio|file|tool call)\b[^\[\]\n]{0,400}"
    r"|(?=[^\[\]\n]*:|(?:[^\[\]\s]+[ ]+){2})[^\[\]\n]{3,400})\]"
)
_LEANS = re.compile(
    r"^(?:it|that|this|these|those|they|he|she|them|his|her|their|its|there|both|which|such|one of"
    r"|some of|each|another|the (?:same|other|first|second|whole))\b",
    re.IGNORECASE,
)
_LEANS_WITHIN = re.compile(
    r"^(?:\w+ ){0,6}?(?:it|them|that|those|him|her|there)\b[^,]{0,12}$", re.IGNORECASE
)
LONGEST = 40  # words: statements that lean on each other are joined up to this length


@dataclass(frozen=True, slots=True)
class Statement:
    """Words without small talk; `leans` where they point at something said before."""

    text: str
    leans: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A turn in parts: what it states, asks and shows, and all it says."""

    statements: tuple[Statement, ...]
    questions: tuple[str, ...]
    captions: tuple[str, ...]
    raw: str
    scrap: str = ""  # what it opens with, where that is too little to be a statement

    @property
    def asks(self) -> str:
        """The last question, with what it points at: "Those boats look fast! Who built
        them?"."""
        if not self.questions:
            return ""
        question = self.questions[-1]
        if not points_back(question):
            return question
        said = [sentence.text for sentence in sentences(self.raw)]
        place = next((i for i, text in enumerate(said) if text.endswith(question)), 0)
        before = said[place - 1] if place else ""
        return f"{before} {question}" if 2 < len(before.split()) <= _CONTEXT else question

    @property
    def reply(self) -> str:
        """All it says but what it asks: even "Yes, twice!" may answer."""
        raw = _ASKS_BACK.sub("", self.raw)
        said = [one.text for one in sentences(raw) if not one.text.rstrip().endswith("?")]
        text = " ".join(said).strip(" .!")
        if not said and len(raw.split()) < _SHORT:  # "Oslo?"
            text = raw.strip(" .!?")
        return text if content(text) else ""


_SHORT = 4  # words
_ASKS_BACK = re.compile(
    r",\s*(?:why|and you|you|where else|what else|who else|right|(?:what|how) about you)\s*\?\s*$",
    re.IGNORECASE,
)
_CONTEXT = 20  # words of what a question points at
_POINTS = re.compile(
    r"\b(?:it|that|this|they|them|those|these|he|she|him|her|there|one)\b(?! (?:was"
    r"|is) (?:like )?to)",
    re.IGNORECASE,
)


def points_back(text: str) -> bool:
    return bool(_POINTS.search(text))


def cut(text: str, people: Collection[str]) -> Cut:
    captions = tuple(match[1].strip() for match in _CAPTION.finditer(text))
    spoken = _CAPTION.sub(" ", text)
    statements: list[Statement] = []
    questions: list[str] = []
    scraps: list[str] = []
    for sentence in sentences(spoken):
        deadlines.check()
        stripped = strip_interjections(sentence.text, people)
        if stripped.rstrip(" \"')").endswith("?"):
            if not is_greeting(stripped):
                questions.append(stripped)
            continue
        if is_pleasantry(stripped, alone=not statements):
            if not (statements or questions) and is_scrap(stripped):
                scraps.append(stripped.rstrip(" .!…"))
            continue
        _place(statements, stripped.rstrip(" .!…"))
    return Cut(tuple(statements), tuple(questions), captions, spoken.strip(), "; ".join(scraps))


def _place(statements: list[Statement], text: str) -> None:
    """A sentence that leans on the one before joins it, while there is room."""
    leans = bool(_LEANS.match(text) or _LEANS_WITHIN.match(text))
    if statements and leans:
        last = statements[-1]
        if len(last.text.split()) + len(text.split()) <= LONGEST:
            statements[-1] = Statement(f"{last.text}; {uncapital(text)}", last.leans)
            return
    statements.append(Statement(text, leans and not statements))
