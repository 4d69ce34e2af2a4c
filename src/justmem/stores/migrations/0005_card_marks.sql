-- A short hash of the rest of the row, to tell whether a card is still what was stored. Empty on
-- cards that are older than this.
ALTER TABLE cards ADD COLUMN mark TEXT NOT NULL DEFAULT '';
