-- migrate:up
-- Servers remember whose credentials are right, and what their owners may do. The last transaction that changed users or API keys
-- tells them whether what they remember is still so. The triggers run when a transaction commits, so that it holds the one row for
-- no longer than that. Making them locks each of these small tables for a moment.
CREATE TABLE credentials_version (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT credentials_version_is_one_row CHECK (is_only),
    version xid8 NOT NULL
);
COMMENT ON TABLE credentials_version IS
    'the last transaction that changed users or API keys, written by triggers; none: no row';

CREATE FUNCTION credentials_version_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO credentials_version AS v (version) VALUES (pg_current_xact_id())
    ON CONFLICT (is_only) DO UPDATE SET version = excluded.version WHERE v.version <> excluded.version;
    RETURN NULL;
END
$$;

-- Any change of a user counts, so that a column that is added later is not forgotten here. Where users call from is written all the
-- time, but into a table of its own.
CREATE CONSTRAINT TRIGGER credentials_changed AFTER INSERT OR UPDATE OR DELETE ON users
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION credentials_version_change();
-- Only what a key opens counts: when it was last used would be written all the time.
CREATE CONSTRAINT TRIGGER credentials_changed AFTER INSERT OR UPDATE OF user_id, key_hash OR DELETE ON api_keys
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION credentials_version_change();

-- migrate:down
DROP TRIGGER credentials_changed ON api_keys;
DROP TRIGGER credentials_changed ON users;
DROP FUNCTION credentials_version_change;
DROP TABLE credentials_version;
