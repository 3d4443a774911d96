-- migrate:up
-- Locks of servers are locks on empty tables that only the roles of LKSMS may lock. Advisory locks can be taken by every role that may connect, and such
-- a role could stop all sweeps. A lock on a table needs no transaction id, so that a transaction that holds it for long does not hold vacuum back; a
-- lock on a row would. The migration locks no existing table.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        -- one for each sweep that runs on one server at a time
        'age-tasks', 'check-batches', 'compare-statements', 'empty-deleted-tags', 'erase-people', 'evaluate-alert-rules', 'expire-tasks',
        'feed-batches', 'fold-facts', 'forget-audit', 'forget-batches', 'forget-callbacks', 'forget-contact-imports', 'forget-erasures',
        'forget-events', 'forget-feed', 'forget-idempotency-keys', 'forget-reconciliations', 'forget-retired-pools', 'forget-servers',
        'forget-sessions', 'forget-smsgate-messages', 'forget-statistics', 'forget-submissions', 'forget-task-jobs', 'forget-texts',
        'forget-uploads', 'forget-webhooks', 'import-contacts', 'keep-history', 'make-partitions', 'match-receipts',
        'move-tasks-to-their-routes', 'post-webhooks', 'queue-due-tasks', 'recover-zombie-tasks', 'roll-up-statistics', 'run-notifications',
        'run-task-jobs', 'sequence-feed', 'sum-up-ledger', 'take-messages-of-sql', 'tell-alerts',
        -- locks of transactions
        'feed', 'statistics', 'task-jobs'
    ] LOOP
        EXECUTE format('CREATE TABLE %I ()', 'lock_' || replace(name, '-', '_'));
        EXECUTE format('COMMENT ON TABLE %I IS %L', 'lock_' || replace(name, '-', '_'),
            'has no rows: the server that does ' || name || ' locks the table');
    END LOOP;
END $$;

CREATE FUNCTION lock_table_try(locked regclass) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE NOWAIT', locked);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION lock_table_try IS 'locks a table until the end of the transaction, and returns false while another transaction holds that lock';

CREATE FUNCTION lock_table(locked regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', locked);
END $$;
COMMENT ON FUNCTION lock_table IS 'waits until no other transaction holds the lock of lock_table_try, and holds it until the end of the transaction';

CREATE FUNCTION lock_of_version_before(key bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(key) AND EXISTS (
        SELECT FROM pg_locks l
        JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid::bigint = (key >> 32) & 4294967295
            AND l.objid::bigint = key & 4294967295 AND a.datname = current_database() AND a.usename = current_user
    ) THEN
        PERFORM pg_advisory_xact_lock(key);
    END IF;
END $$;
COMMENT ON FUNCTION lock_of_version_before IS
    'takes an advisory lock that servers of the version before take, and waits for it while one of them holds it. It ignores the lock of another role. The next version drops it';

-- Business events of the same task wait for each other at a row, which the hash of the task chooses.
CREATE TABLE business_locks (slot smallint CONSTRAINT business_locks_pkey PRIMARY KEY);
COMMENT ON TABLE business_locks IS 'one row is locked by the transaction that takes business events of the tasks whose hash modulo 256 is its slot; the rows never change';
INSERT INTO business_locks SELECT generate_series(0, 255);

-- migrate:down
DROP TABLE business_locks;
DROP FUNCTION lock_of_version_before;
DROP FUNCTION lock_table;
DROP FUNCTION lock_table_try;
DO $$
DECLARE
    lock regclass;
BEGIN
    FOR lock IN SELECT c.oid FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname LIKE 'lock\_%' LOOP
        EXECUTE format('DROP TABLE %s', lock);
    END LOOP;
END $$;
