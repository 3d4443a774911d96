-- migrate:up
-- A partition of tasks is dropped although a few of its tasks are not over: these stay behind in the default partitions, under their ids. When the last
-- of them is over, task_partition_gather makes the partition again for them. Adding the columns locks task_partitions for a moment; the functions lock
-- nothing. A server of the version before calls task_partition_drop without late, and drops nothing that is not settled, as it did.
SET LOCAL lock_timeout = '5s';
ALTER TABLE task_partitions
ADD COLUMN exported_late text[],
ADD COLUMN late_tasks bigint,
ADD COLUMN held_by text;
COMMENT ON COLUMN task_partitions.exported_late IS 'the ids, in order, of the tasks that the last export left out because they were not over; null: none';
COMMENT ON COLUMN task_partitions.late_tasks IS 'number of tasks that the drop left behind in the default partition; null: it was not dropped, or by a server that did not know the column';
COMMENT ON COLUMN task_partitions.held_by IS 'why the last run of the sweep could not make it history or drop it: no_folder, too_many_late, locked or failed; null: it could, or did not try';
COMMENT ON COLUMN task_partitions.imported_at IS
    'when it was imported from an export, or made again for the tasks that its drop had left behind: its time to be kept begins anew; null: neither';

-- task_partition_drop drops the partitions that begin at of_first_day, and returns 'dropped', or why it did not: 'absent' if there are none, 'open'
-- if they may get tasks, up to a day after their last one, 'unsettled' if a task of them waits or is leased that is not in late, and, if
-- only_exported, 'unexported' unless their rows without those of late are those of the last export. The rows of the tasks in late stay behind in the
-- default partitions. Readers of these days go on until the files are deleted. It gives up when it does not get a lock soon, because others wait behind
-- it: see task_partition_move.
DROP FUNCTION task_partition_drop(date, boolean);
CREATE FUNCTION task_partition_drop(of_first_day date, only_exported boolean DEFAULT false, late text[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    p task_partitions%ROWTYPE;
    part_of_messages text;
    part_of_reports text;
    is_exported boolean;
    late_messages messages[];
    late_reports report_logs[];
BEGIN
    late := coalesce(late, '{}'); -- with null, no task would wait
    SELECT * INTO p FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'absent';
    END IF;
    IF p.last_day >= (now() AT TIME ZONE 'UTC')::date THEN
        RETURN 'open';
    END IF;
    part_of_messages := 'messages' || substr(p.first_id, 5);
    part_of_reports := 'report_logs' || substr(p.first_id, 5);
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE UPDATE EXCLUSIVE MODE', part_of_messages, part_of_reports);
    PERFORM pg_catalog.set_config('lock_timeout', '500ms', true);
    -- No row can be added from here on. A submission that has stored its message, and not yet its row of the queue, holds a lock of the partition.
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE MODE', part_of_messages, part_of_reports);
    IF EXISTS (SELECT FROM queue q WHERE q.task_id >= p.first_id AND q.task_id < p.before_id AND q.task_id <> ALL (late)) THEN
        RETURN 'unsettled';
    END IF;
    IF only_exported THEN
        -- An export that left out others has as many rows by chance only, but a row of it may be missing then.
        IF late <> '{}' AND late IS DISTINCT FROM p.exported_late THEN
            RETURN 'unexported';
        END IF;
        EXECUTE pg_catalog.format(
            'SELECT (SELECT count(*) FROM %1$I) - (SELECT count(*) FROM %1$I WHERE task_id = ANY ($3)) = $1 '
            'AND (SELECT count(*) FROM %2$I) - (SELECT count(*) FROM %2$I WHERE task_id = ANY ($3)) = $2', part_of_messages, part_of_reports
        )
        INTO is_exported USING p.exported_messages, p.exported_reports, late;
        IF is_exported IS NOT TRUE THEN
            RETURN 'unexported';
        END IF;
    END IF;
    SELECT array_agg(m) INTO late_messages FROM messages m WHERE m.task_id = ANY (late) AND m.task_id >= p.first_id AND m.task_id < p.before_id;
    SELECT array_agg(r) INTO late_reports FROM report_logs r WHERE r.task_id = ANY (late) AND r.task_id >= p.first_id AND r.task_id < p.before_id;
    -- In the order of readers: the table before its partitions. Only now everybody waits.
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    EXECUTE pg_catalog.format('DROP TABLE %I', part_of_messages);
    EXECUTE pg_catalog.format('DROP TABLE %I', part_of_reports);
    -- into the default partitions themselves: through the tables, triggers would count the rows once more
    INSERT INTO messages_default SELECT m.* FROM unnest(late_messages) m;
    INSERT INTO report_logs_default SELECT r.* FROM unnest(late_reports) r;
    UPDATE task_partitions t SET dropped_at = clock_timestamp(), late_tasks = coalesce(cardinality(late_messages), 0), held_by = NULL
    WHERE t.first_day = p.first_day;
    RETURN 'dropped';
END
$$;

-- task_partition_gather makes the partition that begins at of_first_day, and was dropped, again for the tasks that the drop left behind. They are kept
-- from now on as those of other days.
CREATE FUNCTION task_partition_gather(of_first_day date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    of_last_day date;
BEGIN
    LOCK TABLE task_partitions IN SHARE ROW EXCLUSIVE MODE; -- one caller at a time, see task_partitions_ahead
    SELECT t.last_day INTO of_last_day FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NOT NULL;
    IF FOUND THEN
        PERFORM task_partition_make(of_first_day, of_last_day);
        UPDATE task_partitions t SET imported_at = now(), exported_late = NULL, late_tasks = NULL WHERE t.first_day = of_first_day;
    END IF;
END
$$;

-- task_partition_attach makes partitions of the tables of task_partition_stage. Rows of these days in the default partitions, such as a receipt
-- that met the drop, move to them; those of a task that its drop left behind take the place of what the export says of the task. Everybody waits
-- meanwhile, because a statement that finds one of the two partitions must find the other. So it gives up when it does not get its locks at once.
CREATE OR REPLACE FUNCTION task_partition_attach(of_first_day date, of_last_day date) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '3s' AS $$
DECLARE
    parent text;
    part text;
    first_id CONSTANT text := task_day_id(of_first_day);
    before_id CONSTANT text := task_day_id(of_last_day);
BEGIN
    LOCK TABLE messages_default, report_logs_default IN SHARE UPDATE EXCLUSIVE MODE; -- see task_partition_move
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    LOCK TABLE messages_default, report_logs_default IN ACCESS EXCLUSIVE MODE;
    FOREACH parent IN ARRAY ARRAY['report_logs', 'messages'] LOOP -- messages_default last: it says which tasks were left behind
        part := parent || substr(first_id, 5);
        EXECUTE pg_catalog.format(
            'DELETE FROM %I p USING messages_default d WHERE p.task_id = d.task_id AND d.task_id >= %L AND d.task_id < %L', part, first_id, before_id
        );
        EXECUTE pg_catalog.format('WITH moved AS (DELETE FROM %I WHERE task_id >= %L AND task_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
            parent || '_default', first_id, before_id, part);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first_id, before_id);
        EXECUTE pg_catalog.format('ALTER TABLE %I DROP CONSTRAINT days', part);
    END LOOP;
    INSERT INTO task_partitions AS p (first_day, last_day, history_at, imported_at) VALUES (of_first_day, of_last_day, now(), now())
    ON CONFLICT (first_day) DO UPDATE
    SET last_day = excluded.last_day, created_at = excluded.created_at, history_at = excluded.history_at, exported_at = NULL, exported_to = NULL,
        exported_messages = NULL, exported_reports = NULL, exported_late = NULL, late_tasks = NULL, imported_at = excluded.imported_at, dropped_at = NULL;
END
$$;

DO $$
DECLARE
    home CONSTANT regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'messages'::regclass); -- and never "$user"
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY['task_partition_drop(date, boolean, text[])', 'task_partition_gather(date)', 'task_partition_attach(date, date)'] LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = %s, pg_temp', function, home);
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END
$$;

-- migrate:down
-- Tasks that were left behind stay in the default partitions.
SET LOCAL lock_timeout = '5s';
DROP FUNCTION task_partition_gather(date);
DROP FUNCTION task_partition_drop(date, boolean, text[]);
CREATE FUNCTION task_partition_drop(of_first_day date, only_exported boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    p task_partitions%ROWTYPE;
    part_of_messages text;
    part_of_reports text;
    is_exported boolean;
BEGIN
    SELECT * INTO p FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'absent';
    END IF;
    IF p.last_day >= (now() AT TIME ZONE 'UTC')::date THEN
        RETURN 'open';
    END IF;
    part_of_messages := 'messages' || substr(p.first_id, 5);
    part_of_reports := 'report_logs' || substr(p.first_id, 5);
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE UPDATE EXCLUSIVE MODE', part_of_messages, part_of_reports);
    PERFORM pg_catalog.set_config('lock_timeout', '500ms', true);
    -- No row can be added from here on. A submission that has stored its message, and not yet its row of the queue, holds a lock of the partition.
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE MODE', part_of_messages, part_of_reports);
    IF EXISTS (SELECT FROM queue q WHERE q.task_id >= p.first_id AND q.task_id < p.before_id) THEN
        RETURN 'unsettled';
    END IF;
    IF only_exported THEN
        EXECUTE pg_catalog.format('SELECT (SELECT count(*) FROM %I) = $1 AND (SELECT count(*) FROM %I) = $2', part_of_messages, part_of_reports)
        INTO is_exported USING p.exported_messages, p.exported_reports;
        IF is_exported IS NOT TRUE THEN
            RETURN 'unexported';
        END IF;
    END IF;
    -- In the order of readers: the table before its partitions. Only now everybody waits.
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    EXECUTE pg_catalog.format('DROP TABLE %I', part_of_messages);
    EXECUTE pg_catalog.format('DROP TABLE %I', part_of_reports);
    UPDATE task_partitions t SET dropped_at = clock_timestamp() WHERE t.first_day = p.first_day;
    RETURN 'dropped';
END
$$;
CREATE OR REPLACE FUNCTION task_partition_attach(of_first_day date, of_last_day date) RETURNS void LANGUAGE plpgsql SET lock_timeout = '3s' AS $$
DECLARE
    parent text;
    part text;
    first_id CONSTANT text := task_day_id(of_first_day);
    before_id CONSTANT text := task_day_id(of_last_day);
BEGIN
    LOCK TABLE messages_default, report_logs_default IN SHARE UPDATE EXCLUSIVE MODE; -- see task_partition_move
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        part := parent || substr(first_id, 5);
        EXECUTE pg_catalog.format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
        EXECUTE pg_catalog.format('WITH moved AS (DELETE FROM %I WHERE task_id >= %L AND task_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
            parent || '_default', first_id, before_id, part);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first_id, before_id);
        EXECUTE pg_catalog.format('ALTER TABLE %I DROP CONSTRAINT days', part);
    END LOOP;
    INSERT INTO task_partitions AS p (first_day, last_day, history_at, imported_at) VALUES (of_first_day, of_last_day, now(), now())
    ON CONFLICT (first_day) DO UPDATE
    SET last_day = excluded.last_day, created_at = excluded.created_at, history_at = excluded.history_at, exported_at = NULL, exported_to = NULL,
        exported_messages = NULL, exported_reports = NULL, imported_at = excluded.imported_at, dropped_at = NULL;
END
$$;
DO $$
DECLARE
    home CONSTANT regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'messages'::regclass); -- and never "$user"
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY['task_partition_drop(date, boolean)', 'task_partition_attach(date, date)'] LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = %s, pg_temp', function, home);
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END
$$;
COMMENT ON COLUMN task_partitions.imported_at IS 'when it was imported from an export; null: never';
ALTER TABLE task_partitions
DROP COLUMN exported_late,
DROP COLUMN late_tasks,
DROP COLUMN held_by;
