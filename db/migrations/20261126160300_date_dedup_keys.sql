-- migrate:up
-- Dedup keys may end: a setting says after how many days. The default of the column is computed once, so that no row is rewritten: those that exist count
-- from today. Adding it locks dedup_keys for a moment. A server of the version before adds keys without naming the column.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore adding-field-with-default
ALTER TABLE dedup_keys ADD COLUMN made_on date NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')::date;
COMMENT ON COLUMN dedup_keys.made_on IS 'the day (UTC) of the submission; of a key that is older than the column the day of the upgrade';
COMMENT ON TABLE dedup_keys IS
    'The task that a submitter named with a dedup_key. Written by internal/queue with the message, and kept when the message leaves, for as long as the setting '
    'history.dedup_keep_days says.';

-- migrate:down
SET LOCAL lock_timeout = '5s';
COMMENT ON TABLE dedup_keys IS
    'The task that a submitter named with a dedup_key. Written by internal/queue with the message, and kept when the message leaves.';
ALTER TABLE dedup_keys DROP COLUMN made_on;
