-- One file is the memory of one space.

CREATE TABLE space (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    name TEXT NOT NULL,
    embedder TEXT NOT NULL DEFAULT '',
    dim INTEGER NOT NULL DEFAULT 0,
    -- What caches are checked against: `generation` counts every change of what can be found,
    -- `removals` those that were more than an addition.
    generation INTEGER NOT NULL DEFAULT 0,
    removals INTEGER NOT NULL DEFAULT 0,
    -- Keys are never given twice, so that a key held across a change cannot mean another card.
    next_card INTEGER NOT NULL DEFAULT 1,
    next_passage INTEGER NOT NULL DEFAULT 1,
    -- Sums over all sessions, kept here because every question asks for them.
    cards INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    -- Something was forgotten and its bytes may still be in the file.
    unswept INTEGER NOT NULL DEFAULT 0
);

-- `at` is the time as it was given, `instant` the same to sort by, `day` its wall-clock day.
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at TEXT NOT NULL,
    instant REAL NOT NULL,
    day INTEGER NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    turns INTEGER NOT NULL,
    cards INTEGER NOT NULL DEFAULT 0,
    quarantined INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    card_tokens INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sessions_by_time ON sessions (instant, key);
CREATE INDEX sessions_by_day ON sessions (day);

-- The words, apart from the rows above so that listing sessions does not read them.
CREATE TABLE texts (
    session INTEGER PRIMARY KEY,
    turns TEXT NOT NULL
);

-- A changed session waits here until its cards are made.
CREATE TABLE incoming (
    session INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    instant REAL NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    length INTEGER NOT NULL,
    turns TEXT NOT NULL
);

CREATE TABLE cards (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    session INTEGER NOT NULL,
    subject TEXT NOT NULL,
    fact TEXT NOT NULL,
    event TEXT NOT NULL,
    event_start INTEGER,
    event_end INTEGER,
    event_precision TEXT NOT NULL,
    status TEXT NOT NULL,
    kind TEXT NOT NULL,
    said_at TEXT NOT NULL,
    turns TEXT NOT NULL
);
CREATE INDEX cards_by_id ON cards (id);
CREATE INDEX cards_by_session ON cards (session);

-- The vectors of one session's cards: int64 keys, float32 rows. One row a session, so that
-- replacing a session replaces a row, and a search reads few rows. `first` rises with time.
CREATE TABLE card_chunks (
    first INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    day INTEGER NOT NULL,
    keys BLOB NOT NULL,
    vectors BLOB
);
CREATE INDEX card_chunks_by_session ON card_chunks (session);

-- The source index, likewise; `spans` holds an int32 (turn, start, end) for each key.
CREATE TABLE passage_chunks (
    first INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    day INTEGER NOT NULL,
    keys BLOB NOT NULL,
    spans BLOB NOT NULL,
    vectors BLOB
);
CREATE INDEX passage_chunks_by_session ON passage_chunks (session);

-- Contentless: the words are above already, and would have to be forgotten twice.
CREATE VIRTUAL TABLE card_words USING fts5 (
    text, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE passage_words USING fts5 (
    text, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE quarantine (
    session INTEGER NOT NULL,
    subject TEXT NOT NULL,
    fact TEXT NOT NULL,
    reason TEXT NOT NULL
);
CREATE INDEX quarantine_by_session ON quarantine (session);

-- Ids of cards forgotten on their own. An id is a hash: none of the words stay.
CREATE TABLE forgotten (
    id TEXT PRIMARY KEY
) WITHOUT ROWID;
