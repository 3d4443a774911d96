-- migrate:up
-- Rows of the default partitions that move to a partition of their own are seen at either place, by every statement.
--
-- task_partition_make makes the partitions of the days from of_first_day to the one before of_last_day. Rows of these days that are in the default
-- partitions move; everybody waits meanwhile, because a statement that was planned before would find them in neither. So it gives up when it does
-- not get its locks at once. It fails if a partition has some of these days.
CREATE OR REPLACE FUNCTION task_partition_make(of_first_day date, of_last_day date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    parent text;
    part text;
    first_id CONSTANT text := task_day_id(of_first_day);
    before_id CONSTANT text := task_day_id(of_last_day);
BEGIN
    LOCK TABLE messages_default, report_logs_default IN SHARE UPDATE EXCLUSIVE MODE; -- see task_partition_move
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    IF EXISTS (SELECT FROM messages_default m WHERE m.task_id >= first_id AND m.task_id < before_id)
        OR EXISTS (SELECT FROM report_logs_default r WHERE r.task_id >= first_id AND r.task_id < before_id) THEN
        LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    END IF;
    INSERT INTO task_partitions AS p (first_day, last_day) VALUES (of_first_day, of_last_day)
    ON CONFLICT (first_day) DO UPDATE
    SET last_day = excluded.last_day, created_at = excluded.created_at, history_at = NULL, exported_at = NULL, exported_to = NULL,
        exported_messages = NULL, exported_reports = NULL, imported_at = NULL, dropped_at = NULL
    WHERE p.dropped_at IS NOT NULL;
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        part := parent || substr(first_id, 5);
        -- Nobody may add rows of these days to the default partition until the new one is attached.
        EXECUTE pg_catalog.format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
        EXECUTE pg_catalog.format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
        EXECUTE pg_catalog.format('WITH moved AS (DELETE FROM %I WHERE task_id >= %L AND task_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
            parent || '_default', first_id, before_id, part);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first_id, before_id);
    END LOOP;
END
$$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION task_partition_make(date, date) SET search_path = %s, pg_temp', current_setting('search_path'));
END
$$;

-- migrate:down
CREATE OR REPLACE FUNCTION task_partition_make(of_first_day date, of_last_day date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '5s' AS $$
DECLARE
    parent text;
    part text;
    first_id CONSTANT text := task_day_id(of_first_day);
    before_id CONSTANT text := task_day_id(of_last_day);
BEGIN
    INSERT INTO task_partitions AS p (first_day, last_day) VALUES (of_first_day, of_last_day)
    ON CONFLICT (first_day) DO UPDATE
    SET last_day = excluded.last_day, created_at = excluded.created_at, dropped_at = NULL
    WHERE p.dropped_at IS NOT NULL;
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        part := parent || substr(first_id, 5);
        -- Nobody may add rows of these days to the default partition until the new one is attached.
        EXECUTE pg_catalog.format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
        EXECUTE pg_catalog.format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
        EXECUTE pg_catalog.format('WITH moved AS (DELETE FROM %I WHERE task_id >= %L AND task_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
            parent || '_default', first_id, before_id, part);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first_id, before_id);
    END LOOP;
END
$$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION task_partition_make(date, date) SET search_path = %s, pg_temp', current_setting('search_path'));
END
$$;
