"""Session -> cards, with one call of a language model."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import ValidationError, WithJsonSchema, model_validator

from justmem import budget
from justmem.domain import Call, Session, Turn
from justmem.errors import ModelNonsense
from justmem.extract.drafts import Checked, Draft, check
from justmem.extract.growth import context_start, new_cards
from justmem.ports import Completion, Extraction, Language, LanguageModel, Prompt
from justmem.prompts import fence, load, new_mark, one_line
from justmem.prompts.parse import ModelReply, otherwise, parse
from justmem.runtime import deadlines, tokens


class CardsReply(ModelReply):
    """A bare list will do too: it is what is left of a damaged reply."""

    cards: Annotated[
        list[Annotated[Draft | None, otherwise(None)]],
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ]

    @model_validator(mode="before")
    @classmethod
    def _accept_list(cls, value: Any) -> Any:
        return {"cards": value} if isinstance(value, list) else value


# More than this at once and models begin to skip; a session that long is read in pieces.
_PIECE_TOKENS = 12_000
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
        # What reads or counts much text does so in threads: others of this event loop do not wait.
        context, new = _context(session, after)
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
            checked = await asyncio.to_thread(_check_drafts, drafts, session, self._language)
        cards = new_cards(checked.cards, 0, after)
        return Extraction(cards, checked.quarantined, calls, [*notes, *checked.notes])

    def _room(self) -> int:
        fixed = tokens.count(load("extract")) + 200
        # A reply can be about as long as what it is about.
        return max(200, min(_PIECE_TOKENS, (self.model.context - fixed) // 2))


def _context(session: Session, after: int) -> tuple[list[Numbered], list[Numbered]]:
    """Of the turns that cards are made from: the last few earlier ones, and the new ones."""
    start = context_start(session, after)
    read = [(n, turn) for n, turn in session.user_side if n > start]
    return [each for each in read if each[0] <= after], [each for each in read if each[0] > after]


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
    return "\n".join(
        f"{n} {_later_day(t, session)}{one_line(t.speaker)}: {one_line(t.text)}" for n, t in turns
    )


def _later_day(turn: Turn, session: Session) -> str:
    if turn.at is None or turn.at.date() == session.at.date():
        return ""
    return f"({turn.at:%A %Y-%m-%d}) "


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


def _check_drafts(drafts: Sequence[Draft], session: Session, language: Language) -> Checked:
    with deadlines.within(deadlines.SESSION_SECONDS, "Checking the model's cards of this session"):
        return check(drafts, session, language)


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
    for number, part in _parts(turns, room):
        size = tokens.count(part.text) + 6
        if piece and used + size > room:
            yield piece
            piece, used = [], 0
        piece.append((number, part))
        used += size
    if piece:
        yield piece


def _parts(turns: Sequence[Numbered], room: int) -> Iterator[Numbered]:
    for number, turn in turns:
        if not turn.text.strip():
            continue
        size = tokens.count(turn.text)
        if size <= room:
            yield number, turn
            continue
        step = max(1, len(turn.text) * room // (size + room))
        for start in range(0, len(turn.text), step):
            yield number, turn.model_copy(update={"text": turn.text[start : start + step]})
