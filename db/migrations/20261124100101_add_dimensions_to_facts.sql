-- migrate:up
-- What happens to tasks is counted by the batch and the country of the task too, and tests apart. The triggers compute this from the rows that a
-- statement changed anyway. A server of the version before would fold facts without these columns: none runs meanwhile. Adding the columns locks facts
-- for a moment, and rewrites nothing. Each of these migrations locks one table, see measure_waits_of_queue.
SET LOCAL lock_timeout = '5s';
ALTER TABLE facts
    ADD COLUMN batch_id bigint,
    ADD COLUMN country_no text,
    ADD COLUMN is_test boolean NOT NULL DEFAULT false;
COMMENT ON TABLE facts IS
    'What one statement changed of the tasks of one company, pool, type, country and batch that one sender holds, held or reported; or of tasks that '
    'no sender holds. Tests are apart. Written by triggers of queue and report_logs only. internal/history deletes the rows within seconds, and adds '
    'them to the figures of all consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a row that is '
    'deleted is consumed exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
COMMENT ON COLUMN facts.batch_id IS 'as messages.batch_id; null: none';
COMMENT ON COLUMN facts.country_no IS 'as messages.country_no; null: none';
COMMENT ON COLUMN facts.is_test IS 'as messages.is_test';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE facts DROP COLUMN batch_id, DROP COLUMN country_no, DROP COLUMN is_test;
COMMENT ON TABLE facts IS
    'What one statement changed of the tasks of one company, pool and type that one sender holds, held or reported; or of tasks that no sender '
    'holds. Written by triggers of queue and report_logs only. internal/history deletes the rows within seconds, and adds them to the figures of '
    'all consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a row that is deleted is '
    'consumed exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
