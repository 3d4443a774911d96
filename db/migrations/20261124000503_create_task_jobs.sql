-- migrate:up
-- squawk-ignore-file prefer-bigint-over-int
-- A job has at most a million tasks.
CREATE TABLE task_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY,
    action text NOT NULL,
    filter jsonb NOT NULL,
    remark text,
    total integer NOT NULL,
    done integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'running',
    created_by text NOT NULL,
    stopped_by text,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT task_jobs_pkey PRIMARY KEY (id),
    CONSTRAINT task_jobs_action_known CHECK (action IN ('cancel', 'requeue')),
    CONSTRAINT task_jobs_status_known CHECK (status IN ('running', 'finished', 'stopped')),
    CONSTRAINT task_jobs_finished_at_set CHECK ((status = 'running') = (finished_at IS NULL)),
    CONSTRAINT task_jobs_progress CHECK (
        total > 0 AND done >= 0 AND skipped >= 0 AND failed >= 0 AND done + skipped + failed <= total
        AND (status <> 'finished' OR done + skipped + failed = total)
    ),
    CONSTRAINT task_jobs_remark_length CHECK (char_length(remark) BETWEEN 1 AND 200)
);
CREATE INDEX task_jobs_running_idx ON task_jobs (id) WHERE status = 'running';
COMMENT ON TABLE task_jobs IS
    'A request to cancel or requeue all tasks of a filter, and how far it is. Written by internal/job; a batch of tasks and the numbers that count '
    'it are changed in one transaction.';
COMMENT ON COLUMN task_jobs.filter IS 'as the request gave it; the tasks that it selected then are in task_job_parts';
COMMENT ON COLUMN task_jobs.total IS 'number of tasks that the filter selected when the job was created';
COMMENT ON COLUMN task_jobs.done IS 'number of tasks that the job cancelled or requeued';
COMMENT ON COLUMN task_jobs.skipped IS 'number of tasks whose state did not allow it any more';
COMMENT ON COLUMN task_jobs.failed IS 'number of tasks of which the database refused the change';
COMMENT ON COLUMN task_jobs.stopped_by IS 'the user who stopped the job; null: nobody did';

CREATE TABLE task_job_parts (
    job_id bigint NOT NULL,
    part integer NOT NULL,
    task_ids text[] NOT NULL,
    CONSTRAINT task_job_parts_pkey PRIMARY KEY (job_id, part),
    CONSTRAINT task_job_parts_job_id_fkey FOREIGN KEY (job_id) REFERENCES task_jobs (id) ON DELETE CASCADE
);
COMMENT ON TABLE task_job_parts IS
    'Tasks that a job has not changed yet, some hundred in the order of their ids. Written by internal/job, which deletes a part in the transaction '
    'that changes its tasks.';

-- task_delivery is what providers said of the message of a task: 1 delivered, 2 undelivered, as in the view tasks; null: nothing.
CREATE FUNCTION task_delivery(of_task text) RETURNS smallint LANGUAGE sql STABLE AS $$
    SELECT CASE min(r.effect) WHEN 'delivered' THEN 1 WHEN 'undelivered' THEN 2 END::smallint FROM report_logs r
    WHERE r.task_id = of_task AND r.event = 'receipt' AND r.effect IN ('delivered', 'undelivered')
$$;

-- migrate:down
DROP FUNCTION task_delivery(text);
DROP TABLE task_job_parts;
DROP TABLE task_jobs;
