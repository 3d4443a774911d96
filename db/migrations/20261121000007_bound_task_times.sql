-- migrate:up
-- A time without end would be a task that never comes due or is never taken back; one beyond the year 9999 cannot be shown.
ALTER TABLE tasks ADD CONSTRAINT tasks_times_range CHECK (
    due_at BETWEEN timestamptz '1970-01-01 00:00:00Z' AND timestamptz '9999-01-01 00:00:00Z'
    AND lease_until BETWEEN timestamptz '1970-01-01 00:00:00Z' AND timestamptz '9999-01-01 00:00:00Z'
    AND created_at BETWEEN timestamptz '1970-01-01 00:00:00Z' AND timestamptz '9999-01-01 00:00:00Z'
    AND updated_at BETWEEN timestamptz '1970-01-01 00:00:00Z' AND timestamptz '9999-01-01 00:00:00Z'
    AND sent_at BETWEEN timestamptz '1970-01-01 00:00:00Z' AND timestamptz '9999-01-01 00:00:00Z'
    AND reported_at BETWEEN timestamptz '1970-01-01 00:00:00Z' AND timestamptz '9999-01-01 00:00:00Z'
) NOT VALID;

-- migrate:down
ALTER TABLE tasks DROP CONSTRAINT tasks_times_range;
