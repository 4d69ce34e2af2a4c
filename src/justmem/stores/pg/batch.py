"""The rows that follow from sessions: cards, passages, vectors and words, many at a time.

They travel as binary arrays that the server takes apart (`unnest`): as fast as COPY, which
PostgreSQL refuses on tables with row-level security.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from justmem.domain import Card, Passage, Session
from justmem.errors import EmbedderMismatch, StoreError
from justmem.ports import Digested, Vectors
from justmem.stores import rows as shared
from justmem.stores.pg import rows, terms
from justmem.stores.pg.encode import Matrix
from justmem.stores.pg.lexicon import Lexicon
from justmem.stores.pg.schema import Names
from justmem.stores.pg.wire import Statement


def spoken(session: Session, digested: Digested) -> Iterable[str]:
    """Every word of what will be indexed."""
    for card in digested.cards:
        yield from terms.fold(card.text)
    for text in _texts(session, digested.passages):
        yield from terms.fold(text)


@dataclass
class Space:
    """What a writer needs to know of the space it holds."""

    dim: int
    next_card: int
    next_passage: int


@dataclass
class _Group:
    """Rows of one table that all have a vector, or all have none."""

    keys: list[int] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)
    days: list[int] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    vectors: list[Vectors] = field(default_factory=list)

    def add(self, keys: range, session: int, day: int, items: Sequence[Any], rows: Vectors) -> None:
        self.keys += keys
        self.sessions += [session] * len(keys)
        self.days += [day] * len(keys)
        self.items += items
        if len(rows):
            self.vectors.append(rows)

    def leading(self) -> list[Any]:
        return [rows.numbers(self.keys), rows.numbers(self.sessions), rows.numbers(self.days)]

    def matrix(self) -> Matrix:
        made = np.concatenate(self.vectors) if self.vectors else np.zeros((0, 0), np.float32)
        return Matrix(made, len(self.keys))


class Batch:
    """The rows that follow from some sessions, until they are inserted together."""

    def __init__(self, names: Names, space: Space, lexicon: Lexicon) -> None:
        self._names = names
        self._space = space
        self._lexicon = lexicon
        self._cards: dict[bool, _Group] = {}
        self._passages: dict[bool, _Group] = {}
        self._texts = {"card_words": terms.Texts(), "passage_words": terms.Texts()}
        self._held: list[tuple[int, int, Any]] = []
        self._sums: list[list[int]] = []

    def add(self, key: int, session: Session, digested: Digested, gone: set[str]) -> None:
        """`gone`: ids of cards that were forgotten on their own."""
        space, day = self._space, shared.day(session.at)
        places = _wanted(digested.cards, gone)
        cards = [digested.cards[place] for place in places]
        vectors = self._checked(digested.card_vectors, len(digested.cards))
        card_keys = range(space.next_card, space.next_card + len(cards))
        if cards:
            chosen = vectors[places] if len(vectors) else vectors
            self._cards.setdefault(bool(len(vectors)), _Group()).add(
                card_keys, key, day, cards, chosen
            )
        spoken = self._checked(digested.passage_vectors, len(digested.passages))
        passage_keys = range(space.next_passage, space.next_passage + len(digested.passages))
        if digested.passages:
            self._passages.setdefault(bool(len(spoken)), _Group()).add(
                passage_keys, key, day, digested.passages, spoken
            )
        space.next_card, space.next_passage = card_keys.stop, passage_keys.stop
        self._texts["card_words"].add(key, card_keys, [card.text for card in cards])
        said = _texts(session, digested.passages)
        self._texts["passage_words"].add(key, passage_keys, said)
        self._held += [(key, place, held) for place, held in enumerate(digested.quarantined)]
        counts = [len(cards), len(digested.passages), len(digested.quarantined)]
        self._sums.append([key, *counts, digested.tokens, digested.card_tokens])

    def _checked(self, vectors: Vectors, count: int) -> Vectors:
        if not len(vectors):
            return vectors
        if len(vectors) != count:
            raise StoreError(f"{count} texts came with {len(vectors)} vectors: embed each of them.")
        dim = vectors.shape[1]
        if self._space.dim not in (0, dim):
            raise EmbedderMismatch(
                f"The vectors of this space have {self._space.dim} dimensions, these have {dim}: "
                "use the embedder that the space was made with, or run `justmem reembed`."
            )
        self._space.dim = dim
        return vectors

    # ------------------------------------------------------------ statements

    def statements(self) -> list[Statement]:
        made = [self._insert_cards(group) for group in self._cards.values()]
        made += [self._insert_passages(group) for group in self._passages.values()]
        for table, texts in self._texts.items():
            postings, lengths = texts.index(self._lexicon)
            if postings.words:
                made.append(self._insert_words(table, postings))
            for sums in self._sums:
                sums.append(lengths.get(sums[0], 0))
        if self._held:
            made.append(self._insert_quarantined())
        return [*made, self._sum_sessions(), self._sum_space()]

    def _do(self, sql: str, *params: Any) -> Statement:
        return Statement(sql, [self._names.space, *params])

    def _insert_cards(self, group: _Group) -> Statement:
        texts = (
            "id", "subject", "fact", "event", "event_precision", "status", "kind", "said_at",
            "turns", "folded",
        )  # fmt: skip
        return self._do(
            f"INSERT INTO {self._names.cards} (space, key, session, day, event_start, event_end, "
            f"{', '.join(texts)}, vector) SELECT $1, key, session, day, nullif(event_start, -1), "
            f"nullif(event_end, -1), {', '.join(texts)}, vector FROM (SELECT "
            "unnest($2::bigint[]) AS key, unnest($3::bigint[]) AS session, "
            "unnest($4::bigint[]) AS day, unnest($5::bigint[]) AS event_start, "
            "unnest($6::bigint[]) AS event_end, "
            + ", ".join(f"unnest(${n}::text[]) AS {name}" for n, name in enumerate(texts, 7))
            + ", unnest($17::vector[]) AS vector) given",
            *group.leading(),
            *rows.columns(group.items),
            group.matrix(),
        )

    def _insert_passages(self, group: _Group) -> Statement:
        places = np.array([(p.turn, p.start, p.end) for p in group.items], np.int64)
        return self._do(
            f"INSERT INTO {self._names.passages} (space, key, session, day, turn, start, stop, "
            "vector) SELECT $1, unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), "
            "unnest($5::bigint[]), unnest($6::bigint[]), unnest($7::bigint[]), "
            "unnest($8::vector[])",
            *group.leading(),
            *(np.ascontiguousarray(column) for column in places.T),
            group.matrix(),
        )

    def _insert_words(self, table: str, postings: terms.Postings) -> Statement:
        """In order of words, as the index has them: neighbours go to the same pages."""
        return self._do(
            f"INSERT INTO {self._names(table)} (space, session, word, found) SELECT $1, session, "
            "word, ($6::bigint[])[first:last] FROM (SELECT unnest($2::bigint[]) AS session, "
            "unnest($3::text[]) AS word, unnest($4::bigint[])::int AS first, "
            "unnest($5::bigint[])::int AS last) given",
            postings.sessions,
            postings.words,
            postings.first,
            postings.last,
            postings.entries,
        )

    def _insert_quarantined(self) -> Statement:
        sessions, places, held = zip(*self._held, strict=True)
        return self._do(
            f"INSERT INTO {self._names.quarantine} (space, session, place, subject, fact, reason) "
            "SELECT $1, unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]), "
            "unnest($5::text[]), unnest($6::text[])",
            rows.numbers(sessions),
            rows.numbers(places),
            [each.subject for each in held],
            [each.fact for each in held],
            [each.reason for each in held],
        )

    def _sum_sessions(self) -> Statement:
        columns = np.array(self._sums, np.int64).T
        return self._do(
            f"UPDATE {self._names.sessions} s SET cards = g.cards, passages = g.passages, "
            "quarantined = g.held, tokens = g.tokens, card_tokens = g.card_tokens, "
            "card_length = g.card_length, passage_length = g.passage_length FROM ("
            "SELECT unnest($2::bigint[]) AS key, unnest($3::bigint[]) AS cards, "
            "unnest($4::bigint[]) AS passages, unnest($5::bigint[]) AS held, "
            "unnest($6::bigint[]) AS tokens, unnest($7::bigint[]) AS card_tokens, "
            "unnest($8::bigint[]) AS card_length, unnest($9::bigint[]) AS passage_length) g "
            "WHERE s.space = $1 AND s.key = g.key",
            *(np.ascontiguousarray(column) for column in columns),
        )

    def _sum_space(self) -> Statement:
        """`remove` has taken off what the sessions counted for before."""
        _, cards, passages, _, tokens, _, card_length, passage_length = (
            np.array(self._sums, np.int64).sum(axis=0).tolist()
        )
        return self._do(
            f"UPDATE {self._names.spaces} SET dim = $2, next_card = greatest(next_card, $3), "
            "next_passage = greatest(next_passage, $4), cards = cards + $5, "
            "passages = passages + $6, tokens = tokens + $7, "
            "card_length = card_length + $8, passage_length = passage_length + $9 WHERE space = $1",
            self._space.dim,
            self._space.next_card,
            self._space.next_passage,
            cards,
            passages,
            tokens,
            card_length,
            passage_length,
        )


def _wanted(cards: Sequence[Card], gone: set[str]) -> list[int]:
    """Places of the cards to store: each id once, and none that was forgotten on its own."""
    first = {card.id: place for place, card in reversed(list(enumerate(cards)))}
    return sorted(place for id, place in first.items() if id not in gone)


def _texts(session: Session, passages: Sequence[Passage]) -> list[str]:
    return [session.turn(p.turn).text[p.start : p.end] for p in passages]
