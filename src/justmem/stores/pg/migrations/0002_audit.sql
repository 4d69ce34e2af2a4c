-- Who did what, when: one row each, chained by hashes (see `Entry` in domain.py). No words:
-- `targets` are marks, keyed hashes of ids, parted by spaces; `counts` is JSON. The code makes the
-- partitions, as after the first step.
CREATE TABLE justmem.audit (
    space bigint NOT NULL,
    number bigint NOT NULL,
    at text NOT NULL,
    actor text NOT NULL,
    verb text NOT NULL,
    targets text NOT NULL,
    counts text NOT NULL,
    before text NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (space, number)
) {divided};

-- Against mistakes: an entry is never changed. It goes with its space, and in no other way.
CREATE FUNCTION justmem.audit_is_not_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is only added to';
END
$$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON justmem.audit
    FOR EACH ROW EXECUTE FUNCTION justmem.audit_is_not_changed();

-- The key of the marks: each space has its own, and takes it along when it is erased.
ALTER TABLE justmem.spaces ADD COLUMN audit_key bytea NOT NULL
    DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');
