-- migrate:up
-- Servers keep the directory in memory. The last transaction that changed it tells them whether what they keep is still so. The triggers
-- run when a transaction commits, so that it holds the one row for no longer than that. Making them locks each of these small tables
-- for a moment.
CREATE TABLE directory_version (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT directory_version_is_one_row CHECK (is_only),
    version xid8 NOT NULL
);
COMMENT ON TABLE directory_version IS
    'the last transaction that changed companies, channels, countries, pools, routes, or what counts of senders to others; none: no row';

CREATE FUNCTION directory_version_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO directory_version AS v (version) VALUES (pg_current_xact_id())
    ON CONFLICT (is_only) DO UPDATE SET version = excluded.version WHERE v.version <> excluded.version;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR UPDATE OR DELETE ON companies
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION directory_version_change();
CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR UPDATE OR DELETE ON channels
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION directory_version_change();
CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR UPDATE OR DELETE ON countries
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION directory_version_change();
CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR UPDATE OF retired_at OR DELETE ON pools
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION directory_version_change();
-- Claims write what routes were served all the time.
CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR UPDATE OF pool_id, sender_id, sort, status OR DELETE ON routes
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION directory_version_change();
-- A thousand apps that poll for the first time are no news: what they change for others is noticed within a minute.
CREATE CONSTRAINT TRIGGER directory_got_sender AFTER INSERT ON senders
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind <> 'app' OR NEW.sort <> 0) EXECUTE FUNCTION directory_version_change();
CREATE CONSTRAINT TRIGGER directory_changed AFTER UPDATE OR DELETE ON senders
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION directory_version_change();

-- migrate:down
DROP TRIGGER directory_changed ON senders;
DROP TRIGGER directory_got_sender ON senders;
DROP TRIGGER directory_changed ON routes;
DROP TRIGGER directory_changed ON pools;
DROP TRIGGER directory_changed ON countries;
DROP TRIGGER directory_changed ON channels;
DROP TRIGGER directory_changed ON companies;
DROP FUNCTION directory_version_change;
DROP TABLE directory_version;
