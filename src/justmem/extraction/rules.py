"""Cards without a model: each statement in the third person, dated and linked to its turns.

Two people talking: both are remembered, and a short answer is kept with its question.
A user and an assistant: the user is remembered, and what was asked for becomes an
`interaction` card whose turns are the request and the reply.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from justmem import deadlines
from justmem.domain import UNKNOWN_DATE, Card, EventDate, Session, Status, Turn, card_id
from justmem.extraction.dating import absolute
from justmem.extraction.kinds import kind_of, status_of
from justmem.extraction.pronouns import Voices, question_about, tell, uncapital
from justmem.extraction.requests import pasted, requests
from justmem.extraction.statements import Cut, Statement, cut
from justmem.ports import Extraction
from justmem.words import content

MOST_PER_TURN = 12
LONGEST = 12  # words: what is too short to stand alone is joined up to this length


class RulesExtractor:
    """Extracts by rules alone: no calls, no clock, the same cards every time."""

    spends = False  # no limit has to be looked up for it

    async def extract(self, session: Session, *, limit: int | None) -> Extraction:
        # In a thread: a long session would keep everybody else of this event loop waiting.
        return Extraction(cards=await asyncio.to_thread(extract_by_rules, session))


def extract_by_rules(session: Session) -> list[Card]:
    """TimeLimitExceeded if it takes too long."""
    with deadlines.within(deadlines.SESSION_SECONDS, "Making the cards of this session by rules"):
        return _cards(session)


def _cards(session: Session) -> list[Card]:
    assisted = any(turn.role == "assistant" for turn in session.turns)
    drafts = _from_user(session) if assisted else _from_people(session)
    cards: dict[str, Card] = {}
    seen: set[tuple[str, ...]] = set()
    for draft in drafts:
        deadlines.check()
        key = (draft.subject, *sorted(set(content(draft.fact))))
        card = draft.card(session)
        if key not in seen and card.id not in cards:
            seen.add(key)
            cards[card.id] = card
    return list(cards.values())


@dataclass(frozen=True, slots=True)
class _Draft:
    subject: str
    fact: str
    turns: tuple[int, ...]
    said_at: datetime
    when: EventDate = UNKNOWN_DATE
    status: Status | None = None

    def card(self, session: Session) -> Card:
        status = self.status or status_of(self.fact)
        return Card(
            id=card_id(session.id, self.subject, self.fact),
            subject=self.subject,
            fact=self.fact,
            event_date=self.when,
            status=status,
            kind=kind_of(self.fact, status),
            session_id=session.id,
            said_at=self.said_at,
            turns=self.turns,
        )


# ---------------------------------------------------------------- people among themselves

_CALLED = 20  # people whose names, called at the ends of a sentence, are left out of it


def _from_people(session: Session) -> Iterator[_Draft]:
    people = list(dict.fromkeys(turn.speaker for _, turn in session.user_side))
    before: tuple[int, Turn, Cut] | None = None
    for number, turn in session.user_side:
        deadlines.check()
        other = next(name for name in people if name != turn.speaker) if len(people) == 2 else ""
        voices = Voices(turn.speaker, other)
        parts = cut(turn.text, people[:_CALLED])
        asked = ""
        if before and before[1].speaker != turn.speaker and before[2].asks:
            asked = question_about(before[2].asks, turn.speaker)
        context = ""
        if before and not asked and parts.statements and parts.statements[0].leans:
            context = _said_before(before[2])
        yield from _turn_cards(
            number, turn, parts, voices, session.at, asked, context, before[0] if before else 0
        )
        before = (number, turn, parts)


def _turn_cards(
    number: int,
    turn: Turn,
    parts: Cut,
    voices: Voices,
    session_at: datetime,
    asked: str,
    context: str,
    before: int,
) -> Iterator[_Draft]:
    at = turn.at or session_at
    statements = list(parts.statements[:MOST_PER_TURN])
    if not statements and asked and (reply := parts.reply):
        statements = [Statement(reply, leans=True)]
    elif statements and asked and parts.scrap:
        opening = f"{parts.scrap}; {uncapital(statements[0].text)}"
        statements[0] = Statement(opening, leans=True)
    photo = _photo(parts.captions)
    drafts: list[_Draft] = []
    for statement in statements:
        told = tell(statement.text, voices)
        _join(drafts, _dated(told.subject, told.fact, (number,), at))
    if drafts and asked:
        first = drafts[0]
        fact = f'{first.fact} (asked "{asked}")'
        drafts[0] = replace(first, fact=fact, turns=(before, number))
    elif drafts and context:
        fact = f'{drafts[0].fact} (about "{context}")'
        drafts[0] = replace(drafts[0], fact=fact, turns=(before, number))
    if drafts and photo:
        drafts[-1] = replace(drafts[-1], fact=f"{drafts[-1].fact} (photo: {photo})")
    elif photo:
        drafts.append(_Draft(voices.speaker, f"shared a photo of {photo}", (number,), at))
    yield from drafts


def _join(drafts: list[_Draft], new: _Draft) -> None:
    """What one breath says of one subject is one card, while it is short and of one date."""
    last = drafts[-1] if drafts else None
    if (
        last is None
        or last.subject != new.subject
        or len(last.fact.split()) + len(new.fact.split()) > LONGEST
        or (UNKNOWN_DATE not in (last.when, new.when) and last.when != new.when)
    ):
        drafts.append(new)
        return
    when = last.when if last.when != UNKNOWN_DATE else new.when
    addition = new.fact.removeprefix("said ") if last.fact.startswith("said ") else new.fact
    drafts[-1] = replace(last, fact=f"{last.fact}; {addition}", when=when)


_ABOUT = 25  # words of the turn before, where a statement leans on it


def _said_before(parts: Cut) -> str:
    """What "it" may be: the last thing the other said, or the photo they showed."""
    if parts.statements:
        last = parts.statements[-1].text
        return last if len(last.split()) <= _ABOUT else ""
    return _photo(parts.captions)


def _photo(captions: Sequence[str]) -> str:
    """ "shared a photo: a photo of a dog" -> "a dog"."""
    shown = []
    for caption in captions:
        text = re.sub(
            r"^(?:shar\w+ |sent |shows? )?(?:an? )?(?:photo|image|picture|pic)\w*\s*(?::|of|-)\s*",
            "",
            caption,
            flags=re.IGNORECASE,
        )
        text = re.sub(
            r"^an? (?:photo\w*|image|picture|close up) of ", "", text, flags=re.IGNORECASE
        )
        shown.append(text.strip())
    return "; ".join(shown)


def _dated(subject: str, fact: str, turns: tuple[int, ...], at: datetime) -> _Draft:
    """An event without a date of its own stays undated: when it was said is on the card, and
    saying it happened that day would be a guess."""
    status = status_of(fact)
    text, when = absolute(fact, at, {"completed": False, "planned": True}.get(status))
    return _Draft(subject, text, turns, at, when, status)


# ---------------------------------------------------------------- a user and an assistant


def _from_user(session: Session) -> Iterator[_Draft]:
    for number, turn in session.user_side:
        deadlines.check()
        at = turn.at or session.at
        speaker = "User" if turn.speaker.strip().lower() in ("", "user", "human") else turn.speaker
        text, paste = pasted(turn.text)
        parts = cut(text, (turn.speaker,))
        reply = _reply_to(session, number)
        turns = (number, reply) if reply else (number,)
        asked, kept = requests(parts, answers=_was_asked(session, number))
        for statement in kept[:MOST_PER_TURN]:
            told = tell(statement.text, Voices(speaker))
            yield _dated(told.subject, told.fact, (number,), at)
        for request in asked:
            yield _Draft(speaker, request, turns, at, status="completed")
        if paste:
            yield _Draft(speaker, f"pasted {paste}", turns, at, status="completed")


def _was_asked(session: Session, number: int) -> bool:
    """Whether the assistant's last words before this turn hold a question."""
    before = session.turn(number - 1) if number > 1 else None
    return before is not None and before.role == "assistant" and "?" in before.text[-_LAST:]


_LAST = 300  # characters


def _reply_to(session: Session, number: int) -> int | None:
    following = number + 1
    if following <= len(session.turns) and session.turn(following).role == "assistant":
        return following
    return None
