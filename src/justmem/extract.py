"""Session -> cards, with one call of a language model or by rules.

Code checks the provenance that a model gives: the turns it names must exist and share words with
the card. Otherwise the card is moved to the turn that supports it best, or it is quarantined if no
turn supports it.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from justmem import budget
from justmem.domain import (
    UNKNOWN_DATE,
    Call,
    Card,
    EventDate,
    Kind,
    Quarantined,
    Session,
    Status,
    Turn,
    card_id,
    merge_repeated,
)
from justmem.errors import ModelNonsense
from justmem.language.words import content_stems, overlap
from justmem.ports import Completion, Extraction, Language, LanguageModel, Prompt
from justmem.prompts import fence, load, new_mark, one_line
from justmem.prompts.parse import Line, ModelReply, otherwise, parse
from justmem.runtime import deadlines, tokens

# The share of a card's words that must occur in the turns it names. All recorded cards pass. Most
# fail if they are put on the turns of another session (bench/cards.py).
_SHARE_IN_NAMED_TURNS = 0.15
_SHARE_IN_OTHER_TURN = 0.3  # the same for a turn that the model did not name
_TURN = re.compile(r"[0-9]{1,6}")
_LONGEST = 10  # characters of a turn number that are read: a reply can have endless ones
_PIECE_TOKENS = 12_000  # of a longer session, models skip some facts: it is read in pieces
_LEAST_REPLY = 200

Numbered = tuple[int, Turn]


class ModelExtractor:
    def __init__(self, model: LanguageModel, language: Language) -> None:
        self.model = model
        self._language = language

    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Extraction:
        calls: list[Call] = []
        notes: list[str] = []
        drafts: list[Draft] = []
        # Slow work on text runs in threads: other work of this event loop does not wait for it.
        start = context_start(session, after)
        context = [(n, turn) for n, turn in session.user_side if start < n <= after]
        new = [(n, turn) for n, turn in session.user_side if n > after]
        pieces = await asyncio.to_thread(lambda: deque(split(new, self._room())))
        if len(pieces) > 1:
            notes.append(f"the session is long: read in {len(pieces)} pieces")
        while pieces:
            piece = pieces.popleft()
            left = None if limit is None else limit - sum(call.counted for call in calls)
            with budget.carrying(calls):
                prompt = extraction_prompt(session, piece, context)
                prompt = prompt.within(left, least=_LEAST_REPLY)
                completion = await budget.complete(self.model, prompt, notes)
                calls.append(completion.call)
                found = await asyncio.to_thread(_read, completion, notes)
            drafts += found
            if completion.truncated:
                rest = _unread(piece, found)
                onward = f"went on from turn {rest[0][0]}" if rest else "its end may be missing"
                notes.append(f"the reply was cut off: {onward}")
                pieces.extendleft([rest] if rest else [])
        with budget.carrying(calls):
            checked = await asyncio.to_thread(check, drafts, session, self._language)
        cards = cards_after(checked.cards, after)
        return Extraction(cards, checked.quarantined, calls, [*notes, *checked.notes])

    def _room(self) -> int:
        fixed = tokens.count(load("extract")) + 200
        # A reply can be about as long as what it is about.
        return max(200, min(_PIECE_TOKENS, (self.model.context - fixed) // 2))


def extraction_prompt(
    session: Session, piece: Sequence[Numbered], context: Sequence[Numbered] = ()
) -> Prompt:
    """`context`: earlier turns that have their cards already."""
    said = _numbered_lines(piece, session)
    mark = new_mark()
    user = f"Session of {session.at:%A %Y-%m-%d %H:%M}\n"
    if context:
        earlier = fence("earlier", _numbered_lines(context, session), mark)
        user += f"Context, already recorded: make no cards from it.\n{earlier}\n"
    user += fence("session", said, mark)
    # Cards take about half of what was said (790 -> 330 tokens on LoCoMo). Room for three times
    # that: a reply that is cut off costs a second call.
    reply = 400 + round(1.5 * tokens.count(said))
    schema = CardsReply.json_schema()
    return Prompt("extract", load("extract"), user, schema, min(reply, 16_000), mark=mark)


def _numbered_lines(turns: Sequence[Numbered], session: Session) -> str:
    """With the day of a turn that was added on a later day."""
    lines = []
    for number, turn in turns:
        later = turn.at is not None and turn.at.date() != session.at.date()
        day = f"({turn.at:%A %Y-%m-%d}) " if later else ""
        lines.append(f"{number} {day}{one_line(turn.speaker)}: {one_line(turn.text)}")
    return "\n".join(lines)


def _unread(piece: Sequence[Numbered], drafts: Sequence[Draft]) -> list[Numbered]:
    """The turns after the last one that the cut-off reply had reached, if it got anywhere."""
    reached = max((n for draft in drafts for n in draft.turns), default=0)
    rest = [(n, t) for n, t in piece if n > reached]
    return rest if len(rest) < len(piece) else []


def split(turns: Sequence[Numbered], room: int) -> Iterator[list[Numbered]]:
    """Pieces of at most `room` tokens, cut between turns; only a turn that is longer than
    `room` by itself is cut inside."""
    piece: list[Numbered] = []
    used = 0
    for number, turn in turns:
        length = len(turn.text) if turn.text.strip() else 0
        whole = tokens.count(turn.text)
        step = length if whole <= room else max(1, length * room // (whole + room))
        for start in range(0, length, step or 1):
            part = turn.model_copy(update={"text": turn.text[start : start + step]})
            size = 6 + (whole if step == length else tokens.count(part.text))
            if piece and used + size > room:
                yield piece
                piece, used = [], 0
            piece.append((number, part))
            used += size
    if piece:
        yield piece


# ---------------------------------------------------------------- the model's reply


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _kind(value: Any) -> Any:
    """Only callers write notes."""
    kind = _lower(value)
    return "fact" if kind == "note" else kind


def _numbers(value: Any) -> Any:
    """ "3,5", 3, ["#3", 5] -> turn numbers. Anything else is left out."""
    parts = value.replace(";", ",").split(",") if isinstance(value, str) else value
    if not isinstance(parts, list):
        parts = [parts]
    texts = (_lower(part).lstrip("#t") if isinstance(part, str) else part for part in parts)
    return sorted({int(m[0]) for text in texts if (m := _TURN.fullmatch(str(text)[:_LONGEST]))})


class Draft(BaseModel):
    """One item of a reply: a row of six fields, or the same fields as an object."""

    subject: Annotated[Line, Field(min_length=1)]
    fact: Annotated[Line, Field(min_length=1)]
    event_date: Annotated[Line, otherwise("")] = ""
    status: Annotated[Status, BeforeValidator(_lower), otherwise("stable")] = "stable"
    kind: Annotated[Kind, BeforeValidator(_kind), otherwise("fact")] = "fact"
    turns: Annotated[tuple[int, ...], BeforeValidator(_numbers)] = ()

    @model_validator(mode="before")
    @classmethod
    def _row(cls, item: Any) -> Any:
        if not isinstance(item, str):
            return item
        parts = item.split("|")
        if len(parts) < len(cls.model_fields):
            raise ValueError("a row has six fields")
        subject, *fact, event_date, status, kind, turns = parts
        values = (subject, "|".join(fact), event_date, status, kind, turns)
        return dict(zip(cls.model_fields, values, strict=True))

    @field_validator("fact")
    @classmethod
    def _without_subject(cls, fact: str, info: ValidationInfo) -> str:
        """The fact without a repeated subject: "Nora" and "Nora has a dog" are "Nora has a dog"."""
        subject = info.data.get("subject", "")
        return fact[len(subject) + 1 :] if fact.lower().startswith(f"{subject} ".lower()) else fact


class CardsReply(ModelReply):
    """A bare list is accepted too: a damaged reply may have lost the object around it."""

    cards: Annotated[
        list[Annotated[Draft | None, otherwise(None)]],
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ]

    @model_validator(mode="before")
    @classmethod
    def _accept_list(cls, value: Any) -> Any:
        return {"cards": value} if isinstance(value, list) else value


def _read(completion: Completion, notes: list[str]) -> list[Draft]:
    value, whole = parse(completion.text)
    try:
        items = CardsReply.model_validate(value).cards
    except ValidationError:
        items = None
    drafts = [draft for draft in items or () if draft is not None]
    if items is None or (not whole and not drafts):
        raise ModelNonsense(
            "The model's reply is not the requested JSON, so it has no cards. The session is "
            "kept. Try again with `retry`, or use another model."
        )
    if dropped := len(items) - len(drafts):
        notes.append(f"{dropped} items of the reply were not cards and were dropped")
    if not whole:
        notes.append(f"the reply was damaged JSON: {len(drafts)} cards salvaged")
    return drafts


# ---------------------------------------------------------------- provenance


def check(drafts: Sequence[Draft], session: Session, language: Language) -> Extraction:
    """The cards of the drafts that turns support. The others are quarantined."""
    cards: list[Card] = []
    quarantined: list[Quarantined] = []
    moved = 0
    reason = "no turn of the session says so"
    with deadlines.within(deadlines.SESSION_SECONDS, "Checking the model's cards of this session"):
        stems_of_turns = [_stems(turn.text) for turn in session.turns]
        for draft in drafts:
            deadlines.check()
            if turns := _provenance(draft, stems_of_turns):
                cards.append(_card(draft, session, turns, language))
                moved += not set(turns) <= set(draft.turns)
            else:
                held = Quarantined(subject=draft.subject, fact=draft.fact, reason=reason)
                quarantined.append(held)
    notes = [f"{moved} cards named a wrong turn and were moved to the right one"] if moved else []
    if quarantined:
        notes.append(f"{len(quarantined)} cards have no supporting turn: quarantined")
    return Extraction(merge_repeated(cards), quarantined, notes=notes)


def _stems(text: str) -> frozenset[str]:
    deadlines.check()
    return frozenset(content_stems(text))


def _card(draft: Draft, session: Session, turns: tuple[int, ...], language: Language) -> Card:
    said_at = session.said_at(turns[0])
    return Card(
        id=card_id(session.id, draft.subject, draft.fact),
        subject=draft.subject,
        fact=draft.fact,
        event_date=_event_date(draft.event_date.lower(), said_at, language),
        status=draft.status,
        kind=draft.kind,
        session_id=session.id,
        said_at=said_at,
        turns=with_replies(turns, session) if draft.kind == "interaction" else turns,
    )


def _event_date(text: str, said_at: datetime, language: Language) -> EventDate:
    try:
        return EventDate.parse(text.upper().replace(" ", "") if text[:1].isdigit() else text)
    except ValueError:
        return language.resolve_date(text, said_at) if text else UNKNOWN_DATE


def _provenance(draft: Draft, turns: Sequence[frozenset[str]]) -> tuple[int, ...]:
    """The turns that support a draft: of those it names, or else the best other one. `turns` has
    the stems of each turn."""
    words = set(content_stems(draft.fact))
    # The subject's name does not count as support, unless the card has no other words.
    told = words - set(content_stems(draft.subject)) or words
    named = tuple(n for n in draft.turns if 1 <= n <= len(turns))
    if not told:
        return named  # nothing to compare: "is 31", or another script
    # A short answer is understood from the question in the turn before it.
    context = {n: turns[n - 1] | (turns[n - 2] if n > 1 else frozenset()) for n in named}
    if named and overlap(told, frozenset().union(*context.values())) >= _SHARE_IN_NAMED_TURNS:
        return tuple(n for n in named if told & context[n])
    best = max(range(len(turns)), key=lambda i: overlap(told, turns[i]))
    return (best + 1,) if overlap(told, turns[best]) >= _SHARE_IN_OTHER_TURN else ()


def with_replies(turns: tuple[int, ...], session: Session) -> tuple[int, ...]:
    """An interaction is anchored to the reply as well: that is where its value lies."""
    wider = set(turns)
    for number in turns:
        answered = session.turns[number : number + 1]  # the turn after it, if there is one
        if session.turn(number).role == "user" and answered and answered[0].role == "assistant":
            wider.add(number + 1)
    return tuple(sorted(wider))


# ---------------------------------------------------------------- sessions that grew

_CONTEXT_TURNS = 6
_CONTEXT_TOKENS = 400


def context_start(session: Session, after: int) -> int:
    """The number of the last turn before the context. The context is the last few turns up to
    `after`, as many as fit."""
    room, start = _CONTEXT_TOKENS, after
    while start and after - start < _CONTEXT_TURNS:
        room -= tokens.count(session.turn(start).text)
        if room < 0:
            break
        start -= 1
    return start


def cards_by_rules(session: Session, after: int, language: Language) -> list[Card]:
    """The cards of the turns after `after`, which the rules read with their context."""
    start = context_start(session, after)
    part = session.model_copy(update={"turns": session.turns[start:]})
    # The rules number the turns of the part from 1.
    cards = [
        card.model_copy(update={"turns": tuple(n + start for n in card.turns)})
        for card in language.cards(part)
    ]
    return cards_after(cards, after)


def cards_after(cards: Iterable[Card], after: int) -> list[Card]:
    """The cards that do not rest on the turns up to `after` alone."""
    return [card for card in cards if max(card.turns, default=0) > after]
