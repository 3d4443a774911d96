-- migrate:up
-- What callers create and what stays until somebody deletes it has a bound: for its company, for its user, or for all together. The
-- bounds are the arguments of the triggers below. They are far above what an honest caller needs, and small enough for the code that reads
-- a whole table or lists it without pages. The new column and the triggers lock these small tables for a moment. Building the index of
-- notifications reads that table and keeps writers out meanwhile.

-- rows_bound refuses the rows that a statement added, if there are more then than the first argument allows. The second names the column
-- of those among which rows are counted; without it all count. Two transactions at once do not see each other's rows, so both may add the
-- last one.
CREATE FUNCTION rows_bound() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan TO 'off' -- where an index tells the rows of a company, a small one must not pay for those of the others
SET jit TO 'off' -- which would compile for a tenth of a second where no index does, as with senders
AS $$
DECLARE
    most bigint := TG_ARGV[0];
    is_passed boolean;
BEGIN
    EXECUTE format(
        'SELECT EXISTS (
            SELECT FROM (SELECT DISTINCT %2$s AS owner FROM added) a
            WHERE (SELECT count(*) FROM (SELECT FROM %1$s WHERE %2$s = a.owner LIMIT $1 + 1) r) > $1
        )', TG_RELID::regclass, coalesce(TG_ARGV[1], 'true')
    ) INTO is_passed USING most;
    IF is_passed THEN
        RAISE EXCEPTION '% holds as many rows as it may', TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = 'rows_bound', TABLE = TG_TABLE_NAME, DETAIL = most::text;
    END IF;
    RETURN NULL;
END
$$;

-- An app that polls needs no admin to be registered. So those that did have a bound of their own, and cannot use up that of the others.
ALTER TABLE senders ADD COLUMN is_self_registered boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN senders.is_self_registered IS
    'whether an app made it by polling; false also for those from before this column';

-- Every server keeps these in memory, and reads them all when one of them changes.
CREATE TRIGGER companies_rows_bound AFTER INSERT ON companies
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(10000);
CREATE TRIGGER channels_rows_bound AFTER INSERT ON channels
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000);
CREATE TRIGGER countries_rows_bound AFTER INSERT ON countries
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000);
CREATE TRIGGER senders_rows_bound AFTER INSERT ON senders
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(10000, is_self_registered);
CREATE TRIGGER routes_rows_bound AFTER INSERT ON routes
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100000);
-- A route makes its pool, which is kept for 30 days after its last route was deleted.
CREATE TRIGGER pools_rows_bound AFTER INSERT ON pools
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(200000);

-- Each of 20000 senders may have a user of its own, beside those of systems and people.
CREATE TRIGGER users_rows_bound AFTER INSERT ON users
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100000);
-- The keys of a user are one list without pages.
CREATE TRIGGER api_keys_rows_bound AFTER INSERT ON api_keys
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000, user_id);

-- A submission looks for the first template that is active, and passes those that are not.
CREATE TRIGGER templates_rows_bound AFTER INSERT ON templates
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(10000);
-- One list without pages.
CREATE TRIGGER notification_templates_rows_bound AFTER INSERT ON notification_templates
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(10000);

-- People whom a company reaches: about 30 MB of rows and index.
CREATE TRIGGER default_contents_rows_bound AFTER INSERT ON default_contents
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100000, company_id);
CREATE TRIGGER contacts_rows_bound AFTER INSERT ON contacts
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100000, company_id);

-- Notifications that wait for their time are counted once for a request, which may make thousands of them.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX notifications_waiting_idx ON notifications (company_id) WHERE next_run_at IS NOT NULL;

-- migrate:down
DROP INDEX notifications_waiting_idx;
DROP TRIGGER contacts_rows_bound ON contacts;
DROP TRIGGER default_contents_rows_bound ON default_contents;
DROP TRIGGER notification_templates_rows_bound ON notification_templates;
DROP TRIGGER templates_rows_bound ON templates;
DROP TRIGGER api_keys_rows_bound ON api_keys;
DROP TRIGGER users_rows_bound ON users;
DROP TRIGGER pools_rows_bound ON pools;
DROP TRIGGER routes_rows_bound ON routes;
DROP TRIGGER senders_rows_bound ON senders;
DROP TRIGGER countries_rows_bound ON countries;
DROP TRIGGER channels_rows_bound ON channels;
DROP TRIGGER companies_rows_bound ON companies;
ALTER TABLE senders DROP COLUMN is_self_registered;
DROP FUNCTION rows_bound;
