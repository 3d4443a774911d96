-- migrate:up
-- squawk-ignore-file renaming-column
-- total_sent counted claims. It goes on under a name that says so, with what it counted until now; what was sent is what
-- succeeded, which has a column. sent_at was the time of the last claim and is the time of the last SUCCESS from now on: of a
-- sender that never had one it is nothing, of the others it stays until the next. Locks sender_states for a moment.
ALTER TABLE sender_states RENAME COLUMN total_sent TO attempts;
ALTER TABLE sender_states ADD COLUMN attempts_today bigint NOT NULL DEFAULT 0;
ALTER TABLE sender_states ADD COLUMN attempts_on date;
COMMENT ON COLUMN sender_states.attempts IS 'tasks that it was ever given; how many of them were sent is succeeded';
COMMENT ON COLUMN sender_states.attempts_today IS 'tasks that it was given on attempts_on; none on another day';
COMMENT ON COLUMN sender_states.attempts_on IS 'a day of the sender''s time zone';
COMMENT ON COLUMN sender_states.sent_at IS 'when the last SUCCESS was reported';
UPDATE sender_states SET sent_at = NULL WHERE succeeded = 0 AND sent_at IS NOT NULL;

-- migrate:down
ALTER TABLE sender_states DROP COLUMN attempts_today, DROP COLUMN attempts_on;
ALTER TABLE sender_states RENAME COLUMN attempts TO total_sent;
COMMENT ON COLUMN sender_states.total_sent IS NULL;
COMMENT ON COLUMN sender_states.sent_at IS NULL;
