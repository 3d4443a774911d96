-- migrate:up
-- The filter of a job may name a batch, and tests: the audit shows both. This locks task_jobs for a moment.
SET LOCAL lock_timeout = '5s';
DROP TRIGGER audited ON task_jobs;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'task_job', 'id', 'done,skipped,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to,batch_id,test'
);

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER audited ON task_jobs;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'task_job', 'id', 'done,skipped,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to'
);
