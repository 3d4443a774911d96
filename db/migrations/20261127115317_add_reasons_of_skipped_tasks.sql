-- migrate:up
ALTER TABLE task_jobs ADD COLUMN skipped_by jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN task_jobs.skipped IS 'number of tasks whose state did not allow the action';
COMMENT ON COLUMN task_jobs.skipped_by IS
    'skipped by reason, as the API names reasons: {"task.expired": 3}. Tasks that a server skipped which does not know this column are missing';

-- migrate:down
ALTER TABLE task_jobs DROP COLUMN skipped_by;
COMMENT ON COLUMN task_jobs.skipped IS 'number of tasks whose state did not allow it any more';
