"""The audit in PostgreSQL: the server gives an entry its number and its hash, in the transaction
of what it tells of, so that a change and its entry still travel in one round trip."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from justmem.domain import Entry, spoken
from justmem.ports import Author, Deed, EntryFilter
from justmem.stores.notes import chain, entry_of, instant, mark
from justmem.stores.pg.database import Database, Transaction
from justmem.stores.pg.encode import plain
from justmem.stores.pg.schema import Names
from justmem.stores.pg.wire import Outcome, Statement
from justmem.stores.pg.writes import one_space

_COLUMNS = "number, at, actor, verb, targets, counts, before, hash"


class Log:
    """The audit of one space, as one author adds to it."""

    def __init__(
        self, database: Database, names: Names, key: bytes, author: Author | None = None
    ) -> None:
        self._database = database
        self._names = names
        self._key = key
        self._author = author

    def by(self, author: Author) -> Log:
        return Log(self._database, self._names, self._key, author)

    def did(self, verb: str, targets: Sequence[str] = (), **counts: int) -> list[Deed]:
        return self._author.did(verb, targets, **counts) if self._author else []

    def told(self, verb: str, targets: Sequence[str] = (), **counts: int) -> list[Statement]:
        """For a transaction that holds the space's row: without it, two could get one number."""
        return self.statements(self.did(verb, targets, **counts))

    def statements(self, deeds: Sequence[Deed]) -> list[Statement]:
        return [self._statement(deed) for deed in deeds]

    def _marks(self, deed: Deed) -> tuple[str, ...]:
        return tuple(mark(self._key, id) for id in deed.targets)

    def _statement(self, deed: Deed) -> Statement:
        marks = self._marks(deed)
        return Statement(
            f"INSERT INTO {self._names.audit} (space, {_COLUMNS}) "
            "SELECT $1, number, $2, $3, $4, $5, $6, before, encode(sha256(convert_to("
            "'[' || number || ',' || $7 || ',\"' || before || '\"]', 'UTF8')), 'hex') "
            "FROM (SELECT coalesce(l.number, 0) + 1 AS number, coalesce(l.hash, '') AS before "
            "FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT number, hash FROM "
            f"{self._names.audit} WHERE space = $1 ORDER BY number DESC LIMIT 1) l ON true) last "
            "RETURNING number, before",
            [
                self._names.space,
                instant(deed.at),
                deed.actor,
                deed.verb,
                " ".join(marks),
                json.dumps(deed.counts),
                spoken(deed.at, deed.actor, deed.verb, marks, deed.counts),
            ],
        )

    def entry(self, deed: Deed, made: Outcome) -> Entry:
        """The entry that a statement has made."""
        number, before = made.rows[0]
        return chain(number, deed, self._marks(deed), before)

    async def note(self, deeds: Sequence[Deed]) -> None:
        """What was read: it does not wait for the disk."""

        async def work(transaction: Transaction) -> None:
            _, held = await transaction.run(
                Statement("SELECT set_config('synchronous_commit', 'off', true)"),
                Statement(
                    f"SELECT 1 FROM {self._names.spaces} WHERE space = $1 FOR UPDATE",
                    [self._names.space],
                ),
            )
            one_space(held.rows)
            await transaction.last(*self.statements(deeds))

        await self._database.write(self._names.space, work)

    async def entries(self, where: EntryFilter) -> list[Entry]:
        conditions, values = ["space = $1 AND number > $2"], [self._names.space, where.after]
        asked: list[tuple[str, Any]] = [
            ("number < ${}", where.before),
            ('at COLLATE "C" >= ${}', where.since and instant(where.since)),
            ("position(${} in targets) > 0", where.target and mark(self._key, where.target)),
        ]
        for condition, value in asked:
            if value is not None:
                values.append(value)
                conditions.append(condition.format(len(values)))
        values.append(where.limit)
        (found,) = await self._database.read(
            self._names.space,
            Statement(
                f"SELECT {_COLUMNS} FROM {self._names.audit} WHERE {' AND '.join(conditions)} "
                f"ORDER BY number {'DESC' if where.latest else 'ASC'} LIMIT ${len(values)}",
                values,
            ),
        )
        made = [
            entry_of([plain(field) if isinstance(field, str) else field for field in row])
            for row in found.rows
        ]
        return made[::-1] if where.latest else made
