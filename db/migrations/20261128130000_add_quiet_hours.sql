-- migrate:up
-- Neither table is rewritten, because the new columns have no volatile default. Both tables are locked for a moment.
ALTER TABLE companies ADD COLUMN recipient jsonb DEFAULT '{}' NOT NULL;
COMMENT ON COLUMN companies.recipient IS
    'the company''s own rules about recipients: quiet_hours (hours by message type) and time_zone. A rule that is missing or null is the rule of the platform';

COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at from before the task was held, or moved behind quiet hours. A held task gets it again when it is released; if the time has passed by then, or is null, '
    'the task is due at once. A server that does not know this column leaves old values in it';
ALTER TABLE queue ADD COLUMN quiet_from timestamptz;
COMMENT ON COLUMN queue.quiet_from IS
    'the beginning of the next quiet hours of the recipient. No claim returns the task after this time. The sweep move-quiet-tasks then sets due_at to a time after '
    'the quiet hours, and quiet_from to the beginning of the next ones. epoch: the sweep has not computed the time yet; null: the task has no quiet hours';

CREATE OR REPLACE FUNCTION task_fits(
    task queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval
) RETURNS boolean LANGUAGE sql STABLE
RETURN (task.expires_at IS NULL OR task.expires_at > now() + min_lease)
    AND (task.quiet_from IS NULL OR task.quiet_from > now() + interval '30 seconds')
    AND task.segments >= from_segments
    AND NOT (
        task.segments <= rival_room AND NOT task.failed_app_id IS DISTINCT FROM sender_no
        AND coalesce(task.due_at > now() - retry_max_wait, true)
    );
COMMENT ON FUNCTION task_fits(queue, text, interval, bigint, bigint, interval) IS
    'Returns whether a task can be offered to a sender. The task must not expire within min_lease, quiet hours of its recipient must not begin within 30 seconds '
    '(the lease ends then, and a shorter lease would often end before the report), and the task must have at least from_segments segments. If the last attempt of the task failed with this sender, and the task has at most rival_room segments, the '
    'task is reserved for other senders. It is then offered to this sender only after it has been due for retry_max_wait (null: never).';

CREATE TABLE quiet_changes (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint,
    begins_at timestamptz NOT NULL,
    after_id text COLLATE "C" DEFAULT '' NOT NULL,
    CONSTRAINT quiet_changes_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE quiet_changes IS
    'A change of quiet hours that waiting tasks do not know yet. The sweep move-quiet-tasks sets quiet_from of these tasks, in portions, and deletes the row after '
    'the last portion. Triggers of companies and settings add the rows, internal/dispatch/queue changes and deletes them. There is no foreign key, because it would lock companies; rows of a deleted company have no effect.';
COMMENT ON COLUMN quiet_changes.company_id IS 'only tasks of this company; null: all tasks';
COMMENT ON COLUMN quiet_changes.begins_at IS 'the sweep does not begin earlier';
COMMENT ON COLUMN quiet_changes.after_id IS 'the last task of the previous portion';

CREATE FUNCTION quiet_hours_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of_company bigint := (to_jsonb(NEW) ->> 'id')::bigint; -- null: settings have no id
BEGIN
    -- Servers use the former hours for up to four seconds. The second row finds the tasks that they added in long transactions.
    INSERT INTO quiet_changes (company_id, begins_at) VALUES (of_company, now() + interval '5 seconds'), (of_company, now() + interval '15 seconds');
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION quiet_hours_change() IS 'Records a change of quiet hours, or of their time zone, in quiet_changes.';
CREATE TRIGGER quiet_hours_changed AFTER UPDATE ON companies FOR EACH ROW
    WHEN (old.recipient -> 'quiet_hours' IS DISTINCT FROM new.recipient -> 'quiet_hours' OR old.recipient -> 'time_zone' IS DISTINCT FROM new.recipient -> 'time_zone')
    EXECUTE FUNCTION quiet_hours_change();
CREATE TRIGGER quiet_hours_changed AFTER INSERT OR UPDATE ON settings FOR EACH ROW
    WHEN (new.category = 'recipient' AND starts_with(new.name, 'quiet_hours_') OR new.category = 'monitoring' AND new.name = 'time_zone')
    EXECUTE FUNCTION quiet_hours_change();

CREATE TABLE lock_move_quiet_tasks ();
COMMENT ON TABLE lock_move_quiet_tasks IS 'Has no rows. The server that runs the sweep move-quiet-tasks locks this table.';

-- Tasks from before this migration, and tasks of servers of the former version.
INSERT INTO quiet_changes (begins_at) VALUES (now()), (now() + interval '10 minutes');

-- migrate:down
DROP TABLE lock_move_quiet_tasks;
DROP TRIGGER quiet_hours_changed ON settings;
DROP TRIGGER quiet_hours_changed ON companies;
DROP FUNCTION quiet_hours_change();
DROP TABLE quiet_changes;
CREATE OR REPLACE FUNCTION task_fits(
    task queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval
) RETURNS boolean LANGUAGE sql STABLE
RETURN (task.expires_at IS NULL OR task.expires_at > now() + min_lease)
    AND task.segments >= from_segments
    AND NOT (
        task.segments <= rival_room AND NOT task.failed_app_id IS DISTINCT FROM sender_no
        AND coalesce(task.due_at > now() - retry_max_wait, true)
    );
COMMENT ON FUNCTION task_fits(queue, text, interval, bigint, bigint, interval) IS
    'Returns whether a task can be offered to a sender. The task must not expire within min_lease, and must have at least from_segments segments. If the last attempt of the task failed with this sender, and the task has at most rival_room segments, the task is reserved for other senders. It is then offered to this sender only after it has been due for retry_max_wait (null: never).';
ALTER TABLE queue DROP COLUMN quiet_from;
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at that a held task gets when it is released. If this time has passed by then, or is null, the task is due at once. A server that does not know this column leaves old values in it';
ALTER TABLE companies DROP COLUMN recipient;
