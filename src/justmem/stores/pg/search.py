"""Search inside one space: every vector compared, and the words as the SQLite store weighs them.

Neither asks an index that spaces share, so the cost does not depend on how many others there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from justmem.ports import Hits, Index, View
from justmem.stores.pg import terms
from justmem.stores.pg.database import Database
from justmem.stores.pg.lexicon import Lexicon
from justmem.stores.pg.schema import Names
from justmem.stores.pg.wire import Outcome, Statement
from justmem.stores.words import LEAST, POSTINGS

Pairs = list[tuple[int, float]]
_ALWAYS = 2**31 - 1  # no day is later
_WORDS = {"cards": "card_words", "passages": "passage_words"}
# What the words of a question that stand in a text weigh together, rare ones more; one that stands
# in more than POSTINGS texts is left out. Sums of floats depend on their order, so equal scores are
# told by their first nine places, and then come in order of days and keys, as in SQLite's store.
# MATERIALIZED: else a word is counted again for every text it stands in.
_BEST = """
    WITH asked AS (
        SELECT word, times FROM unnest($2::text[], $3::bigint[]) AS q (word, times)
    ), counted AS MATERIALIZED (
        SELECT word, times, (
            SELECT sum(cardinality(found)) FROM (
                SELECT found FROM {words} w WHERE w.space = $1 AND w.word = asked.word
                LIMIT {most} + 1
            ) each_session
        )::bigint AS texts FROM asked
    ), chosen AS (
        SELECT word, times, texts FROM counted WHERE texts BETWEEN 1 AND {most}
    ), scored AS (
        SELECT entry >> 24 AS key, day,
            sum(times * greatest(ln((docs - texts + 0.5) / (texts + 0.5)), {least})) AS score
        FROM chosen CROSS JOIN LATERAL (
            SELECT found, (
                SELECT day FROM {sessions} s WHERE s.space = $1 AND s.key = w.session
            ) AS day FROM {words} w WHERE w.space = $1 AND w.word = chosen.word
        ) each_session CROSS JOIN LATERAL unnest(each_session.found) entry CROSS JOIN (
            SELECT {docs}::float8 AS docs FROM {spaces} WHERE space = $1
        ) memory GROUP BY 1, 2
    )
    SELECT key, score FROM scored WHERE day <= $4::bigint
    ORDER BY round(score * 1e9) DESC, day, key LIMIT $5
"""
# Nothing but words that are everywhere tells texts apart, so the newest it is.
_NEWEST = """
    SELECT DISTINCT t.key, 0.0::float8 FROM unnest($2::text[]) asked (word) CROSS JOIN LATERAL (
        SELECT found FROM {words} w WHERE w.space = $1 AND w.word = asked.word
        ORDER BY session DESC LIMIT $4
    ) each_session CROSS JOIN LATERAL unnest(each_session.found) entry
    JOIN {table} t ON t.space = $1 AND t.key = entry >> 24 AND t.day <= $3
    ORDER BY t.key DESC LIMIT $4
"""
_COMMON = """
    SELECT EXISTS (SELECT 1 FROM {words} WHERE space = $1 AND word = ANY($2)), EXISTS (
        SELECT 1 FROM unnest($2::text[]) asked (word) WHERE (
            SELECT sum(cardinality(found)) FROM (
                SELECT found FROM {words} w WHERE w.space = $1 AND w.word = asked.word
                LIMIT {most} + 1
            ) each_session
        ) <= {most}
    )
"""
_NEAREST = """
    SELECT key, -(vector <#> $2::vector) FROM {table}
    WHERE space = $1 AND day BETWEEN $3 AND $4 AND vector IS NOT NULL
    ORDER BY vector <#> $2::vector, key LIMIT $5
"""


class Search:
    def __init__(self, database: Database, names: Names, lexicon: Lexicon) -> None:
        self._database = database
        self._names = names
        self._lexicon = lexicon
        self._sql = {index: _statements(names, index) for index in _WORDS}

    async def __call__(
        self, views: Sequence[View], index: Index, dense: int, lexical: int, until: date | None
    ) -> list[Hits]:
        last = _ALWAYS if until is None else until.toordinal()
        if lexical:
            await self._lexicon.learn(word for view in views for word in terms.fold(view.text))
        near, best = await self._found(views, index, dense, lexical, last)
        for place, view in enumerate(views):
            if lexical and not best[place]:
                best[place] = await self._newest(view, index, lexical, last)
        return [Hits(*pair) for pair in zip(near, best, strict=True)]

    async def said_during(
        self, views: Sequence[View], days: tuple[date, date], count: int, until: date | None
    ) -> list[Pairs]:
        """For each view, the nearest cards of those that were said between two days."""
        first, last = days
        if until is not None:
            last = min(last, until)
        asked = (
            self._nearest(view, "cards", count, last.toordinal(), first.toordinal())
            for view in views
        )
        return [_pairs(each) for each in await self._database.read(self._names.space, *asked)]

    async def _found(
        self, views: Sequence[View], index: Index, dense: int, lexical: int, last: int
    ) -> tuple[list[Pairs], list[Pairs]]:
        """All in one round trip."""
        by_words = [self._best(view, index, lexical, last) for view in views] if lexical else []
        by_vector = [self._nearest(view, index, dense, last) for view in views] if dense else []
        if not by_words and not by_vector:
            return [[] for _ in views], [[] for _ in views]
        found = await self._database.read(self._names.space, *by_words, *by_vector)
        best = [_pairs(each) for each in found[: len(by_words)]] or [[] for _ in views]
        near = [_pairs(each) for each in found[len(by_words) :]]
        return near or [[] for _ in views], best

    def _nearest(
        self, view: View, index: Index, count: int, last: int, first: int = 0
    ) -> Statement:
        sql = self._sql[index]["nearest"]
        return Statement(sql, [self._names.space, view.vector, first, last, count])

    def _best(self, view: View, index: Index, count: int, last: int) -> Statement:
        words, times = terms.wanted(view.text, self._lexicon)
        return Statement(self._sql[index]["best"], [self._names.space, words, times, last, count])

    async def _newest(self, view: View, index: Index, count: int, last: int) -> Pairs:
        words, _ = terms.wanted(view.text, self._lexicon)
        if not words:
            return []
        sql, space = self._sql[index], self._names.space
        (counted,) = await self._database.read(space, Statement(sql["common"], [space, words]))
        occurs, telling = counted.rows[0]
        if telling or not occurs:
            return []
        (found,) = await self._database.read(
            space, Statement(sql["newest"], [space, words, last, count])
        )
        return _pairs(found)


def _pairs(found: Outcome) -> Pairs:
    return [(key, score) for key, score in found.rows]


def _statements(names: Names, index: str) -> dict[str, str]:
    fields: dict[str, Any] = {
        "table": names(index),
        "words": names(_WORDS[index]),
        "spaces": names.spaces,
        "sessions": names.sessions,
        "docs": index,
        "most": POSTINGS,
        "least": LEAST,
    }
    named = {"best": _BEST, "newest": _NEWEST, "common": _COMMON, "nearest": _NEAREST}
    return {name: " ".join(sql.split()).format(**fields) for name, sql in named.items()}
