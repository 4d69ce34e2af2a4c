"""REPLAY: from the chosen cards and the source index to the original turns that matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime

from justmem import ranking, tokens
from justmem.domain import Budget, Candidate, Profile, Retention, Session, Source, Turn
from justmem.errors import SourceNotKept
from justmem.ports import Store, View

_PASSAGES = 30  # per view and kind of search
_SESSIONS = 2  # conversations whose turns may share the budget
_LEAST_PART = 60  # tokens: less of a turn says nothing


@dataclass(frozen=True, slots=True)
class Recovered:
    """`kept`: no words were missing because the space does not keep them. `turns`: how many the
    sessions have from which the sources were cut; 0 if nothing was to be cut."""

    sources: tuple[Source, ...] = ()
    kept: bool = True
    turns: int = 0

    @property
    def notes(self) -> list[str]:
        notes = [] if self.kept else ["the words are not kept in this space: cards stand alone"]
        if (read := sum(len(source.turns) for source in self.sources)) < self.turns:
            notes.append(f"sources cut to fit: {read} of {self.turns} turns")
        return notes


async def recover(
    store: Store,
    views: Sequence[View],
    chosen: Sequence[Candidate],
    asked: datetime,
    retention: Retention,
    budget: Budget,
    profile: Profile,
) -> Recovered:
    if profile.replay == "session":  # the paper: the whole session behind the best card
        best = [candidate.card.session_id for candidate in chosen[:1]]
        read, kept = await _read(store, best)
        return Recovered(tuple(_source(session, _kept(session)) for session in read), kept)
    found = await _turns(store, views, chosen, asked.date())
    by_session: dict[str, dict[int, Found]] = defaultdict(dict)
    for (session_id, turn), each in found.items():
        by_session[session_id][turn] = each
    # A session is as good as its best turns: many weak matches must not outweigh one reply.
    best = sorted(by_session, key=lambda id: -sum(_scores(by_session[id])[:2]))
    sources: list[Source] = []
    left = budget.source_tokens
    read, kept = await _read(store, best[:_SESSIONS])
    read = [each for each in read if not retention.session_expired(each.at, asked)]
    for session in read:
        source = _window(session, by_session[session.id], left)
        if source is not None:
            sources.append(source)
            left -= source.tokens
    return Recovered(tuple(sources), kept, sum(len(session.turns) for session in read))


async def _read(store: Store, ids: Sequence[str]) -> tuple[list[Session], bool]:
    """The sessions, and whether the words of all of them are kept."""
    read: list[Session] = []
    for session_id in ids:
        with suppress(SourceNotKept):
            read.append(await store.session(session_id))
    return read, len(read) == len(ids)


@dataclass(slots=True)
class Found:
    """What speaks for a turn, and where in it the best passage begins."""

    score: float = 0.0
    start: int = 0


def _scores(turns: Mapping[int, Found]) -> list[float]:
    return sorted((turn.score for turn in turns.values()), reverse=True)


async def _turns(
    store: Store, views: Sequence[View], chosen: Sequence[Candidate], until: date
) -> dict[tuple[str, int], Found]:
    """The source index and the cards that rest on a turn, fused by rank. The words count double:
    who asks for a reply again names what stood in it."""
    hits = await store.search(views, "passages", dense=_PASSAGES, lexical=_PASSAGES, until=until)
    fused = ranking.fuse(r for each in hits for r in (each.dense, each.lexical, each.lexical))
    found: dict[tuple[str, int], Found] = defaultdict(Found)
    for key, place in (await store.passages_at(list(fused))).items():
        turn = found[place.session_id, place.turn]
        if fused[key] > turn.score:
            turn.score, turn.start = fused[key], place.start
    for rank, candidate in enumerate(chosen, 1):
        for number in candidate.card.turns:
            found[candidate.card.session_id, number].score += 1.0 / (ranking.RRF_K + rank)
    return found


def _window(session: Session, found: Mapping[int, Found], room: int) -> Source | None:
    """All of the session if it fits; else its best turns with what belongs to them, the first
    that does not fit cut to the part that matters."""
    sizes = {n: _size(turn) for n, turn in _kept(session).items()}
    if sum(sizes.values()) <= room:
        return _source(session, _kept(session))
    taken: dict[int, Turn] = {}
    left = room
    for number in _outward(session, found):
        if number not in sizes:
            continue
        if sizes[number] <= left:
            taken[number] = session.turn(number)
            left -= sizes[number]
            continue
        if left >= _LEAST_PART:
            part = _part(session.turn(number), found.get(number, Found()).start, left)
            taken[number] = part
        break
    return _source(session, taken) if taken else None


def _part(turn: Turn, start: int, room: int) -> Turn:
    """As much of a turn as fits, from where its best passage begins; from its beginning if that
    reaches as far."""
    length = len(turn.text) * (room - 12) // _size(turn)
    start = 0 if start < length // 2 else start
    text = turn.text[start : start + length]
    while text and tokens.count(text) > room - 12:  # tokens are not spread evenly
        text = text[: len(text) * 9 // 10]
    before, after = "… " if start else "", " …" if start + len(text) < len(turn.text) else ""
    return turn.model_copy(update={"text": f"{before}{text.strip()}{after}"})


def _size(turn: Turn) -> int:
    return tokens.count(turn.text) + 8  # its number and its speaker


def _outward(session: Session, found: Mapping[int, Found]) -> Iterator[int]:
    """Turn numbers by worth: each scored turn, its other half (a request's reply, a reply's
    request), then the neighbours of all, nearest first."""
    seen: set[int] = set()
    last = len(session.turns)
    ordered = sorted(found, key=lambda n: (-found[n].score, n))
    for number in ordered:
        reply_to = -1 if session.turn(number).role == "assistant" else 1
        for n in (number, number + reply_to):
            if 1 <= n <= last and n not in seen:
                seen.add(n)
                yield n
    for distance in range(1, last + 1):
        for number in ordered:
            for n in (number - distance, number + distance):
                if 1 <= n <= last and n not in seen:
                    seen.add(n)
                    yield n


def _kept(session: Session) -> dict[int, Turn]:
    """Its turns by number, without those that were forgotten."""
    return {n: turn for n, turn in enumerate(session.turns, 1) if not turn.forgotten}


def _source(session: Session, turns: Mapping[int, Turn]) -> Source:
    return Source(
        session_id=session.id,
        at=session.at,
        turns=tuple(sorted(turns.items())),
        whole=len(turns) == len(_kept(session)),
        tokens=sum(map(_size, turns.values())),
    )
