-- migrate:up
-- A notification whose tasks are dropped keeps its state and its dedup key only. Building the index and checking the constraint hold writes to
-- notifications.
ALTER TABLE notifications ADD COLUMN forgotten_at timestamptz;
COMMENT ON COLUMN notifications.forgotten_at IS
    'when its tasks were about to be dropped: it is in no list any more, and has an empty payload; ended_as is its last state; null: not forgotten';
ALTER TABLE notifications DROP CONSTRAINT notifications_ended_as_known;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE notifications ADD CONSTRAINT notifications_ended_as_known CHECK (
    ended_as IN (1, 2, 3, 4) OR (ended_as = 5 AND forgotten_at IS NOT NULL)
);
COMMENT ON COLUMN notifications.ended_as IS
    '1 set to success, 2 could not be sent, 3 cancelled, 4 ended abnormally, 5 partly failed (of a forgotten one); null: the state follows from '
    'the tasks';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX notifications_kept_idx ON notifications (created_at) WHERE forgotten_at IS NULL;

-- migrate:down
DROP INDEX notifications_kept_idx;
UPDATE notifications n SET ended_as = 2 WHERE n.ended_as = 5; -- their dedup keys stay taken
ALTER TABLE notifications DROP CONSTRAINT notifications_ended_as_known;
ALTER TABLE notifications ADD CONSTRAINT notifications_ended_as_known CHECK (ended_as IN (1, 2, 3, 4));
COMMENT ON COLUMN notifications.ended_as IS
    '1 set to success, 2 could not be sent, 3 cancelled, 4 ended abnormally; null: the state follows from the tasks';
ALTER TABLE notifications DROP COLUMN forgotten_at;
