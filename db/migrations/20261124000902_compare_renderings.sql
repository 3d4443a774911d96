-- migrate:up
-- Which message of a notification is the later one is said by its rendering, whose number comes from one sequence. Ids of tasks come from the clocks
-- of servers, which may differ.
CREATE OR REPLACE FUNCTION task_is_withdrawn(of_task text, of_company bigint, of_rendering bigint, of_user text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    notification bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM companies c WHERE c.id = of_company) THEN
        RETURN true;
    END IF;
    IF of_rendering IS NULL THEN
        RETURN false;
    END IF;
    SELECT r.notification_id INTO notification FROM renderings r WHERE r.id = of_rendering;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF notification IS NULL THEN
        RETURN NOT EXISTS (SELECT FROM subscribe_messages s WHERE s.task_id = of_task);
    END IF;
    RETURN NOT EXISTS (
            SELECT FROM notifications n
            WHERE n.id = notification AND n.ended_as IS NULL AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
        )
        OR EXISTS (
            SELECT FROM renderings l
            JOIN messages m ON m.rendering_id = l.id
            WHERE l.notification_id = notification AND l.id > of_rendering AND m.user_id = of_user
        );
END
$$;

-- migrate:down
CREATE OR REPLACE FUNCTION task_is_withdrawn(of_task text, of_company bigint, of_rendering bigint, of_user text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    notification bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM companies c WHERE c.id = of_company) THEN
        RETURN true;
    END IF;
    IF of_rendering IS NULL THEN
        RETURN false;
    END IF;
    SELECT r.notification_id INTO notification FROM renderings r WHERE r.id = of_rendering;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF notification IS NULL THEN
        RETURN NOT EXISTS (SELECT FROM subscribe_messages s WHERE s.task_id = of_task);
    END IF;
    RETURN NOT EXISTS (
            SELECT FROM notifications n
            WHERE n.id = notification AND n.ended_as IS NULL AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
        )
        OR EXISTS (
            SELECT FROM renderings l
            JOIN messages m ON m.rendering_id = l.id
            WHERE l.notification_id = notification AND m.user_id = of_user AND m.task_id > of_task
        );
END
$$;
