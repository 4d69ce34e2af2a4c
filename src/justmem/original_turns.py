"""The original turns: under REPLAY those behind the evidence, within a budget of tokens. For every
question, the turns of sessions that have no cards yet."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from justmem.budget import Tally
from justmem.domain import Candidate, Evidence, Session, Source, Turn, turn_as_card
from justmem.language.words import asks_the_same, content_stems, overlap
from justmem.memory_parts import Parts
from justmem.ports import Filter, SearchLimits, Store, View, texts_of
from justmem.runtime import tokens
from justmem.runtime.validation import both_ends

_PASSAGES = 30  # per view and kind of search
_FUSION = 10  # of reciprocal rank fusion: less than the usual 60, so that first ranks count more
_WHOLE = 10**9  # tokens: no session is larger
_SESSIONS = 2  # sessions whose turns may share the source budget
_LEAST_PART = 60  # tokens: a smaller part of a turn is not worth reading
_TURN_TOKENS = 8  # of a turn's number and speaker
MOST_WAITING = 100  # waiting sessions that are searched, the latest ones
_WAITING_TURNS = 3  # of their turns that join the evidence
_SHARED_WORDS = 0.3  # share of the question's words that such a turn must have


@dataclass(slots=True)
class _Hit:
    """The score of a turn, and where its best passage starts."""

    score: float = 0.0
    start: int = 0


async def recover(
    store: Store, parts: Parts, found: Evidence, views: Sequence[View], where: Filter, tally: Tally
) -> Evidence:
    """`found` with its sources. With the profile `paper`, the source is the whole session of the
    best card."""
    with tally.stage("recover"):
        if parts.profile.is_paper:
            hits: dict[str, dict[int, _Hit]] = {one.card.session_id: {} for one in found.chosen[:1]}
        else:
            hits = await _turns(store, views, found, where)
        best = sorted(hits, key=lambda id: -_worth(hits[id]))[:_SESSIONS]
        stored = (await texts_of(store, best)).values()
        with_words = [session for session in stored if _turns_of(session)]
        readable = [_without_hidden(session, where) for session in with_words]
        room = _WHOLE if parts.profile.is_paper else parts.budget.source_tokens
        sources = _within(room, readable, hits)
    shown, total = sum(len(s.turns) for s in sources), sum(len(_turns_of(s)) for s in readable)
    if shown < total:
        tally.notes.append(f"sources cut to fit: {shown} of {total} turns")
    kept = len(with_words) == len(best)
    if not kept:
        tally.notes.append("the words are not kept: only cards were read")
    return found.model_copy(update={"sources": tuple(sources), "sources_kept": kept})


async def _turns(
    store: Store, views: Sequence[View], found: Evidence, where: Filter
) -> dict[str, dict[int, _Hit]]:
    """Turns by session: the passages of the source index and the chosen cards, fused by their
    ranks. The lexical ranking counts twice, because such a question repeats words of the reply."""
    limits = SearchLimits(
        passages=_PASSAGES, since=where.since, until=where.until, sessions=where.sessions
    )
    search = await store.find(views, limits)
    fused: dict[int, float] = defaultdict(float)
    for hits in search.said:
        for ranking in (hits.dense, hits.lexical, hits.lexical):
            for rank, (key, _) in enumerate(ranking, 1):
                fused[key] += 1.0 / (_FUSION + rank)
    turns: dict[str, dict[int, _Hit]] = defaultdict(lambda: defaultdict(_Hit))
    for key, score in fused.items():
        passage = search.passages[key]
        hit = turns[passage.session_id][passage.turn]
        if score > hit.score:
            hit.score, hit.start = score, passage.start
    for rank, candidate in enumerate(found.chosen, 1):
        for turn in candidate.card.turns:
            turns[candidate.card.session_id][turn].score += 1.0 / (_FUSION + rank)
    return turns


def _worth(turns: Mapping[int, _Hit]) -> float:
    """The scores of the two best turns of a session: many weak matches must not outweigh a
    reply."""
    return sum(sorted((turn.score for turn in turns.values()), reverse=True)[:2])


def _within(
    room: int, sessions: Sequence[Session], hits: Mapping[str, Mapping[int, _Hit]]
) -> list[Source]:
    """The turns of each session that fit in `room` tokens, which all sessions share in this order:
    all of them, else the best ones. The first that does not fit is cut."""
    sources: list[Source] = []
    for session in sessions:
        found, turns = hits[session.id], _turns_of(session)
        taken: dict[int, Turn] = {}
        left = room
        for number in _outward(session, found):
            if (turn := turns.get(number)) is None:
                continue
            if _size(turn) > left:
                if left >= _LEAST_PART:
                    taken[number] = _part(turn, found[number].start if number in found else 0, left)
                break
            taken[number] = turn
            left -= _size(turn)
        if taken:
            source = Source(
                session_id=session.id,
                at=session.at,
                turns=tuple(sorted(taken.items())),
                whole=taken == turns,
                tokens=sum(map(_size, taken.values())),
            )
            sources.append(source)
            room -= source.tokens
    return sources


def _outward(session: Session, found: Mapping[int, _Hit]) -> Iterator[int]:
    """Turn numbers, best first: each turn found with the reply or request it belongs to, then the
    neighbours of all, nearest first. All turns in order if none was found."""
    last = len(session.turns)
    ordered = sorted(found, key=lambda n: (-found[n].score, n)) or [1]
    pairs = [(n, n - 1 if session.turn(n).role == "assistant" else n + 1) for n in ordered]
    wanted = [n for pair in pairs for n in pair]
    wanted += [n + s for d in range(1, last + 1) for n in ordered for s in (-d, d)]
    yield from (n for n in dict.fromkeys(wanted) if 1 <= n <= last)


def _part(turn: Turn, start: int, room: int) -> Turn:
    """As much of a turn as fits, from its best passage on, or from its beginning if that reaches
    the passage."""
    room -= 12
    length = len(turn.text) * room // _size(turn)
    start = 0 if start < length // 2 else start
    text = turn.text[start : start + length]
    while text and tokens.count(text) > room:  # tokens are not spread evenly
        text = text[: len(text) * 9 // 10]
    before, after = "… " if start else "", " …" if start + len(text) < len(turn.text) else ""
    return turn.model_copy(update={"text": f"{before}{text.strip()}{after}"})


def _size(turn: Turn) -> int:
    return tokens.count(turn.text) + _TURN_TOKENS


def _turns_of(session: Session) -> dict[int, Turn]:
    """Its turns by number, without forgotten ones."""
    return {n: turn for n, turn in enumerate(session.turns, 1) if not turn.forgotten}


def _without_hidden(session: Session, where: Filter) -> Session:
    """The session without the turns that may not be read."""
    numbers = range(1, len(session.turns) + 1)
    until = session.until
    hidden = {n for n in numbers if not where.holds(session.id, session.said_at(n), until)}
    return session.without(hidden)


# ---------------------------------------------------------------- sessions without cards


async def add_waiting_turns(
    found: Evidence, waiting: Sequence[Session], where: Filter, tally: Tally
) -> Evidence:
    """The evidence with the turns of waiting sessions that share most words with the question, as
    quotes. Turns that have cards already are blank."""
    shown = [each for one in waiting if _turns_of(each := _without_hidden(one, where))]
    if not shown:
        return found
    tally.notes.append(_waiting_note(len(shown)))
    # In a thread: other work of this event loop does not wait for it.
    rows = await asyncio.to_thread(_by_shared_words, shown, found.question)
    score = max((one.score for one in found.chosen), default=0.0)
    known = {card.id for card in found.cards}
    more = [
        Candidate(card=turn_as_card(session, number), scores={"lexical": share}, score=score)
        for share, session, number in rows
        if f"{session.id}#{number}" not in known
    ][:_WAITING_TURNS]
    chosen, cards = found.chosen, found.cards
    if where.limit:  # they take the lowest places, and never that of the best card
        more = more[: where.limit - 1 if chosen else where.limit]
        chosen, cards = chosen[: where.limit - len(more)], cards[: where.limit - len(more)]
    return found.model_copy(
        update={"chosen": (*chosen, *more), "cards": (*cards, *(one.card for one in more))}
    )


def _waiting_note(count: int) -> str:
    if count == 1:
        return "1 session waits for its cards: its turns were searched by their words"
    some = f"{count}" if count < MOST_WAITING else f"{MOST_WAITING} or more"
    return f"{some} sessions wait for their cards: their turns were searched by their words"


def _by_shared_words(
    sessions: Sequence[Session], question: str
) -> list[tuple[float, Session, int]]:
    """Turns by the share of the question's words that they have, best first."""
    wanted = set(content_stems(both_ends(question)))
    found = [
        (overlap(wanted, content_stems(both_ends(turn.text))), session, number)
        for session in sessions
        for number, turn in session.user_side
        if not asks_the_same(turn.text, wanted)
    ]
    return sorted((row for row in found if row[0] >= _SHARED_WORDS), key=lambda row: -row[0])
