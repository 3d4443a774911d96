-- migrate:up transaction:false
-- Moves the rows of the renamed tables, in portions of 20,000 tasks with a commit each, oldest first. If it is interrupted, it goes on after
-- the last portion when it is started again. It locks nothing that others use: no server runs meanwhile. Each day of the tasks' ids gets its
-- partitions, each week if they are of more than 60 days, each month if they are of more than 400.
DO $$
DECLARE
    portion CONSTANT integer := 20000;
    first text;
    last text;
    last_submission bigint;
    moved bigint := 0;
    day date;
    days CONSTANT bigint := ( -- task_id ascends with time
        SELECT extract(days FROM (SELECT t.created_at FROM old_tasks t WHERE t.task_id LIKE 'task\_2%' ORDER BY t.task_id DESC LIMIT 1)
            - (SELECT t.created_at FROM old_tasks t WHERE t.task_id LIKE 'task\_2%' ORDER BY t.task_id LIMIT 1))
    );
    width CONSTANT text := CASE WHEN days > 400 THEN 'month' WHEN days > 60 THEN 'week' ELSE 'day' END;
BEGIN
    SET jit = off;
    -- The session of a migrating process that was killed runs on until it notices: wait for its portion. The number is of this lock alone; the
    -- process that started this migration holds the one for all migrations in another session.
    PERFORM pg_advisory_lock(20261123000103);
    last := coalesce((SELECT max(task_id) FROM messages), '');
    last_submission := coalesce((SELECT max(id) FROM fruitless_submissions), 0);
    LOOP
        first := last;
        SELECT max(p.task_id) INTO last FROM (
            SELECT t.task_id FROM old_tasks t WHERE t.task_id > first ORDER BY t.task_id LIMIT portion
        ) p;
        EXIT WHEN last IS NULL;
        -- The day of the id, which may be the one before or after created_at: the clocks of a server and of the database differ.
        FOR day IN
            SELECT d.day FROM (
                SELECT DISTINCT left(t.task_id, 13) AS of_day, (t.created_at AT TIME ZONE 'UTC')::date AS created_on FROM old_tasks t
                WHERE t.task_id > first AND t.task_id <= last AND t.task_id LIKE 'task\_2%'
            ) i
            CROSS JOIN LATERAL (SELECT i.created_on + n AS day FROM generate_series(-1, 1) n) d
            WHERE i.of_day = task_day_id(d.day)
            GROUP BY d.day
        LOOP
            PERFORM task_partitions_ahead(width, day::timestamp AT TIME ZONE 'UTC', day::timestamp AT TIME ZONE 'UTC');
        END LOOP;

        INSERT INTO messages (
            task_id, phone_number, recipient, content, source, submitted_by, dedup_key, company_id, pool_id, message_type, country_no,
            priority, segments, sign, is_test, expect_send_time, expires_at, rendering_id, user_id, on_unclear, created_at,
            submission_id, request_id, submitted_content, use_template, source_ip, user_agent, request_data
        )
        SELECT t.task_id, t.phone_number, t.recipient, t.content, t.source, coalesce(t.submitted_by, ''), t.dedup_key, t.company_id, t.pool_id,
            t.message_type, t.country_no, t.priority, t.segments, t.sign, t.is_test, t.expect_send_time, t.expires_at, t.rendering_id,
            t.user_id, t.on_unclear, t.created_at,
            coalesce(r.id, nextval('submission_ids')), r.request_id, nullif(r.content, t.content), r.use_template, r.source_ip,
            r.user_agent, r.request_data
        FROM old_tasks t
        LEFT JOIN LATERAL (
            SELECT * FROM old_receive_logs l
            WHERE l.task_id = t.task_id AND l.response_data #> '{data,deduplicated}' IS DISTINCT FROM 'true'::jsonb
            ORDER BY l.id
            LIMIT 1
        ) r ON true
        WHERE t.task_id > first AND t.task_id <= last;

        INSERT INTO dedup_keys (company_id, submitted_by, dedup_key, task_id)
        SELECT t.company_id, t.submitted_by, t.dedup_key, t.task_id
        FROM old_tasks t
        WHERE t.task_id > first AND t.task_id <= last AND t.dedup_key IS NOT NULL AND t.submitted_by IS NOT NULL;

        INSERT INTO queue (
            task_id, pool_id, lane, rank, due_at, expires_at, created_at, updated_at, company_id, message_type, country_no, priority,
            segments, retry_count, troubles, result, failed_app_id, processing_app_id, lease_id, lease_until, lease_segments, lease_sign,
            lease_limit, phone_number, recipient, content, sign, rendering_id, user_id, on_unclear
        )
        SELECT t.task_id, t.pool_id, t.lane, t.rank, t.due_at, t.expires_at, t.created_at, t.updated_at, t.company_id, t.message_type,
            t.country_no, t.priority, t.segments, t.retry_count,
            (SELECT least(20, count(*)) FROM old_report_logs r WHERE r.task_id = t.task_id AND r.effect = 'troubled'), t.result, t.failed_app_id,
            CASE WHEN t.status = 1 THEN t.processing_app_id END, t.lease_id, t.lease_until,
            s.segments,
            CASE WHEN t.sign IS NULL AND starts_with(s.content, '【') AND right(s.content, char_length(t.content) + 1) = '】' || t.content
                THEN substr(s.content, 2, char_length(s.content) - char_length(t.content) - 2) END,
            (s.request_data ->> 'limit')::smallint,
            t.phone_number, t.recipient, t.content, t.sign, t.rendering_id, t.user_id, t.on_unclear
        FROM old_tasks t
        LEFT JOIN old_send_logs s ON t.status = 1 AND s.id = t.lease_id
        WHERE t.task_id > first AND t.task_id <= last AND t.status IN (0, 1); -- PENDING, PROCESSING

        -- The first row that ended a lease gets the lease; the last row that settled a task gets its outcome. Only the first receipt of each
        -- kind counts.
        INSERT INTO report_logs (
            id, task_id, company_id, app_id, lease_id, event, status, effect, error_message, request_data, created_at, outcome, result,
            retry_count, due_at, leased_at, lease_until, lease_segments, lease_sign, lease_limit
        )
        SELECT r.id, r.task_id, t.company_id, r.app_id, r.lease_id, r.event, r.status, r.effect, r.error_message, r.request_data,
            r.created_at, CASE WHEN e.settles THEN t.status END,
            CASE WHEN e.settles THEN t.result WHEN r.event = 'receipt' THEN t.delivery_code END,
            CASE WHEN s.id IS NOT NULL THEN s.attempt - 1 WHEN e.settles THEN t.retry_count END,
            CASE WHEN e.settles THEN t.due_at END, s.created_at, s.lease_until, s.segments,
            CASE WHEN t.sign IS NULL AND starts_with(s.content, '【') AND right(s.content, char_length(t.content) + 1) = '】' || t.content
                THEN substr(s.content, 2, char_length(s.content) - char_length(t.content) - 2) END,
            (s.request_data ->> 'limit')::smallint
        FROM (
            SELECT l.*, row_number() OVER (
                    PARTITION BY l.task_id, l.lease_id, l.effect IN ('ignored', 'refused', 'delivered', 'undelivered') ORDER BY l.id
                ) AS nth,
                row_number() OVER (
                    PARTITION BY l.task_id, l.effect IN ('success', 'failed', 'exhausted', 'unclear', 'cancelled', 'expired')
                    ORDER BY l.id DESC
                ) AS nth_last,
                row_number() OVER (PARTITION BY l.task_id, l.event, l.effect ORDER BY l.id) AS nth_effect
            FROM old_report_logs l
            WHERE l.task_id > first AND l.task_id <= last
        ) r
        JOIN old_tasks t ON t.task_id = r.task_id
        CROSS JOIN LATERAL (
            SELECT t.status IN (2, 3, 4) AND r.nth_last = 1
                AND r.effect IN ('success', 'failed', 'exhausted', 'unclear', 'cancelled', 'expired') AS settles
        ) e
        LEFT JOIN old_send_logs s ON s.id = r.lease_id AND s.task_id = r.task_id AND r.nth = 1
            AND r.effect NOT IN ('ignored', 'refused', 'delivered', 'undelivered')
        WHERE r.event <> 'receipt' OR r.nth_effect = 1;

        -- Tasks that were settled without a row: people who could not be reached, and tasks that were changed by hand.
        INSERT INTO report_logs (task_id, company_id, event, effect, created_at, outcome, result, retry_count, due_at)
        SELECT t.task_id, t.company_id,
            CASE WHEN t.status = 4 THEN 'cancelled' WHEN t.status = 3 AND t.rendering_id IS NOT NULL THEN 'unreachable' ELSE 'reported' END,
            CASE t.status WHEN 2 THEN 'success' WHEN 3 THEN 'failed' ELSE 'cancelled' END, coalesce(t.reported_at, t.updated_at), t.status,
            t.result, t.retry_count, t.due_at
        FROM old_tasks t
        WHERE t.task_id > first AND t.task_id <= last AND t.status IN (2, 3, 4)
            AND NOT EXISTS (
                SELECT FROM old_report_logs r
                WHERE r.task_id = t.task_id AND r.effect IN ('success', 'failed', 'exhausted', 'unclear', 'cancelled', 'expired')
            );

        INSERT INTO report_logs (task_id, company_id, event, effect, created_at, result)
        SELECT t.task_id, t.company_id, 'receipt', CASE t.delivery WHEN 1 THEN 'delivered' ELSE 'undelivered' END,
            coalesce(t.delivered_at, t.updated_at), t.delivery_code
        FROM old_tasks t
        WHERE t.task_id > first AND t.task_id <= last AND t.delivery IS NOT NULL
            AND NOT EXISTS (
                SELECT FROM old_report_logs r
                WHERE r.task_id = t.task_id AND r.event = 'receipt'
                    AND r.effect = CASE t.delivery WHEN 1 THEN 'delivered' ELSE 'undelivered' END
            );

        -- Leases without a row that ended them.
        INSERT INTO report_logs (
            task_id, company_id, app_id, lease_id, event, effect, created_at, retry_count, leased_at, lease_until, lease_segments,
            lease_limit
        )
        SELECT s.task_id, t.company_id, s.app_id, s.id, 'recovered', 'unclear', s.lease_until, s.attempt - 1, s.created_at, s.lease_until,
            s.segments, (s.request_data ->> 'limit')::smallint
        FROM old_tasks t
        JOIN old_send_logs s ON s.task_id = t.task_id
        WHERE t.task_id > first AND t.task_id <= last AND NOT (t.status = 1 AND s.id = t.lease_id)
            AND NOT EXISTS (
                SELECT FROM old_report_logs r
                WHERE r.task_id = s.task_id AND r.lease_id = s.id AND r.effect NOT IN ('ignored', 'refused', 'delivered', 'undelivered')
            );
        COMMIT;
        moved := moved + portion;
        RAISE NOTICE '% tasks are moved, up to %', moved, last;
    END LOOP;

    LOOP
        INSERT INTO fruitless_submissions (
            id, request_id, task_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code,
            created_at
        )
        SELECT l.id, l.request_id, l.task_id, l.phone_number, l.content, l.use_template, l.source_ip, l.user_agent, l.request_data,
            l.response_data, l.status_code, l.created_at
        FROM old_receive_logs l
        WHERE l.id > last_submission AND l.id <= last_submission + 10 * portion
            AND NOT EXISTS (SELECT FROM messages m WHERE m.task_id = l.task_id AND m.submission_id = l.id);
        COMMIT;
        last_submission := last_submission + 10 * portion;
        EXIT WHEN last_submission >= coalesce((SELECT max(l.id) FROM old_receive_logs l), 0);
    END LOOP;

    -- Logs of tasks that were deleted by hand. Their company is not known any more.
    IF NOT EXISTS (SELECT FROM report_logs r WHERE NOT EXISTS (SELECT FROM messages m WHERE m.task_id = r.task_id)) THEN
        INSERT INTO report_logs (id, task_id, company_id, app_id, lease_id, event, status, effect, error_message, request_data, created_at)
        SELECT r.id, r.task_id, 1, r.app_id, r.lease_id, r.event, r.status, r.effect, r.error_message, r.request_data, r.created_at
        FROM old_report_logs r
        WHERE NOT EXISTS (SELECT FROM old_tasks t WHERE t.task_id = r.task_id)
        ON CONFLICT DO NOTHING;
        INSERT INTO report_logs (
            task_id, company_id, app_id, lease_id, event, effect, created_at, retry_count, leased_at, lease_until, lease_segments
        )
        SELECT s.task_id, 1, s.app_id, s.id, 'recovered', 'unclear', s.lease_until, s.attempt - 1, s.created_at, s.lease_until, s.segments
        FROM old_send_logs s
        WHERE NOT EXISTS (SELECT FROM old_tasks t WHERE t.task_id = s.task_id);
    END IF;
END
$$;

-- migrate:down transaction:false
DO $$
BEGIN
    INSERT INTO old_tasks (
        task_id, phone_number, recipient, content, status, source, submitted_by, dedup_key, retry_count, due_at, processing_app_id,
        lease_id, lease_until, result, created_at, updated_at, sent_at, reported_at, company_id, pool_id, message_type, country_no,
        priority, segments, sign, is_test, expect_send_time, expires_at, failed_app_id, lane, rank, rendering_id, user_id, delivery,
        delivery_code, delivered_at, on_unclear
    )
    SELECT * FROM tasks;
    INSERT INTO old_receive_logs (
        id, request_id, task_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code,
        created_at, recipient
    ) OVERRIDING SYSTEM VALUE
    SELECT * FROM receive_logs;
    INSERT INTO old_send_logs (
        id, task_id, app_id, phone_number, content, attempt, lease_until, request_data, response_data, created_at, segments
    )
    SELECT * FROM send_logs;
    INSERT INTO old_report_logs (id, task_id, app_id, lease_id, event, status, effect, error_message, request_data, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT id, task_id, app_id, lease_id, event, status, effect, error_message, request_data, created_at
    FROM report_logs
    WHERE event <> 'unreachable';
    PERFORM setval('receive_logs_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM old_receive_logs)),
        setval('send_logs_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM old_send_logs)),
        setval('report_logs_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM old_report_logs));
    DELETE FROM messages;
    DELETE FROM dedup_keys;
    DELETE FROM queue;
    DELETE FROM report_logs;
    DELETE FROM fruitless_submissions;
END
$$;
