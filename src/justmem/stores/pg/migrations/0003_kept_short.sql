-- Whether the words stay once their cards are made: 'keep' or 'drop'.
ALTER TABLE justmem.spaces ADD COLUMN sources text NOT NULL DEFAULT 'keep';

-- Tokens spent on cards that are not made yet: a session's limit holds over all its attempts.
ALTER TABLE justmem.sessions ADD COLUMN spent bigint NOT NULL DEFAULT 0;
ALTER TABLE justmem.incoming ADD COLUMN spent bigint NOT NULL DEFAULT 0;
