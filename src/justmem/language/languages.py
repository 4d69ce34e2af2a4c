"""Detects the language of each text and applies its rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime

from justmem.domain import Card, EventDate, Evidence, Plan, Session
from justmem.language.detection import CODE, detect
from justmem.language.plain import Plain
from justmem.ports import Language, Reply
from justmem.runtime import deadlines
from justmem.runtime.validation import both_ends


def _english() -> Language:
    # Imported on first use: commands that only read a store do not need it.
    from justmem.language.en.english import English

    return English()


# The languages with rules of their own, by their code in detection.toml.
REGISTERED: Mapping[str, Callable[[], Language]] = {"en": _english}
_OF_CODE = "en"  # the rules for code and logs, which are sent with an English request


class Languages:
    """A `Language` that applies the rules of each text's own language, or `Plain` if that language
    is not registered."""

    def __init__(self, registered: Mapping[str, Callable[[], Language]] = REGISTERED) -> None:
        self._registered = registered
        self._loaded: dict[str, Language] = {"": Plain()}

    def _code(self, text: str) -> str:
        """The code of a registered language, or "" for `Plain`."""
        code = detect(text)
        code = _OF_CODE if code == CODE else code
        return code if code in self._registered else ""

    def _load(self, code: str) -> Language:
        if code not in self._loaded:
            self._loaded[code] = self._registered[code]()
        return self._loaded[code]

    def _of(self, text: str) -> Language:
        return self._load(self._code(text))

    def cards(self, session: Session) -> list[Card]:
        """By the registered language that most turns are in. It keeps turns in other languages as
        they are."""
        with deadlines.within(deadlines.SESSION_SECONDS, _CARDS):
            codes = Counter(filter(None, (self._code(turn.text) for _, turn in session.user_side)))
            most = codes.most_common(1)
            return self._load(most[0][0] if most else "").cards(session)

    def is_small_talk(self, text: str) -> bool:
        return self._of(text).is_small_talk(text)

    def search_text(self, text: str) -> str:
        return self._of(text).search_text(text)

    def name_speaker(self, text: str, speaker: str) -> str:
        return self._of(text).name_speaker(text, speaker)

    def plan(self, question: str, at: datetime) -> Plan:
        text = both_ends(question)
        with deadlines.within(deadlines.QUESTION_SECONDS, _PLAN):
            return self._of(text).plan(text, at)

    def resolve_date(self, text: str, at: datetime) -> EventDate:
        return self._of(text).resolve_date(text, at)

    @property
    def name_words(self) -> Sequence[str]:
        return [word for code in self._registered for word in self._load(code).name_words]

    def own_name(self, card: Card) -> str | None:
        return self._of(card.text).own_name(card)

    def person_asked(self, question: str) -> str | None:
        return self._of(question).person_asked(both_ends(question))

    def describes(self, card: Card, person: str) -> int | None:
        return self._of(card.text).describes(card, person)

    def superseded(self, cards: Iterable[Card], on: date) -> frozenset[str]:
        by_code: dict[str, list[Card]] = defaultdict(list)
        for card in cards:
            by_code[self._code(card.text)].append(card)
        found = (self._load(code).superseded(same, on) for code, same in by_code.items())
        return frozenset().union(*found)

    def answer(self, evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
        asked = evidence.model_copy(update={"question": both_ends(evidence.question)})
        with deadlines.within(deadlines.QUESTION_SECONDS, _ANSWER):
            return self._of(asked.question).answer(asked, sessions)


_CARDS = "Making the cards of this session by rules"
_PLAN = "Planning this question by rules"
_ANSWER = "Answering this question by rules"

LANGUAGES = Languages()
