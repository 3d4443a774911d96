-- migrate:up
-- Partitions of settled tasks become history: they may move to another tablespace, be exported to files, dropped, and imported again. Columns
-- of task_partitions say what happened to each. Adding them locks task_partitions for a moment; the new functions lock nothing.
ALTER TABLE task_partitions
ADD COLUMN history_at timestamptz,
ADD COLUMN exported_at timestamptz,
ADD COLUMN exported_to text,
ADD COLUMN exported_messages bigint,
ADD COLUMN exported_reports bigint,
ADD COLUMN imported_at timestamptz;
COMMENT ON COLUMN task_partitions.history_at IS 'since when it is history: its tasks are settled, and it is where the setting history.tablespace says; null: not yet';
COMMENT ON COLUMN task_partitions.exported_at IS 'when its last export was complete; null: never';
COMMENT ON COLUMN task_partitions.exported_to IS 'the name of the folder of its last export, in the HISTORY_DIR of the server that wrote it';
COMMENT ON COLUMN task_partitions.exported_messages IS 'number of rows of messages in the last export';
COMMENT ON COLUMN task_partitions.exported_reports IS 'number of rows of report_logs in the last export';
COMMENT ON COLUMN task_partitions.imported_at IS 'when it was imported from an export; null: never';

-- task_partition_move moves one table or index of the partitions that begin at of_first_day to a tablespace, and returns whether one was left to
-- move. A partition is moved by one transaction for each of its tables and indexes, so that readers of these days wait for one only. It gives up
-- when it does not get its lock at once, because others wait behind it. Before, it waits longer for the mode that conflicts with vacuum and analyze
-- only: PostgreSQL ends those of autovacuum for somebody who waits a second.
CREATE FUNCTION task_partition_move(of_first_day date, to_tablespace text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    suffix text;
    relation regclass;
    kind "char";
BEGIN
    SELECT substr(t.first_id, 5) INTO STRICT suffix FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NULL;
    SELECT r.oid, r.relkind INTO relation, kind
    FROM pg_class t
    CROSS JOIN LATERAL (
        SELECT t.oid UNION ALL SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = t.oid
    ) x (oid)
    JOIN pg_class r ON r.oid = x.oid
    WHERE t.oid IN (to_regclass('messages' || suffix), to_regclass('report_logs' || suffix))
        -- the tablespace of the database is 0 here
        AND coalesce(nullif(r.reltablespace, 0), (SELECT d.dattablespace FROM pg_database d WHERE d.datname = current_database()))
            <> (SELECT s.oid FROM pg_tablespace s WHERE s.spcname = to_tablespace)
    ORDER BY r.oid
    LIMIT 1;
    IF relation IS NULL THEN
        PERFORM FROM pg_tablespace s WHERE s.spcname = to_tablespace;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'tablespace "%" does not exist', to_tablespace USING ERRCODE = 'undefined_object';
        END IF;
        RETURN false;
    END IF;
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE UPDATE EXCLUSIVE MODE', 'messages' || suffix, 'report_logs' || suffix);
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    EXECUTE pg_catalog.format(
        'ALTER %s %s SET TABLESPACE %I', CASE kind WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END, relation::regclass, to_tablespace
    );
    RETURN true;
END
$$;

-- task_partition_drop drops the partitions that begin at of_first_day, and returns 'dropped', or why it did not: 'absent' if there are none, 'open'
-- if they may get tasks, up to a day after their last one, 'unsettled' if a task of them waits or is leased, and, if only_exported, 'unexported'
-- unless their rows are those of the last export. Readers of these days go on until the files are deleted. It gives up when it does not get a
-- lock soon, because others wait behind it: see task_partition_move.
DROP FUNCTION task_partition_drop(date);
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

-- task_partition_stage makes tables for the rows of the days from of_first_day to the one before of_last_day. When they are filled,
-- task_partition_index and task_partition_attach make partitions of them, in the same transaction. It fails if a partition has some of these days.
-- The tables belong to the owner of the others. What is left of dropped tasks of these days stays until the end of the transaction, because the
-- sweeps that delete it skip a locked row.
CREATE FUNCTION task_partition_stage(of_first_day date, of_last_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
BEGIN
    IF EXISTS (SELECT FROM task_partitions t WHERE t.dropped_at IS NULL AND t.first_day < of_last_day AND t.last_day > of_first_day) THEN
        RAISE EXCEPTION 'there are partitions for % to %', of_first_day, of_last_day - 1 USING ERRCODE = 'duplicate_table';
    END IF;
    PERFORM FROM task_partitions t WHERE t.first_day < of_last_day AND t.last_day > of_first_day ORDER BY t.first_day FOR UPDATE;
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        EXECUTE pg_catalog.format(
            'CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', parent || substr(task_day_id(of_first_day), 5), parent
        );
        EXECUTE pg_catalog.format(
            'ALTER TABLE %I OWNER TO %I', parent || substr(task_day_id(of_first_day), 5),
            (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = parent::regclass)
        );
    END LOOP;
END
$$;

-- task_partition_index builds the indexes of the tables of task_partition_stage, and checks their ids. Nobody else sees these tables.
CREATE FUNCTION task_partition_index(of_first_day date, of_last_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    part text;
    made record;
BEGIN
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        part := parent || substr(task_day_id(of_first_day), 5);
        FOR made IN
            SELECT i.indexrelid, i.indisprimary, c.oid AS constraint_id
            FROM pg_index i
            LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype = 'p'
            WHERE i.indrelid = parent::regclass
            ORDER BY i.indexrelid
        LOOP
            IF made.indisprimary THEN
                EXECUTE pg_catalog.format('ALTER TABLE %I ADD %s', part, pg_get_constraintdef(made.constraint_id));
            ELSE
                EXECUTE regexp_replace(
                    pg_get_indexdef(made.indexrelid), '^CREATE (UNIQUE )?INDEX \S+ ON (ONLY )?\S+', pg_catalog.format('CREATE \1INDEX ON %I', part)
                );
            END IF;
        END LOOP;
        EXECUTE pg_catalog.format(
            'ALTER TABLE %I ADD CONSTRAINT days CHECK (task_id >= %L AND task_id < %L)', part, task_day_id(of_first_day), task_day_id(of_last_day)
        );
        EXECUTE pg_catalog.format('ANALYZE %I', part);
    END LOOP;
END
$$;

-- task_partition_attach makes partitions of the tables of task_partition_stage. Rows of these days in the default partitions, such as a receipt
-- that met the drop, move to them. Everybody waits meanwhile, because a statement that finds one of the two partitions must find the other. So it
-- gives up when it does not get its locks at once.
CREATE FUNCTION task_partition_attach(of_first_day date, of_last_day date) RETURNS void LANGUAGE plpgsql SET lock_timeout = '3s' AS $$
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
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY[
        'task_partition_move(date, text)', 'task_partition_drop(date, boolean)', 'task_partition_stage(date, date)',
        'task_partition_index(date, date)', 'task_partition_attach(date, date)'
    ] LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = %s, pg_temp', function, current_setting('search_path'));
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END
$$;

-- migrate:down
DROP FUNCTION task_partition_attach(date, date);
DROP FUNCTION task_partition_index(date, date);
DROP FUNCTION task_partition_stage(date, date);
DROP FUNCTION task_partition_drop(date, boolean);
DROP FUNCTION task_partition_move(date, text);
CREATE FUNCTION task_partition_drop(of_first_day date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '5s' AS $$
DECLARE
    p task_partitions%ROWTYPE;
BEGIN
    SELECT * INTO p FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NULL FOR UPDATE;
    IF NOT FOUND OR p.last_day >= (now() AT TIME ZONE 'UTC')::date THEN
        RETURN false;
    END IF;
    -- A submission that has stored its message, and not yet its row of the queue, holds a lock of the partition.
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN ACCESS EXCLUSIVE MODE', 'messages' || substr(p.first_id, 5), 'report_logs' || substr(p.first_id, 5));
    IF EXISTS (SELECT FROM queue q WHERE q.task_id >= p.first_id AND q.task_id < p.before_id) THEN
        RETURN false;
    END IF;
    EXECUTE pg_catalog.format('DROP TABLE %I', 'messages' || substr(p.first_id, 5));
    EXECUTE pg_catalog.format('DROP TABLE %I', 'report_logs' || substr(p.first_id, 5));
    UPDATE task_partitions t SET dropped_at = clock_timestamp() WHERE t.first_day = p.first_day;
    RETURN true;
END
$$;
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION task_partition_drop(date) SET search_path = %s, pg_temp', current_setting('search_path'));
END
$$;
REVOKE ALL ON FUNCTION task_partition_drop(date) FROM PUBLIC;
ALTER TABLE task_partitions
DROP COLUMN history_at,
DROP COLUMN exported_at,
DROP COLUMN exported_to,
DROP COLUMN exported_messages,
DROP COLUMN exported_reports,
DROP COLUMN imported_at;
