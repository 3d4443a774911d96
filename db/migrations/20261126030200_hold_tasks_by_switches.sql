-- migrate:up
-- Makes functions, and an index and a trigger of a small table (100,000 users at most): locks users for a moment.
--
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion
CREATE INDEX users_disabled_idx ON users (username) WHERE is_disabled;

-- task_submitter is the user whose task it is. Dynamic SQL, so that the planner opens one partition of messages.
CREATE FUNCTION task_submitter(of_task text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    submitter text;
BEGIN
    EXECUTE format('SELECT m.submitted_by FROM messages m WHERE m.task_id = %L', of_task) INTO submitter;
    RETURN submitter;
END
$$;
COMMENT ON FUNCTION task_submitter(text) IS
    'The user whose task it is, of a task that was stored by a server that did not know queue.submitted_by.';

-- task_switches has one SELECT and no volatile function: the planner puts it in the place of its call.
CREATE FUNCTION task_switches(of_pool bigint, of_company bigint, of_country text, of_submitter text)
RETURNS TABLE (switch text, name text) LANGUAGE sql STABLE AS $$
    SELECT 'company', c.company_no FROM companies c WHERE c.id = of_company AND c.status = 'off'
    UNION ALL
    SELECT 'user', u.username FROM users u WHERE u.username = of_submitter AND u.is_disabled
    UNION ALL
    SELECT 'channel', k.channel FROM pools p JOIN channels k ON k.id = p.channel_id WHERE p.id = of_pool AND k.status = 'off'
    UNION ALL
    SELECT 'country', n.country_no FROM countries n WHERE n.country_no = of_country AND n.status = 'off'
    UNION ALL
    SELECT 'company_country', coalesce(of_country, '')
    FROM pools p
    JOIN channels k ON k.id = p.channel_id AND k.channel = 'sms' -- only its recipients have countries
    JOIN companies c ON c.id = of_company
    WHERE p.id = of_pool AND CASE
        WHEN EXISTS (SELECT FROM company_countries x WHERE x.company_id = of_company AND x.status = 'on') THEN NOT EXISTS (
            SELECT FROM countries n JOIN company_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.company_id = of_company AND x.status = 'on'
        )
        WHEN c.any_country THEN EXISTS (
            SELECT FROM countries n JOIN company_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.company_id = of_company AND x.status = 'off'
        )
        ELSE true
    END
    UNION ALL
    SELECT 'channel_country', coalesce(of_country, '')
    FROM pools p
    JOIN channels k ON k.id = p.channel_id AND k.channel = 'sms'
    WHERE p.id = of_pool AND CASE
        WHEN EXISTS (SELECT FROM channel_countries x WHERE x.channel_id = k.id AND x.status = 'on') THEN NOT EXISTS (
            SELECT FROM countries n JOIN channel_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.channel_id = k.id AND x.status = 'on'
        )
        WHEN k.any_country THEN EXISTS (
            SELECT FROM countries n JOIN channel_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.channel_id = k.id AND x.status = 'off'
        )
        ELSE true
    END
    UNION ALL
    SELECT 'shared_senders', c.company_no
    FROM pools p
    JOIN companies c ON c.id = of_company
    WHERE p.id = of_pool AND p.company_id IS NULL AND p.retired_at IS NULL AND NOT c.uses_shared_senders
$$;
COMMENT ON FUNCTION task_switches(bigint, bigint, text, text) IS
    'The switches that hold a task of a pool, company, country (null: that of the number is not known) and submitter: what is off, and its name. shared_senders: no route of the company serves the task, and shared senders may not. No row: nothing holds it.';

CREATE VIEW switches AS
SELECT
    EXISTS (SELECT FROM companies c WHERE c.status = 'off' OR NOT c.uses_shared_senders OR NOT c.any_country)
    OR EXISTS (SELECT FROM countries c WHERE c.status = 'off')
    OR EXISTS (SELECT FROM channels c WHERE c.status = 'off' OR NOT c.any_country)
    OR EXISTS (SELECT FROM company_countries) OR EXISTS (SELECT FROM channel_countries) AS may_hold,
    EXISTS (SELECT FROM users u WHERE u.is_disabled) AS has_disabled_users;
COMMENT ON VIEW switches IS
    'View: one row: whether task_switches may return anything for any task: may_hold, but for users; has_disabled_users, for users. Claims read it, so that they ask only then: disabled users are usual.';

CREATE FUNCTION queue_transactions() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT DISTINCT l.virtualtransaction FROM pg_locks l
    WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.relation = 'queue'::regclass
        AND l.mode = 'RowShareLock' AND l.granted AND l.pid <> pg_backend_pid()
$$;
COMMENT ON FUNCTION queue_transactions() IS
    'The open transactions that lock rows of queue, as claims do. A claim that began before a change of the directory may hand out what the change holds; one that begins later does not.';

-- Companies, users and the others that are switched change the directory, so that one version stands for all. The row must exist: a statement that
-- holds tasks locks it, and a change of the directory waits for that lock.
INSERT INTO directory_version (version) VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING;
CREATE CONSTRAINT TRIGGER directory_changed AFTER UPDATE OF is_disabled ON users
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.is_disabled <> NEW.is_disabled) EXECUTE FUNCTION directory_version_change();

CREATE TABLE lock_follow_switches ();
COMMENT ON TABLE lock_follow_switches IS
    'no rows: a server locks the table while it runs the sweep follow-switches, so that it runs on one server at a time';

CREATE OR REPLACE FUNCTION audit_countries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (action, entity, entity_key, company_no, before, after)
    SELECT 'changed', TG_ARGV[0], o.named ->> TG_ARGV[2], o.named ->> 'company_no',
        CASE TG_OP WHEN 'DELETE' THEN o.countries ELSE '{}' END, CASE TG_OP WHEN 'INSERT' THEN o.countries ELSE '{}' END
    FROM (
        SELECT audit_named(jsonb_build_object(TG_ARGV[1], l.link -> TG_ARGV[1])) AS named,
            jsonb_strip_nulls(jsonb_build_object(
                'countries',
                jsonb_agg(coalesce(c.country_no, '#' || (l.link ->> 'country_id')) ORDER BY c.country_no) FILTER (WHERE l.link ->> 'status' = 'on'),
                'countries_off',
                jsonb_agg(coalesce(c.country_no, '#' || (l.link ->> 'country_id')) ORDER BY c.country_no) FILTER (WHERE l.link ->> 'status' = 'off')
            )) AS countries
        FROM (SELECT to_jsonb(a) AS link FROM links a) l
        LEFT JOIN countries c ON c.id = (l.link ->> 'country_id')::bigint
        GROUP BY l.link -> TG_ARGV[1]
    ) o;
    RETURN NULL;
END
$$;

-- migrate:down
CREATE OR REPLACE FUNCTION audit_countries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (action, entity, entity_key, company_no, before, after)
    SELECT 'changed', TG_ARGV[0], o.named ->> TG_ARGV[2], o.named ->> 'company_no',
        CASE TG_OP WHEN 'DELETE' THEN o.countries ELSE '{}' END, CASE TG_OP WHEN 'INSERT' THEN o.countries ELSE '{}' END
    FROM (
        SELECT audit_named(jsonb_build_object(TG_ARGV[1], l.link -> TG_ARGV[1])) AS named,
            jsonb_build_object('countries', jsonb_agg(coalesce(c.country_no, '#' || (l.link ->> 'country_id')) ORDER BY c.country_no)) AS countries
        FROM (SELECT to_jsonb(a) AS link FROM links a) l
        LEFT JOIN countries c ON c.id = (l.link ->> 'country_id')::bigint
        GROUP BY l.link -> TG_ARGV[1]
    ) o;
    RETURN NULL;
END
$$;
DROP TABLE IF EXISTS lock_follow_switches; -- the down of a later migration drops all tables of locks
DROP TRIGGER directory_changed ON users;
DROP FUNCTION queue_transactions();
DROP VIEW switches;
DROP FUNCTION task_switches(bigint, bigint, text, text);
DROP FUNCTION task_submitter(text);
DROP INDEX users_disabled_idx;
UPDATE queue t
SET due_at = greatest(now(), t.due_when_resumed), due_when_resumed = NULL
WHERE t.due_at = held_due_at() AND NOT EXISTS (SELECT FROM batches b WHERE b.id = t.batch_id AND b.status = 'paused');
