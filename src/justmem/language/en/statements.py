"""Makes the cards of a session without a model: statements in the speaker's own words.

A card also has the context of its statement: the question that it answers, or the other speaker's
last statement if it refers to that, and the caption of a photo. Its date is resolved and stored.
Small talk makes no card. Text in other languages, code and logs is kept as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from justmem.domain import (
    SAID,
    UNKNOWN_DATE,
    Card,
    EventDate,
    Kind,
    Session,
    Status,
    Turn,
    card_id,
    merge_repeated,
)
from justmem.language import plain
from justmem.language.detection import detect
from justmem.language.en import dates
from justmem.language.en.sentence_types import asks_memory, is_request, is_small_talk
from justmem.language.en.speaker import NAME_WORD, name_in
from justmem.language.en.word_lists import english
from justmem.language.words import content_stems, sentences, stem, words
from justmem.runtime import deadlines

_LONGEST = 40  # words: statements that belong together are joined up to this length
_SHORT = 12  # words: two statements that are shorter together are one card
_CONTEXT = 25  # words of what a statement answers or points at
_PASTE = 1000  # characters: nobody types this much about themselves in one turn
_OPENING = 40  # words of a paste or a request that its card keeps

_ASKED = "asked the assistant: "  # begins the fact of a request

_CAPTION = re.compile(
    r"\[((?:shared an? )?(?:image|photo|picture|video|audio|file|tool call)\b[^\[\]\n]{0,400})\]",
    re.IGNORECASE,
)
_PHOTO = re.compile(
    r"^(?:shared )?(?:an? )?(?:photo|image|picture)\w*\s*(?::|of|-)?\s*"
    r"(?:an? (?:photo\w*|image|picture|close up) of )?",
    re.IGNORECASE,
)
# "[file: plan.pdf]" and "[audio]" describe nothing.
_NO_CAPTION = re.compile(r"(?:file|tool call)\b|(?:audio|video)$", re.IGNORECASE)
_SELF = re.compile(r"\b(?:I|my|me|mine|myself|we|our|ours|us|im|ive|id)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A statement with what belongs to it."""

    text: str
    turns: tuple[int, ...]
    context: str = ""  # how the card shows it, such as: asked "How old is he?"
    photo: str = ""
    request: bool = False


def make_cards(session: Session) -> list[Card]:
    assisted = any(turn.role == "assistant" for turn in session.turns)
    pieces = _pieces_of_user(session) if assisted else _pieces_of_people(session)
    cards: list[Card] = []
    ids: dict[tuple[str, ...], str] = {}  # of the card that has these words first
    for speaker, at, piece in pieces:
        deadlines.check()
        card = _card(session, speaker, at, piece)
        key = (speaker, *sorted(set(content_stems(piece.text))))
        same = ids.setdefault(key, card.id) if len(key) > 1 else card.id
        cards.append(card.model_copy(update={"id": same}))
    return merge_repeated(cards)


def _card(session: Session, speaker: str, at: datetime, piece: _Piece) -> Card:
    foreign = detect(piece.text) != "en"
    when = UNKNOWN_DATE if foreign or piece.request else event_date(piece.text, at)
    status = (
        "completed" if piece.request else "stable" if foreign else status_of(piece.text, when, at)
    )
    kind: Kind = "interaction" if piece.request else kind_of(piece.text, status, when)
    photo = piece.photo and f"photo: {piece.photo}"
    name = "" if foreign or piece.request or NAME_WORD in piece.text else name_in(piece.text)
    notes = "; ".join(filter(None, (piece.context, photo, name and f"{NAME_WORD}: {name}")))
    fact = (_ASKED if piece.request else SAID) + piece.text + (f" ({notes})" if notes else "")
    return Card(
        id=card_id(session.id, speaker, fact),
        subject=speaker,
        fact=fact,
        event_date=when,
        status=status,
        kind=kind,
        session_id=session.id,
        said_at=at,
        turns=piece.turns,
    )


# ---------------------------------------------------------------- people among themselves


def _pieces_of_people(session: Session) -> Iterator[tuple[str, datetime, _Piece]]:
    people = frozenset(stem(word) for _, turn in session.user_side for word in words(turn.speaker))
    before: tuple[int, Turn] | None = None
    for number, turn in session.user_side:
        deadlines.check()
        text, photo = _split_captions(turn.text)
        told = _statements(text, number, turn.at or session.at, people)
        asked = about = ""
        if before and before[1].speaker != turn.speaker:
            earlier, their_photo = _split_captions(before[1].text)
            asked = _last_question(earlier)
            about = "" if asked else _last_statement(earlier, people) or their_photo
        if not told and asked and content_stems(text):
            told = [_Piece(text.strip(), (number,))]  # "Four." answers a question
        if told and before and (asked or (about and _refers_back(told[0].text))):
            context = f'asked "{asked}"' if asked else f'about "{about}"'
            told[0] = replace(told[0], context=context, turns=(before[0], number))
        if photo and told:
            told[-1] = replace(told[-1], photo=photo)
        elif photo:
            told = [_Piece(f"[photo: {photo}]", (number,))]
        for piece in told:
            yield turn.speaker, turn.at or session.at, piece
        before = (number, turn)


def _last_question(text: str) -> str:
    """The last question of a turn, with the sentence before it if it points there."""
    said = [sentence.text for sentence in sentences(text)]
    for place in range(len(said) - 1, -1, -1):
        if said[place].endswith("?") and len(content_stems(said[place])) > 0:
            question = said[place]
            points = any(word in english().references for word in words(question))
            if points and place and len(said[place - 1].split()) <= _CONTEXT:
                question = f"{said[place - 1]} {question}"
            return question if len(question.split()) <= 2 * _CONTEXT else said[place]
    return ""


def _last_statement(text: str, people: frozenset[str]) -> str:
    for sentence in reversed(sentences(text)):
        if not is_small_talk(sentence.text, people) and not sentence.text.endswith("?"):
            return sentence.text if len(sentence.text.split()) <= _CONTEXT else ""
    return ""


# ---------------------------------------------------------------- a user and an assistant


def _pieces_of_user(session: Session) -> Iterator[tuple[str, datetime, _Piece]]:
    for number, turn in session.user_side:
        deadlines.check()
        at = turn.at or session.at
        speaker = plain.subject_name(turn.speaker)
        text, photo = _split_captions(turn.text)
        turns = (number, number + 1) if _is_answered(session, number) else (number,)
        if _is_paste(text):
            yield speaker, at, _Piece(_opening(text), turns, request=True)
            continue
        for piece in _statements(text, number, at, frozenset(), requests=True):
            if piece.request:
                if not asks_memory(piece.text):
                    yield speaker, at, replace(piece, text=_opening(piece.text), turns=turns)
            else:
                yield speaker, at, piece
        if photo:
            yield speaker, at, _Piece(f"[photo: {photo}]", (number,))


def _is_answered(session: Session, number: int) -> bool:
    return number < len(session.turns) and session.turn(number + 1).role == "assistant"


def _is_paste(text: str) -> bool:
    """Code, a log, or a long text that is hardly about oneself."""
    if detect(text) == "code":
        return True
    if len(text) <= _PASTE:
        return False
    return len(text) > 6 * _PASTE or 60 * len(_SELF.findall(text)) < len(text.split())


def _opening(text: str) -> str:
    said = text.split()
    return " ".join(said) if len(said) <= _OPENING else " ".join(said[:_OPENING]) + " …"


# ---------------------------------------------------------------- a turn in statements


def _split_captions(text: str) -> tuple[str, str]:
    """The words of a turn, and the captions of its photos."""
    found = [match[1] for match in _CAPTION.finditer(text)]
    captions = [_PHOTO.sub("", each).strip() for each in found if not _NO_CAPTION.match(each)]
    return _CAPTION.sub(" ", text).strip(), "; ".join(filter(None, captions))


def _statements(
    text: str, number: int, at: datetime, people: frozenset[str], *, requests: bool = False
) -> list[_Piece]:
    """The statements of a turn. A sentence that refers to the one before, or is very short, is
    joined to it."""
    if detect(text) != "en":
        return [_Piece(said, (number,)) for said in plain.group_sentences(text)]
    told: list[_Piece] = []
    for sentence in sentences(text):
        said = sentence.text
        request = requests and is_request(said)
        if not requests and said.endswith("?"):
            continue
        if not request and is_small_talk(said, people):
            continue
        last = told[-1] if told else None
        if last and last.request == request and _belongs_to_last(last.text, said, at):
            told[-1] = replace(last, text=f"{last.text} {said}")
        elif len(told) < plain.MOST_PER_TURN:
            told.append(_Piece(said, (number,), request=request))
    return told


def _belongs_to_last(last: str, said: str, at: datetime) -> bool:
    """Statements of different dates stay apart, unless the second points at the first."""
    length = len(last.split()) + len(said.split())
    if length <= _SHORT:
        return _refers_back(said) or event_date(last, at) == event_date(said, at)
    return length <= _LONGEST and _refers_back(said)


def _refers_back(text: str) -> bool:
    first = next(iter(words(text[:60])), "")
    return first.partition("'")[0] in english().references


# ---------------------------------------------------------------- date, status and kind


def event_date(text: str, at: datetime) -> EventDate:
    """The first date that the statement names; unknown if it names none."""
    found = dates.find(text, at)
    return found[0].date if found else UNKNOWN_DATE


def status_of(text: str, when: EventDate, at: datetime) -> Status:
    """Planned only if its date lies ahead: "I will be careful" is no plan."""
    if when.start is not None and when.start > at.date():
        return "planned"
    over = when.end is not None and when.end < at.date()
    return "completed" if over or dates.points_ahead(text) is False else "stable"


def kind_of(text: str, status: Status, when: EventDate) -> Kind:
    lists = english()
    said = set(words(text))
    if said & lists.preference and when == UNKNOWN_DATE:
        return "preference"
    if status != "stable" or when != UNKNOWN_DATE:
        return "event"
    return "relation" if said & lists.relation else "fact"
