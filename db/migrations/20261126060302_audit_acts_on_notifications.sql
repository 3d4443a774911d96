-- migrate:up
-- Who ends, resumes or deletes the notification of another user is recorded in the transaction of the act. The trigger locks the table for a moment.
-- The acts of its own submitter are in changed_by alone: a business system ends its reminders all the time.
CREATE TRIGGER audited AFTER UPDATE OF ended_as, next_run_at, deleted_at ON notifications
FOR EACH ROW WHEN (current_setting('lksms.actor', true) <> '' AND current_setting('lksms.actor', true) <> NEW.submitted_by)
EXECUTE FUNCTION audit_change('notification', 'id', 'announcement_id,own_payload,run_rendering_id,run_after,remark,changed_by');

-- migrate:down
DROP TRIGGER audited ON notifications;
