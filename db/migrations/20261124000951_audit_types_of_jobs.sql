-- migrate:up
-- The filter of a job may have a message type, which is shown. Replacing the trigger locks this small table for a moment.
CREATE OR REPLACE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'task_job', 'id', 'done,skipped,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to'
);

-- migrate:down
CREATE OR REPLACE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'task_job', 'id', 'done,skipped,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,sender_no,delivery,company_no,result,created_from,created_to'
);
