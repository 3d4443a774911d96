-- migrate:up
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
CREATE TABLE lock_move_quiet_tasks ();
COMMENT ON TABLE lock_move_quiet_tasks IS 'Has no rows. The server that runs the sweep move-quiet-tasks locks this table.';

-- Tasks from before this migration, and tasks of servers of the former version.
INSERT INTO quiet_changes (begins_at) VALUES (now()), (now() + interval '10 minutes');

-- migrate:down
DROP TABLE lock_move_quiet_tasks;
DROP FUNCTION quiet_hours_change();
DROP TABLE quiet_changes;
