-- migrate:up
ALTER TABLE task_jobs ADD COLUMN skipped_by jsonb NOT NULL DEFAULT '{}';
-- The audit leaves out how far a job is.
DROP TRIGGER audited ON task_jobs;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs FOR EACH ROW EXECUTE FUNCTION audit_change(
    'task_job', 'id', 'done,skipped,skipped_by,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to,batch_id,test'
);
COMMENT ON COLUMN task_jobs.skipped IS 'number of tasks whose state did not allow the action';
COMMENT ON COLUMN task_jobs.skipped_by IS
    'skipped by reason, as the API names reasons: {"task.expired": 3}. Tasks that a server skipped which does not know this column are missing';

-- migrate:down
DROP TRIGGER audited ON task_jobs;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs FOR EACH ROW EXECUTE FUNCTION audit_change(
    'task_job', 'id', 'done,skipped,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to,batch_id,test'
);
ALTER TABLE task_jobs DROP COLUMN skipped_by;
COMMENT ON COLUMN task_jobs.skipped IS 'number of tasks whose state did not allow it any more';
