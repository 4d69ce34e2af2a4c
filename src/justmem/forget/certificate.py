"""What a target removes, and the certificate that nothing of it is left."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath

from justmem.domain import (
    Card,
    Certificate,
    Forgotten,
    Quarantined,
    Session,
    SessionRecord,
    Value,
    corrections_of,
)
from justmem.errors import NotForgotten
from justmem.ports import Store, Vectors, Whole
from justmem.ports.traces import Search, Traces, vector_bytes

_BATCH = 50  # sessions read at a time
_COUNTS = ("cards", "sessions", "turns", "quarantined")


def digest(text: str) -> str:
    """The SHA-256 of a text, as certificates give it."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


@dataclass
class Going:
    """What is to be forgotten. What rests on it is forgotten too."""

    cards: Mapping[str, Card] = field(default_factory=dict)  # by id
    turns: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by session
    sessions: Mapping[str, SessionRecord] = field(default_factory=dict)
    subjects: Sequence[str] = ()  # their quarantined cards go too

    def numbers(self, text: Session, current: Session) -> set[int]:
        """Of the turns of a text that go: in one that waits, they may have moved."""
        if text.id in self.sessions:
            return set(range(1, len(text.turns) + 1))
        named = self.turns.get(text.id, ())
        if text is current:
            return {number for number in named if number <= len(text.turns)}
        said = {current.turn(n).text for n in named if n <= len(current.turns)}
        same = {n for n, turn in enumerate(text.turns, 1) if turn.text in said}
        return same | {n for n in named if len(current.turns) < n <= len(text.turns)}

    def takes(self, card: Card) -> bool:
        on = self.turns.get(card.session_id, ())
        return (
            card.session_id in self.sessions
            or card.id in self.cards
            or not set(on).isdisjoint(card.turns)
        )

    def takes_quarantined(self, session_id: str, held: Quarantined) -> bool:
        """It is unknown which turn a quarantined card comes from. So all those of a session are
        forgotten with any of its turns."""
        if session_id in self.sessions or self.turns.get(session_id):
            return True
        if held.subject.casefold() in [subject.casefold() for subject in self.subjects]:
            return True
        return any(
            (card.session_id, card.subject, card.fact) == (session_id, held.subject, held.fact)
            for card in self.cards.values()
        )


@dataclass
class Parts:
    """The words and vectors of what goes, while they are still there."""

    # Each once, in order; False for another way of writing one of the others.
    texts: dict[str, bool] = field(default_factory=dict)
    vectors: list[Vectors] = field(default_factory=list)
    cards: list[Card] = field(default_factory=list)
    turns: int = 0
    quarantined: int = 0

    def add(self, whole: Whole, going: Going) -> None:
        current, made = whole.session, whole.digested
        numbers = going.numbers(current, current)
        self._add_turns(current, numbers)
        if whole.waiting is not None:
            self._add_turns(whole.waiting, going.numbers(whole.waiting, current))
        self.turns += len(numbers.union(going.turns.get(current.id, ())))
        cards = [place for place, card in enumerate(made.cards) if going.takes(card)]
        self.cards += [made.cards[place] for place in cards]
        held = [each for each in made.quarantined if going.takes_quarantined(current.id, each)]
        self.quarantined += len(held)
        for card in (made.cards[place] for place in cards):
            self._add_card(card.subject, card.fact)
        for each in held:
            self._add_card(each.subject, each.fact)
        for card in (made.cards[place] for place in cards):
            for change in corrections_of(card.id, made.corrections):
                self._add_card(change.before.subject, change.before.fact)
        passages = [n for n, passage in enumerate(made.passages) if passage.turn in numbers]
        for vectors, places in ((made.card_vectors, cards), (made.passage_vectors, passages)):
            if len(vectors) and places:
                self.vectors.append(vectors[places])

    def _add_turns(self, text: Session, numbers: Iterable[int]) -> None:
        for number in sorted(numbers):
            if text.turn(number).text.strip():
                self.texts[text.turn(number).text] = True

    def _add_card(self, subject: str, fact: str) -> None:
        self.texts[f"{subject} {fact}"] = True
        self.texts.setdefault(fact, False)
        self.texts.setdefault(f"{subject} | {fact}", False)  # as extractors write it


class Prover:
    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    async def parts(self, going: Going) -> Parts:
        """Of all that goes. Sessions that it does not touch are not read."""
        touched = {*going.sessions, *going.turns, *(c.session_id for c in going.cards.values())}
        if going.subjects:
            touched |= {record.id for record in await self._store.sessions() if record.quarantined}
        gone = Parts()
        async for whole in self._wholes(touched):
            gone.add(whole, going)
        return gone

    async def _wholes(self, wanted: Collection[str] | None = None) -> AsyncIterator[Whole]:
        """In order of time; all of them, or those of these ids."""
        records = await self._store.sessions()
        ids = [record.id for record in records if wanted is None or record.id in wanted]
        for start in range(0, len(ids), _BATCH):
            for whole in await self._store.wholes(ids[start : start + _BATCH]):
                yield whole

    async def certificate(
        self,
        target: str,
        gone: Parts,
        done: Forgotten,
        *,
        erased: bool,
    ) -> Certificate:
        """NotForgotten if anything is left."""
        traces = Traces.of(gone.texts, gone.vectors)
        held = {} if erased else await self._held(traces)
        everywhere = await self._store.remains(traces.without(held))
        if everywhere.remains:
            raise NotForgotten(
                "It is forgotten, but words or vectors of it are still found in "
                f"{', '.join(everywhere.remains)}: remove what is left there."
            )
        return Certificate(
            space=self._store.space,
            target=target,
            at=self._clock(),
            **{name: getattr(done, name) for name in _COUNTS},
            vectors=sum(map(len, gone.vectors)),
            digests=tuple(sorted(digest(text) for text, own in gone.texts.items() if own)),
            held=_held_elsewhere(gone, traces, held),
            # Without their folders: a certificate may leave this machine.
            files=tuple(PurePath(file).name for file in everywhere.files),
            unsearched=tuple(PurePath(file).name for file in everywhere.unsearched),
            tables=everywhere.tables,
            bytes=everywhere.bytes,
        )

    async def _held(self, traces: Traces) -> dict[int, str]:
        """Traces that also occur in something that stays, and where."""
        search = Search(traces)
        names = f"{self._store.space}\n{(await self._store.stats()).embedder}"
        held = dict.fromkeys(search.look_in_text(names), "the name of the space or its embedder")
        async for whole in self._wholes():
            text, vectors = _data(whole)
            found = search.look_in_text(text) | search.look(vectors)
            held |= dict.fromkeys(found, f"session {whole.session.id}")
        return held


def _data(whole: Whole) -> tuple[str, bytes]:
    """The words and the vectors of a session."""
    made = whole.digested
    values: list[Value] = [whole.session, *made.cards, *made.quarantined]
    if whole.waiting is not None:
        values.append(whole.waiting)
    values += made.corrections
    return (
        "\n".join([*(value.model_dump_json() for value in values), made.reason, whole.failure]),
        vector_bytes(made.card_vectors) + vector_bytes(made.passage_vectors),
    )


def _held_elsewhere(gone: Parts, traces: Traces, held: Mapping[int, str]) -> dict[str, str]:
    """The texts of which every piece is also said elsewhere."""
    pieces: dict[int, list[int]] = {}
    for number, trace in enumerate(traces.all):
        if trace.text >= 0 and not trace.weak:
            pieces.setdefault(trace.text, []).append(number)
    texts = list(gone.texts.items())
    return {
        digest(texts[text][0]): held[numbers[0]]
        for text, numbers in pieces.items()
        if texts[text][1] and all(number in held for number in numbers)
    }
