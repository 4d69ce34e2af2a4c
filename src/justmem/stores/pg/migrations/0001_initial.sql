-- Every table is led by `space`, a hash of the space's name, and divided by it. After this step
-- the code makes the partitions and switches row-level security on for each (see schema.py).

CREATE TABLE justmem.spaces (
    space bigint NOT NULL PRIMARY KEY,
    name text NOT NULL,
    embedder text NOT NULL DEFAULT '',
    language text NOT NULL DEFAULT 'porter',
    dim integer NOT NULL DEFAULT 0,
    -- Keys are never given twice, so that a key held across a change cannot mean another card.
    next_session bigint NOT NULL DEFAULT 1,
    next_card bigint NOT NULL DEFAULT 1,
    next_passage bigint NOT NULL DEFAULT 1,
    -- Sums over all sessions, kept here because every question asks for them. The last four are
    -- what BM25 needs: how many texts there are, and how many words in them.
    tokens bigint NOT NULL DEFAULT 0,
    cards bigint NOT NULL DEFAULT 0,
    passages bigint NOT NULL DEFAULT 0,
    card_length bigint NOT NULL DEFAULT 0,
    passage_length bigint NOT NULL DEFAULT 0,
    -- No session is of a later day; forgetting leaves it as it is.
    last_day integer NOT NULL DEFAULT 0,
    -- 1: its vectors are also written to partitions of their own. 2: these are complete and
    -- indexed, and searched.
    promoted smallint NOT NULL DEFAULT 0
) {divided};

-- `at` is the time as it was given, `instant` the same to sort by, `day` its wall-clock day.
CREATE TABLE justmem.sessions (
    space bigint NOT NULL,
    key bigint NOT NULL,
    instant double precision NOT NULL,
    tokens bigint NOT NULL DEFAULT 0,
    card_tokens bigint NOT NULL DEFAULT 0,
    day integer NOT NULL,
    turns integer NOT NULL,
    cards integer NOT NULL DEFAULT 0,
    passages integer NOT NULL DEFAULT 0,
    quarantined integer NOT NULL DEFAULT 0,
    card_length integer NOT NULL DEFAULT 0,
    passage_length integer NOT NULL DEFAULT 0,
    id text NOT NULL,
    at text NOT NULL,
    digest text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL DEFAULT '',
    PRIMARY KEY (space, key),
    UNIQUE (space, id)
) {divided};
CREATE INDEX sessions_by_time ON justmem.sessions (space, instant, key);

-- The words, apart from the rows above so that listing sessions does not read them. JSON as text:
-- PostgreSQL's own JSON types cannot hold every character.
CREATE TABLE justmem.texts (
    space bigint NOT NULL,
    session bigint NOT NULL,
    turns text NOT NULL,
    PRIMARY KEY (space, session)
) {divided};

-- A changed session waits here until its cards are made.
CREATE TABLE justmem.incoming (
    space bigint NOT NULL,
    session bigint NOT NULL,
    instant double precision NOT NULL,
    length integer NOT NULL,
    at text NOT NULL,
    digest text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL DEFAULT '',
    turns text NOT NULL,
    PRIMARY KEY (space, session)
) {divided};

-- A card and its vector are one row: neither can be left behind.
CREATE TABLE justmem.cards (
    space bigint NOT NULL,
    key bigint NOT NULL,
    session bigint NOT NULL,
    day integer NOT NULL,
    event_start integer,
    event_end integer,
    id text NOT NULL,
    subject text NOT NULL,
    fact text NOT NULL,
    event text NOT NULL,
    event_precision text NOT NULL,
    status text NOT NULL,
    kind text NOT NULL,
    said_at text NOT NULL,
    turns text NOT NULL,
    folded text NOT NULL,
    vector vector,
    PRIMARY KEY (space, key)
) {divided};
CREATE INDEX cards_by_id ON justmem.cards (space, id);
CREATE INDEX cards_by_session ON justmem.cards (space, session);

-- The source index: a stretch of a turn.
CREATE TABLE justmem.passages (
    space bigint NOT NULL,
    key bigint NOT NULL,
    session bigint NOT NULL,
    day integer NOT NULL,
    turn integer NOT NULL,
    start integer NOT NULL,
    stop integer NOT NULL,
    vector vector,
    PRIMARY KEY (space, key)
) {divided};
CREATE INDEX passages_by_session ON justmem.passages (space, session);

-- Which texts of a session hold a word. `found` packs for each of them its key, how often the
-- word occurs and how long the text is: key << 24 | times << 16 | length.
CREATE TABLE justmem.card_words (
    space bigint NOT NULL,
    session bigint NOT NULL,
    word text COLLATE "C" NOT NULL,
    found bigint[] NOT NULL,
    PRIMARY KEY (space, word, session)
) {divided};
CREATE INDEX card_words_by_session ON justmem.card_words (space, session);

CREATE TABLE justmem.passage_words (
    space bigint NOT NULL,
    session bigint NOT NULL,
    word text COLLATE "C" NOT NULL,
    found bigint[] NOT NULL,
    PRIMARY KEY (space, word, session)
) {divided};
CREATE INDEX passage_words_by_session ON justmem.passage_words (space, session);

CREATE TABLE justmem.quarantine (
    space bigint NOT NULL,
    session bigint NOT NULL,
    place integer NOT NULL,
    subject text NOT NULL,
    fact text NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (space, session, place)
) {divided};

-- Ids of cards forgotten on their own. An id is a hash: none of the words stay.
CREATE TABLE justmem.forgotten (
    space bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (space, id)
) {divided};

-- Tokens spent with language models, by day.
CREATE TABLE justmem.spending (
    space bigint NOT NULL,
    day date NOT NULL,
    tokens bigint NOT NULL DEFAULT 0,
    -- Set aside by work that is under way; given back when its true cost is entered.
    reserved bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (space, day)
) {divided};

-- Marks of writes that must not be done twice, kept for an hour.
CREATE TABLE justmem.marks (
    space bigint NOT NULL,
    id text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (space, id)
) {divided};

-- Sessions whose cards are still to be made. `due` is when one may be taken: a worker that takes
-- it moves `due` ahead, again and again while it works, so that a crash gives it back.
CREATE TABLE justmem.queue (
    space bigint NOT NULL,
    session bigint NOT NULL,
    due timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    owner text,
    PRIMARY KEY (space, session)
) {divided};
CREATE INDEX queue_by_due ON justmem.queue (due);

-- Vectors of promoted spaces again, each space in a partition of its own.
CREATE TABLE justmem.promoted_cards (
    space bigint NOT NULL,
    key bigint NOT NULL,
    day integer NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (space, key)
) PARTITION BY LIST (space);
CREATE TABLE justmem.promoted_passages (
    space bigint NOT NULL,
    key bigint NOT NULL,
    day integer NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (space, key)
) PARTITION BY LIST (space);
