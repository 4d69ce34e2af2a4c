"""Words to stems, by the language of a space.

The default is Porter's English stemmer, as in the SQLite store. Any other language that the server
has a stemmer for (`german`, `french`, ...) can be chosen for new spaces with `?language=german` at
the end of the store's address; the server is then asked for stems, once for each word.
"""

from __future__ import annotations

from collections.abc import Iterable

from justmem.stores.pg import porter
from justmem.stores.pg.database import Database
from justmem.stores.pg.encode import plain
from justmem.stores.pg.wire import Statement

DEFAULT = "porter"
_REMEMBERED = 200_000  # stems kept at most

# Words of grammar make up a third of all text and questions never look for them: they are counted
# in a text's length, and not indexed. Left out here are those whose stem is also that of a word
# one may look for: in (inning), on (one), at (ate), us (use), her (herring), his (hi).
_GRAMMAR = (
    "a and are as be but by for from had have he him i if is it its me my of our she so that the"
    " their them then they this to we were what when where which who with you your"
)
UNINDEXED = frozenset(_GRAMMAR.split())


class Lexicon:
    def __init__(self, database: Database, language: str) -> None:
        self.language = language
        self.unindexed = UNINDEXED if language == DEFAULT else frozenset()
        self._database = database
        self._stems: dict[str, str] = {}

    def stem(self, word: str) -> str:
        """Of a word that has been learnt; English needs no learning."""
        return porter.stem(word) if self.language == DEFAULT else self._stems[word]

    def forget(self) -> None:
        """What it has learnt are words that were said."""
        self._stems = {}
        porter.stem.cache_clear()

    async def learn(self, words: Iterable[str]) -> None:
        if self.language == DEFAULT:
            return
        if len(self._stems) > _REMEMBERED:
            self._stems.clear()
        new = list({word for word in words if word not in self._stems})
        if not new:
            return
        found = await self._database.read_all(
            Statement(
                "SELECT word, (ts_lexize($1::text::regdictionary, word))[1] "
                "FROM unnest($2::text[]) word",
                [f"pg_catalog.{self.language}_stem", new],
            )
        )
        # Words that a language does not index have no stem there: they are their own.
        self._stems |= {plain(word): plain(stem or word) for word, stem in found.rows}
