-- migrate:up
-- The lock keeps changes of tasks away until this commits: all tasks are counted anew, in one scan. A server of the version before
-- fails to fold until it is replaced, and counts on.
LOCK TABLE tasks IN SHARE ROW EXCLUSIVE MODE;
ALTER TABLE task_count_changes ADD COLUMN company_id bigint;
DELETE FROM task_count_changes;
-- squawk-ignore adding-not-nullable-field
ALTER TABLE task_count_changes ALTER COLUMN company_id SET NOT NULL;
COMMENT ON COLUMN task_count_changes.company_id IS 'whose tasks these are; no foreign key, which every change of tasks would lock';
INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
SELECT
    company_id, count(*) FILTER (WHERE status = 0 AND retry_count = 0), count(*) FILTER (WHERE status = 0 AND retry_count > 0),
    count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3)
FROM tasks
GROUP BY company_id;

CREATE OR REPLACE FUNCTION task_count_changes_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT
            company_id, count(*) FILTER (WHERE status = 0 AND retry_count = 0), count(*) FILTER (WHERE status = 0 AND retry_count > 0),
            count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3)
        FROM added
        GROUP BY company_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT c.* FROM (
            SELECT
                company_id,
                coalesce(sum(n) FILTER (WHERE status = 0 AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE status = 0 AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE status = 1), 0) AS processing,
                coalesce(sum(n) FILTER (WHERE status = 2), 0) AS success,
                coalesce(sum(n) FILTER (WHERE status = 3), 0) AS failed
            FROM (
                SELECT company_id, status, retry_count, 1 AS n FROM added
                UNION ALL
                SELECT company_id, status, retry_count, -1 FROM removed
            ) x
            GROUP BY company_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing, c.success, c.failed) <> (0, 0, 0, 0, 0);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT
            company_id, -count(*) FILTER (WHERE status = 0 AND retry_count = 0), -count(*) FILTER (WHERE status = 0 AND retry_count > 0),
            -count(*) FILTER (WHERE status = 1), -count(*) FILTER (WHERE status = 2), -count(*) FILTER (WHERE status = 3)
        FROM removed
        GROUP BY company_id;
    ELSE -- TRUNCATE, which nobody else is beside
        DELETE FROM task_count_changes;
    END IF;
    RETURN NULL;
END
$$;

-- migrate:down
LOCK TABLE tasks IN SHARE ROW EXCLUSIVE MODE;
CREATE OR REPLACE FUNCTION task_count_changes_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO task_count_changes
        SELECT
            count(*) FILTER (WHERE status = 0 AND retry_count = 0), count(*) FILTER (WHERE status = 0 AND retry_count > 0),
            count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3)
        FROM added
        HAVING count(*) > 0;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO task_count_changes
        SELECT c.* FROM (
            SELECT
                coalesce(sum(n) FILTER (WHERE status = 0 AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE status = 0 AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE status = 1), 0) AS processing,
                coalesce(sum(n) FILTER (WHERE status = 2), 0) AS success,
                coalesce(sum(n) FILTER (WHERE status = 3), 0) AS failed
            FROM (SELECT status, retry_count, 1 AS n FROM added UNION ALL SELECT status, retry_count, -1 FROM removed) x
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing, c.success, c.failed) <> (0, 0, 0, 0, 0);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO task_count_changes
        SELECT
            -count(*) FILTER (WHERE status = 0 AND retry_count = 0), -count(*) FILTER (WHERE status = 0 AND retry_count > 0),
            -count(*) FILTER (WHERE status = 1), -count(*) FILTER (WHERE status = 2), -count(*) FILTER (WHERE status = 3)
        FROM removed
        HAVING count(*) > 0;
    ELSE -- TRUNCATE, which nobody else is beside
        DELETE FROM task_count_changes;
    END IF;
    RETURN NULL;
END
$$;
ALTER TABLE task_count_changes DROP COLUMN company_id;
