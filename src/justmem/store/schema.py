"""The tables, and the numbered, append-only migrations that make them.

Both engines run the same statements. The space is the first column of every key, so that a
distributed PostgreSQL can place each space on one node. A migration is never changed once it is
released: add the next one. Each runs in one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FIRST = """
-- One row per space. Keys of cards and passages are taken from `next_key` and never reused.
-- `removals` counts the changes that removed or replaced something. Caches compare both.
-- `unswept`: bytes of forgotten rows may still be in the file.
CREATE TABLE spaces (
    space TEXT NOT NULL PRIMARY KEY,
    embedder TEXT NOT NULL DEFAULT '',
    dim INTEGER NOT NULL DEFAULT 0,
    next_key BIGINT NOT NULL DEFAULT 1,
    removals BIGINT NOT NULL DEFAULT 0,
    unswept INTEGER NOT NULL DEFAULT 0
);

-- The first `done` turns of a session have their cards and passages; the others wait for them. A
-- session that waits although all its turns are done is being rebuilt.
-- `at` is the time as given, `instant` the same as a number. `labels` is a JSON object, or empty.
-- `until`: when a note expires, or empty. `spent`: tokens spent on cards that are not made yet.
-- `due`: when a worker may make the cards, in seconds; null if there is nothing to do. The process
-- that makes them is the `owner` and keeps moving `due` ahead. After a crash, `due` passes and
-- another process takes the session.
CREATE TABLE sessions (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    number BIGINT NOT NULL,
    at TEXT NOT NULL,
    instant DOUBLE PRECISION NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    turns INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    cards INTEGER NOT NULL DEFAULT 0,
    quarantined INTEGER NOT NULL DEFAULT 0,
    tokens BIGINT NOT NULL DEFAULT 0,
    card_tokens BIGINT NOT NULL DEFAULT 0,
    spent BIGINT NOT NULL DEFAULT 0,
    labels TEXT NOT NULL DEFAULT '',
    until TEXT NOT NULL DEFAULT '',
    due DOUBLE PRECISION,
    attempts INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (space, id)
);
CREATE INDEX sessions_by_time ON sessions (space, instant, number);
CREATE INDEX sessions_waiting ON sessions (space, due) WHERE due IS NOT NULL;

-- `forgotten` 1: the turn keeps its number and its speaker, and its words are gone. `key` is the
-- caller's own, to drop duplicates.
CREATE TABLE turns (
    space TEXT NOT NULL,
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    speaker TEXT NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    at TEXT,
    key TEXT,
    forgotten INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (space, session, number)
);

-- `turns` are the numbers of the turns that a card rests on, separated by spaces. `mark` is a hash
-- of the columns before it: `check` compares it. `terms` and `vector` are what a search reads: see
-- terms.py and codes.py.
CREATE TABLE cards (
    space TEXT NOT NULL,
    key BIGINT NOT NULL,
    id TEXT NOT NULL,
    session TEXT NOT NULL,
    subject TEXT NOT NULL,
    fact TEXT NOT NULL,
    event_date TEXT NOT NULL,
    status TEXT NOT NULL,
    kind TEXT NOT NULL,
    said_at TEXT NOT NULL,
    turns TEXT NOT NULL,
    until TEXT NOT NULL DEFAULT '',
    mark TEXT NOT NULL,
    terms {blob} NOT NULL,
    vector {blob},
    PRIMARY KEY (space, key)
);
CREATE INDEX cards_by_id ON cards (space, id);
CREATE INDEX cards_by_session ON cards (space, session);
CREATE INDEX cards_by_subject ON cards (space, subject, key, kind);

-- Stretches of turns, from the character `start` to `stop`, by which turns are found.
CREATE TABLE passages (
    space TEXT NOT NULL,
    key BIGINT NOT NULL,
    session TEXT NOT NULL,
    turn INTEGER NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    said_at TEXT NOT NULL,
    terms {blob} NOT NULL,
    vector {blob},
    PRIMARY KEY (space, key)
);
CREATE INDEX passages_by_session ON passages (space, session);

-- Cards that no turn supports.
CREATE TABLE quarantine (
    space TEXT NOT NULL,
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    subject TEXT NOT NULL,
    fact TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (space, session, number)
);

-- Corrections of cards by the user, as JSON, in order. They are kept when a session is rebuilt.
CREATE TABLE corrections (
    space TEXT NOT NULL,
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    correction TEXT NOT NULL,
    PRIMARY KEY (space, session, number)
);

-- Ids of cards and marks of turns that were forgotten on their own. Both are hashes. `prefix` is
-- the part of a mark that stands for its session; of a card it is empty.
CREATE TABLE forgotten (
    space TEXT NOT NULL,
    prefix TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (space, prefix, id)
);

-- Tokens spent with language models, by day. `reserved` is set aside by work that is under way.
CREATE TABLE spending (
    space TEXT NOT NULL,
    day TEXT NOT NULL,
    tokens BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (space, day)
);

-- The change log: see log.py.
CREATE TABLE log (
    space TEXT NOT NULL,
    number BIGINT NOT NULL,
    at TEXT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (space, number)
);
"""

MIGRATIONS: tuple[str, ...] = (_FIRST,)
TABLES = tuple(re.findall(r"CREATE TABLE (\w+)", _FIRST))


def statements(migration: str, *, blob: str) -> Iterator[str]:
    """The statements without comments. No statement contains a semicolon."""
    lines = (line.partition("--")[0] for line in migration.replace("{blob}", blob).splitlines())
    yield from filter(None, (each.strip() for each in "\n".join(lines).split(";")))


def explain_old(where: str) -> str:
    return (
        f"{where} is in an earlier format of JustMem, which this version does not read. Nothing "
        "was changed. Run `justmem export -o FILE` for each space with the version that wrote it, "
        "and `justmem import FILE` with this one."
    )


def explain_new(where: str, version: int) -> str:
    return (
        f"{where} was written by a newer JustMem (version {version} of its format, this one knows "
        f"{len(MIGRATIONS)}): upgrade JustMem to open it."
    )
