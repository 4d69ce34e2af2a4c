"""The tables, and the numbered, append-only migrations that make them.

Both engines run the same statements. The space is the first column of every key, so that a
distributed PostgreSQL can place each space on one node. A migration is never changed once it is
released: add the next one. Each runs in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

_FIRST = """
-- One row per space. `generation` counts all changes of the search index, `removals` those that
-- removed something: caches compare them. Keys are never reused. `cards` and `tokens` are sums over
-- all sessions, because every question reads them. `unswept`: bytes of forgotten rows may still be
-- in the file. `replaced`: the same for replaced words. `terms` is the version of the
-- rules that cut texts into search terms.
CREATE TABLE spaces (
    space TEXT NOT NULL PRIMARY KEY,
    embedder TEXT NOT NULL DEFAULT '',
    dim INTEGER NOT NULL DEFAULT 0,
    generation BIGINT NOT NULL DEFAULT 0,
    removals BIGINT NOT NULL DEFAULT 0,
    next_key BIGINT NOT NULL DEFAULT 1,
    next_session BIGINT NOT NULL DEFAULT 1,
    cards BIGINT NOT NULL DEFAULT 0,
    tokens BIGINT NOT NULL DEFAULT 0,
    unswept INTEGER NOT NULL DEFAULT 0,
    replaced INTEGER NOT NULL DEFAULT 0,
    terms TEXT NOT NULL DEFAULT ''
);

-- The first `done` turns of a session have their cards and index rows; the others wait for them. A
-- session that waits although all its turns are done is being rebuilt.
-- `at` is the time as given, `instant` the same as a number.
-- `spent`: tokens spent on cards that are not made yet. `labels` is a JSON object, or empty.
-- `until`: when a note expires, or empty.
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
    PRIMARY KEY (space, id)
) {compact};
CREATE INDEX sessions_by_time ON sessions (space, instant, number);
CREATE INDEX sessions_by_state ON sessions (space, state);

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
) {compact};

-- `turns` are the numbers of the turns that a card rests on, separated by spaces. `mark` is a hash
-- of the rest of the row: `check` compares it.
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
    PRIMARY KEY (space, key)
) {compact};
CREATE INDEX cards_by_id ON cards (space, id);
CREATE INDEX cards_by_session ON cards (space, session);
CREATE INDEX cards_by_subject ON cards (space, subject);

-- Cards that no turn supports.
CREATE TABLE quarantine (
    space TEXT NOT NULL,
    session TEXT NOT NULL,
    place INTEGER NOT NULL,
    subject TEXT NOT NULL,
    fact TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (space, session, place)
);

-- What a search reads: for each session one row of kind 'cards' and one of kind 'passages'. See
-- `Block` in session_index.py for the two blobs. `generation` is that of the space when it was
-- written.
CREATE TABLE blocks (
    space TEXT NOT NULL,
    kind TEXT NOT NULL,
    session TEXT NOT NULL,
    generation BIGINT NOT NULL,
    first_key BIGINT NOT NULL,
    postings {blob} NOT NULL,
    vectors {blob},
    PRIMARY KEY (space, kind, session)
);
CREATE INDEX blocks_by_generation ON blocks (space, kind, generation);
CREATE INDEX blocks_by_key ON blocks (space, kind, first_key);

-- Ids of cards and marks of turns that were forgotten on their own. Both are hashes. `prefix` is
-- the part of a mark that stands for its session; of a card it is empty.
CREATE TABLE forgotten (
    space TEXT NOT NULL,
    prefix TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (space, prefix, id)
) {compact};

-- Tokens spent with language models, by day. `reserved` is set aside by work that is under way.
CREATE TABLE spending (
    space TEXT NOT NULL,
    day TEXT NOT NULL,
    tokens BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (space, day)
) {compact};

-- Sessions that wait for cards. The process that makes them is the `owner` and keeps moving `due`
-- ahead. After a crash, `due` passes and another process takes the session. `due` is in seconds.
CREATE TABLE queue (
    space TEXT NOT NULL,
    session TEXT NOT NULL,
    due DOUBLE PRECISION NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (space, session)
) {compact};
CREATE INDEX queue_by_due ON queue (due);

-- The change log: see log.py.
CREATE TABLE log (
    space TEXT NOT NULL,
    number BIGINT NOT NULL,
    at TEXT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (space, number)
) {compact};

-- Corrections of cards by the user, as JSON, in order. They are kept when a session is rebuilt.
CREATE TABLE corrections (
    space TEXT NOT NULL,
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    correction TEXT NOT NULL,
    PRIMARY KEY (space, session, number)
) {compact};
"""

MIGRATIONS: tuple[str, ...] = (_FIRST,)
TABLES = (
    "spaces", "sessions", "turns", "cards", "quarantine", "blocks", "forgotten", "spending",
    "queue", "log", "corrections",
)  # fmt: skip


def statements(migration: str, *, blob: str, compact: str) -> Iterator[str]:
    """The statements without comments. No statement contains a semicolon. `compact`: the clause
    that makes an engine store rows in their primary key index."""
    text = migration.replace("{blob}", blob).replace("{compact}", compact)
    lines = (line.partition("--")[0] for line in text.splitlines())
    yield from filter(None, (each.strip() for each in "\n".join(lines).split(";")))


def explain_old(where: str) -> str:
    return (
        f"{where} is in an earlier format of JustMem, which this version does not read. Nothing "
        "was changed. Run `justmem export -o FILE` for each space with the version that wrote it, "
        "and `justmem import FILE` with this one."
    )
