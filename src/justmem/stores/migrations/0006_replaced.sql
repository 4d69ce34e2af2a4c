-- Words were replaced and what is left of them may still be in the file: it goes with the next
-- sweep. Unlike what was forgotten it is no reason to sweep at the next opening.
ALTER TABLE space ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
