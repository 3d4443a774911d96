-- migrate:up
-- How many tasks are in each state: the sum of these rows. Every statement that changes tasks adds a row in its own
-- transaction, so the sum is exact at any time and no two statements wait for each other; a sweep folds the rows into one.
CREATE TABLE task_count_changes (
    pending_new bigint NOT NULL,
    pending_retry bigint NOT NULL,
    processing bigint NOT NULL,
    success bigint NOT NULL,
    failed bigint NOT NULL
);

CREATE FUNCTION task_count_changes_add() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER tasks_count_inserted AFTER INSERT ON tasks
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION task_count_changes_add();
CREATE TRIGGER tasks_count_updated AFTER UPDATE ON tasks
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION task_count_changes_add();
CREATE TRIGGER tasks_count_deleted AFTER DELETE ON tasks
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION task_count_changes_add();
CREATE TRIGGER tasks_count_truncated AFTER TRUNCATE ON tasks
    FOR EACH STATEMENT EXECUTE FUNCTION task_count_changes_add();

-- The triggers' lock keeps other changes away until this commits.
INSERT INTO task_count_changes
SELECT
    count(*) FILTER (WHERE status = 0 AND retry_count = 0), count(*) FILTER (WHERE status = 0 AND retry_count > 0),
    count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3)
FROM tasks;

-- migrate:down
DROP TRIGGER tasks_count_inserted ON tasks;
DROP TRIGGER tasks_count_updated ON tasks;
DROP TRIGGER tasks_count_deleted ON tasks;
DROP TRIGGER tasks_count_truncated ON tasks;
DROP FUNCTION task_count_changes_add();
DROP TABLE task_count_changes;
