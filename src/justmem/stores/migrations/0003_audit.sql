-- Who did what, when: one row each, chained by hashes (see `Entry` in domain.py). No words:
-- `targets` are marks, keyed hashes of ids, parted by spaces; `counts` is JSON.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    verb TEXT NOT NULL,
    targets TEXT NOT NULL,
    counts TEXT NOT NULL,
    before TEXT NOT NULL,
    hash TEXT NOT NULL
);

-- Against mistakes. Whoever means harm can drop these, and the chain shows it.
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
CREATE TRIGGER audit_is_not_cut BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;

-- The key of the marks. It goes with the space, and with it all that an entry kept elsewhere
-- could be compared to.
CREATE TABLE audit_key (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    key BLOB NOT NULL
);
INSERT INTO audit_key (only_row, key) VALUES (1, randomblob(32));
