"""The rules for any language. Cards are whole sentences as they were said. Answers quote them.
There is no grammar and there are no dates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime

from justmem.domain import (
    SAID,
    UNKNOWN_DATE,
    Candidate,
    Card,
    EventDate,
    Evidence,
    Plan,
    Session,
    card_id,
    merge_repeated,
)
from justmem.language.citing import cite, show_correction
from justmem.language.detection import frequent_words
from justmem.language.words import content_stems, overlap, sentences, words
from justmem.ports import NOT_IN_MEMORY, Reply
from justmem.runtime import deadlines

_NAMELESS = ("", "user", "human")  # speakers that name nobody

MOST_PER_TURN = 12  # the rest of a turn can still be found by its words
_LONGEST = 40  # words: sentences share a card up to this length
_QUOTED = 3  # quotations of an answer
_MIN_OVERLAP = 0.33  # share of the question's rarer words that a quoted card must have
_SPOKEN = re.compile(rf"(?P<who>[^\n:]{{1,80}}?) {SAID}")
LASTING = frozenset(("state", "preference", "relation", "note"))  # kinds that describe somebody
_CHARACTERS_PER_WORD = 5  # characters that count as a word in scripts without spaces


class Plain:
    """The methods of `Language` for any language. A known language overrides some of them."""

    def cards(self, session: Session) -> list[Card]:
        found: list[Card] = []
        for number, turn in session.user_side:
            deadlines.check()
            speaker = subject_name(turn.speaker)
            for said in group_sentences(turn.text):
                fact = f"{SAID}{said}"
                card = Card(
                    id=card_id(session.id, speaker, fact),
                    subject=speaker,
                    fact=fact,
                    event_date=UNKNOWN_DATE,
                    status="stable",
                    kind="fact",
                    session_id=session.id,
                    said_at=turn.at or session.at,
                    turns=(number,),
                )
                found.append(card)
        return merge_repeated(found)

    def is_small_talk(self, text: str) -> bool:
        return False

    def search_text(self, text: str) -> str:
        """ "Nora said: I moved to Ghent" -> "Nora moved to Ghent"."""
        match = _SPOKEN.match(text)
        if match is None:
            return text
        told = self.name_speaker(text[match.end() :], match["who"])
        return told if match["who"] in told else f"{match['who']}: {told}"

    def name_speaker(self, text: str, speaker: str) -> str:
        return text

    def plan(self, question: str, at: datetime) -> Plan:
        return Plan()

    def resolve_date(self, text: str, at: datetime) -> EventDate:
        return UNKNOWN_DATE

    name_words: Sequence[str] = ()

    def own_name(self, card: Card) -> str | None:
        return None

    def person_asked(self, question: str) -> str | None:
        return None

    def describes(self, card: Card, person: str) -> int | None:
        if card.kind == "interaction":
            return None
        return 1 if card.kind in LASTING else 2

    def superseded(self, cards: Iterable[Card], on: date) -> frozenset[str]:
        return frozenset()

    def answer(self, evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
        frequent = frequent_words(evidence.question)
        asked = (word for word in words(evidence.question) if word not in frequent)
        wanted = set(content_stems(" ".join(asked)))
        fitting = [one.card for one in evidence.chosen if _fits(one, wanted)][:_QUOTED]
        cited = [cite(card, sessions.get(card.session_id))[-1] for card in fitting]
        if not cited:
            return Reply(NOT_IN_MEMORY, sufficient=False)
        lines = [
            f'{one.speaker or card.subject}, {one.said_at:%Y-%m-%d}: "{one.quote or card.fact}"'
            for card, one in zip(fitting, cited, strict=True)
        ]
        lines = [
            show_correction(card, "", line) if card.id in evidence.corrected else line
            for card, line in zip(fitting, lines, strict=True)
        ]
        return Reply("\n".join(lines), sufficient=True, citations=tuple(cited))


def _fits(candidate: Candidate, wanted: set[str]) -> bool:
    near = candidate.scores.get("rerank", 0.0) > 0
    return near or overlap(wanted, content_stems(candidate.card.text)) >= _MIN_OVERLAP


def subject_name(speaker: str) -> str:
    return "User" if speaker.strip().lower() in _NAMELESS else speaker


def group_sentences(text: str) -> Iterator[str]:
    """Groups of neighbouring sentences, each short enough for a card."""
    held: list[str] = []
    made = 0
    for sentence in sentences(text):
        if held and sum(map(_length, held)) + _length(sentence.text) > _LONGEST:
            yield " ".join(held)
            held = []
            made += 1
            if made == MOST_PER_TURN:
                return
        held.append(sentence.text)
    if held:
        yield " ".join(held)


def _length(text: str) -> int:
    """In words. A script without spaces is counted by characters."""
    parts = text.split()
    return max(len(parts), 0 if text.isascii() else len(text) // (_CHARACTERS_PER_WORD * 2))
