-- migrate:up
-- Functions that make and drop partitions of messages and report_logs by the days of the task_id. The server makes them ahead; the default
-- partitions keep rows for which none exists. The functions run as their owner: the server's role may not change the schema. They find their
-- tables by the search_path of the migration, whatever the caller's is, and never among the caller's temporary tables.
-- Only roles to which they are granted may call them (db/roles.sql).
CREATE FUNCTION task_day_id(day date) RETURNS text LANGUAGE sql IMMUTABLE
RETURN 'task_' || lpad(extract(year FROM day)::text, 4, '0') || lpad(extract(month FROM day)::text, 2, '0')
    || lpad(extract(day FROM day)::text, 2, '0');

CREATE TABLE task_partitions (
    first_day date NOT NULL,
    last_day date NOT NULL,
    first_id text COLLATE "C" NOT NULL GENERATED ALWAYS AS (task_day_id(first_day)) STORED,
    before_id text COLLATE "C" NOT NULL GENERATED ALWAYS AS (task_day_id(last_day)) STORED,
    created_at timestamptz NOT NULL DEFAULT now(),
    dropped_at timestamptz,
    CONSTRAINT task_partitions_pkey PRIMARY KEY (first_day),
    CONSTRAINT task_partitions_days CHECK (last_day > first_day)
);

-- task_partition_make makes the partitions of the days from of_first_day to the one before of_last_day. Rows of these days that are in the default
-- partitions move; meanwhile tasks without a partition wait. It fails if a partition has some of these days.
CREATE FUNCTION task_partition_make(of_first_day date, of_last_day date) RETURNS void
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

-- task_partitions_ahead makes the partitions that are missing from the day of first_at until the one of last_at, each of a day, week or month,
-- and returns how many. Days that have a partition already are left as they are, and so are days before first_at that were dropped.
CREATE FUNCTION task_partitions_ahead(width text, first_at timestamptz, last_at timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    day date := greatest(
        date_trunc(width, first_at AT TIME ZONE 'UTC')::date,
        (SELECT max(p.last_day) FROM task_partitions p WHERE p.dropped_at IS NOT NULL AND p.last_day <= (first_at AT TIME ZONE 'UTC')::date)
    );
    until CONSTANT date := date_trunc('day', last_at AT TIME ZONE 'UTC');
    after date;
    made integer := 0;
BEGIN
    IF width NOT IN ('day', 'week', 'month') THEN
        RAISE EXCEPTION 'partitions are a day, week or month wide, not %', width;
    END IF;
    LOCK TABLE task_partitions IN SHARE ROW EXCLUSIVE MODE; -- one caller at a time
    WHILE day <= until LOOP
        SELECT p.last_day INTO after FROM task_partitions p WHERE p.first_day <= day AND p.last_day > day AND p.dropped_at IS NULL;
        IF after IS NULL THEN
            after := least(
                (date_trunc(width, day::timestamp) + ('1 ' || width)::interval)::date,
                (SELECT min(p.first_day) FROM task_partitions p WHERE p.first_day > day)
            );
            PERFORM task_partition_make(day, after);
            made := made + 1;
        END IF;
        day := after;
    END LOOP;
    RETURN made;
END
$$;

-- task_partition_drop drops the partitions that begin at of_first_day, and returns whether it did. It does not while they may get tasks, up to a
-- day after their last one, and while a task of them is not settled.
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
DECLARE
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY[
        'task_partition_make(date, date)', 'task_partitions_ahead(text, timestamptz, timestamptz)', 'task_partition_drop(date)'
    ] LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = %s, pg_temp', function, current_setting('search_path'));
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END
$$;

COMMENT ON TABLE task_partitions IS
    'The days that have a partition of messages and one of report_logs, or had them. Written by the functions task_partition_make and '
    'task_partition_drop, in the transaction that makes or drops the partitions.';
COMMENT ON COLUMN task_partitions.last_day IS 'the day after its last one';
COMMENT ON COLUMN task_partitions.first_id IS 'the first task_id that the partitions take';
COMMENT ON COLUMN task_partitions.before_id IS 'the first task_id that they do not take any more';
COMMENT ON COLUMN task_partitions.dropped_at IS 'null: the partitions exist';

-- migrate:down
DO $$
DECLARE
    p task_partitions%ROWTYPE;
    parent text;
BEGIN
    ALTER TABLE report_logs DISABLE TRIGGER report_logs_count_inserted;
    FOR p IN SELECT * FROM task_partitions t WHERE t.dropped_at IS NULL LOOP
        FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, parent || substr(p.first_id, 5));
            EXECUTE format('INSERT INTO %I SELECT * FROM %I', parent, parent || substr(p.first_id, 5));
            EXECUTE format('DROP TABLE %I', parent || substr(p.first_id, 5));
        END LOOP;
    END LOOP;
    ALTER TABLE report_logs ENABLE TRIGGER report_logs_count_inserted;
END
$$;
DROP FUNCTION task_partition_drop(date);
DROP FUNCTION task_partitions_ahead(text, timestamptz, timestamptz);
DROP FUNCTION task_partition_make(date, date);
DROP TABLE task_partitions;
DROP FUNCTION task_day_id(date);
