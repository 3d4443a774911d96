-- migrate:up
-- Rules and receivers of alerts, and jobs, are set by administrators. Making the triggers locks each of these small tables for a moment.
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON alert_rules
FOR EACH ROW EXECUTE FUNCTION audit_change('alert_rule', 'id');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON alert_receivers
FOR EACH ROW EXECUTE FUNCTION audit_change('alert_receiver', 'id', '', 'sealed_authorization');
-- A sweep writes all other columns.
CREATE TRIGGER audited AFTER UPDATE OF acknowledged_at ON alerts
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'alert', 'id',
    'rule_id,kind,level,subject,company_no,channel,sender_no,value,threshold,started_at,seen_at,fired_at,cleared_at,resolved_at,ended_by,acknowledged_at,'
    'only_own_channel'
);
-- A sweep writes how far a job is. The filter may have a phone number: its fields are hidden for themselves.
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'task_job', 'id', 'done,skipped,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,sender_no,delivery,company_no,result,created_from,created_to'
);

-- migrate:down
DROP TRIGGER audited ON task_jobs;
DROP TRIGGER audited ON alerts;
DROP TRIGGER audited ON alert_receivers;
DROP TRIGGER audited ON alert_rules;
