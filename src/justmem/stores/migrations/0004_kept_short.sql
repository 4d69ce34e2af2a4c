-- Whether the words stay once their cards are made: 'keep' or 'drop'.
ALTER TABLE space ADD COLUMN sources TEXT NOT NULL DEFAULT 'keep';

-- Tokens spent on cards that are not made yet: a session's limit holds over all its attempts.
ALTER TABLE sessions ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE incoming ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;
