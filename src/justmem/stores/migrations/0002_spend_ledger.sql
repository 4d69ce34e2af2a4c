-- Tokens spent with language models, by day: a day's limit must survive a restart.
CREATE TABLE spending (
    day TEXT PRIMARY KEY,
    tokens INTEGER NOT NULL DEFAULT 0,
    -- Set aside by work that is under way; given back when its true cost is entered.
    reserved INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
