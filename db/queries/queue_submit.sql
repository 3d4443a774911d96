-- Submissions: storing tasks, and the log of what was submitted.

-- TaskSubmit stores tasks, each with the log row of its submission, all or none, and returns the ids of those that it stored. It does not
-- store a task whose dedup_key its submitter has used already. An empty source, dedup_key, country_no or sign means none.
--
-- Tasks that are not scheduled are queued at once. Start-time fair queueing: each group, of one pool, priority and company, gets the next
-- range of ranks of its company, but never one before the head of the queue. turn is the position of a task in its group, from 0 to 1; a
-- scheduled task has none, and is queued when it comes due. The fair_ranks row of the company stays locked until the tasks are stored, so
-- that ranks ascend in the order in which tasks become visible.
--
-- The pools were chosen with the versions directory_versions of the directory. If another version is current, the statement stores nothing
-- and returns one empty id. Without versions it does not check.
--
-- Rows of fair_ranks are locked in one order, then dedup_keys in one order, so that two submissions cannot deadlock.
-- name: TaskSubmit :many
WITH directory AS MATERIALIZED (
    SELECT coalesce(
        coalesce((SELECT v.version::text::bigint FROM directory_version v), 0) = ALL (@directory_versions::bigint[]), true
    ) AS is_current
),
input AS MATERIALIZED (
    SELECT
        -- the task
        unnest(@task_ids::text[]) AS task_id, unnest(@phone_numbers::text[]) AS phone_number, unnest(@recipients::text[]) AS recipient,
        unnest(@final_contents::text[]) AS final_content, nullif(unnest(@sources::text[]), '') AS source,
        unnest(@submitters::text[]) AS submitted_by, nullif(unnest(@dedup_keys::text[]), '') AS dedup_key,
        -- its submission
        unnest(@request_ids::text[]) AS request_id, unnest(@contents::text[]) AS content, unnest(@use_templates::boolean[]) AS use_template,
        unnest(@source_ips::text[]) AS source_ip, unnest(@user_agents::text[]) AS user_agent,
        unnest(@request_data::jsonb[]) AS request_data,
        -- its pool and its part of the queue
        unnest(@company_ids::bigint[]) AS company_id, unnest(@pool_ids::bigint[]) AS pool_id,
        unnest(@message_types::smallint[]) AS message_type, nullif(unnest(@country_nos::text[]), '') AS country_no,
        unnest(@priorities::smallint[]) AS priority, unnest(@segments::smallint[]) AS segments,
        nullif(unnest(@signs::text[]), '') AS sign, unnest(@are_tests::boolean[]) AS is_test,
        -- its times, and its turn: arrays with NULLs, see sqlc.yaml
        unnest(@expect_send_times::timestamp with time zone[]) AS asked_time, unnest(@every_seconds::int8[]) AS every_seconds,
        unnest(@expire_times::timestamp with time zone[]) AS expires_at, unnest(@turns::float8[]) AS turn
    FROM directory d
    WHERE d.is_current
),
reserved AS (
    INSERT INTO fair_ranks AS f (pool_id, priority, company_id, start, finish)
    SELECT g.pool_id, g.priority, g.company_id, g.front, g.front + g.width
    FROM (
        SELECT n.pool_id, n.priority, n.company_id, n.width, task_queue_front(n.pool_id, n.priority) AS front
        FROM (
            SELECT
                unnest(@group_pool_ids::bigint[]) AS pool_id, unnest(@group_priorities::smallint[]) AS priority,
                unnest(@group_company_ids::bigint[]) AS company_id, unnest(@group_widths::double precision[]) AS width
            FROM directory d
            WHERE d.is_current
        ) n
        OFFSET 0 -- task_queue_front is called once for each group
    ) g
    ORDER BY g.pool_id, g.priority, g.company_id
    ON CONFLICT (pool_id, priority, company_id) DO UPDATE
    SET start = greatest(f.finish, excluded.start),
        finish = greatest(f.finish, excluded.start) + (excluded.finish - excluded.start)
    RETURNING f.pool_id, f.priority, f.company_id, f.start, f.finish - f.start AS width
),
made AS (
    INSERT INTO tasks (
        task_id, phone_number, recipient, content, source, submitted_by, dedup_key, company_id, pool_id, message_type, country_no,
        priority, segments, sign, is_test, expect_send_time, due_at, expires_at, lane, rank
    )
    SELECT
        i.task_id, i.phone_number, i.recipient, i.final_content, i.source, i.submitted_by, i.dedup_key, i.company_id, i.pool_id,
        i.message_type, i.country_no, i.priority, i.segments, i.sign, i.is_test, e.at, coalesce(greatest(e.at, now()), now()),
        i.expires_at, CASE WHEN r.start IS NOT NULL THEN 32 * i.priority END, r.start + r.width * i.turn -- the lane of new tasks
    FROM input i
    -- A message with every_seconds waits for the next full interval of the clock.
    CROSS JOIN LATERAL (
        SELECT coalesce(
            i.asked_time, date_bin(make_interval(secs => i.every_seconds), now(), 'epoch') + make_interval(secs => i.every_seconds)
        ) AS at
    ) e
    LEFT JOIN reserved r
        ON i.turn IS NOT NULL AND r.pool_id = i.pool_id AND r.priority = i.priority AND r.company_id = i.company_id
    ORDER BY i.dedup_key, i.company_id, i.submitted_by, i.task_id
    ON CONFLICT (company_id, submitted_by, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
    RETURNING task_id, phone_number, content, status
),
logged AS (
    INSERT INTO receive_logs (
        request_id, task_id, phone_number, recipient, content, use_template, source_ip, user_agent, request_data, response_data,
        status_code
    )
    SELECT
        i.request_id, m.task_id, m.phone_number, i.recipient, i.content, i.use_template, i.source_ip, i.user_agent, i.request_data,
        jsonb_build_object(
            'code', 200, 'message', 'success',
            'data', jsonb_build_object(
                'task_id', m.task_id, 'status', m.status, 'final_content', coalesce('【' || i.sign || '】', '') || m.content
            )
        ),
        200
    FROM made m
    JOIN input i ON i.task_id = m.task_id
)
SELECT m.task_id FROM made m
UNION ALL
SELECT '' FROM directory d WHERE NOT d.is_current
ORDER BY task_id;

-- SubmissionsRepeated returns the existing tasks with dedup_keys of a submitter, each with the index of its key (place), and logs the
-- submissions that repeated them. A key without a task gives no row.
-- name: SubmissionsRepeated :many
WITH asked AS MATERIALIZED (
    SELECT
        unnest(@dedup_keys::text[]) AS dedup_key,
        unnest(@phone_numbers::text[]) AS phone_number,
        unnest(@contents::text[]) AS content,
        unnest(@use_templates::boolean[]) AS use_template,
        unnest(@request_data::jsonb[]) AS request_data,
        generate_series(0, cardinality(@dedup_keys::text[]) - 1) AS place
),
originals AS MATERIALIZED (
    SELECT a.*, t.task_id, t.status, t.final_content
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT task_id, status, coalesce('【' || sign || '】', '') || tasks.content AS final_content
        FROM tasks
        WHERE company_id = @company_id AND submitted_by = @submitted_by::text AND tasks.dedup_key = a.dedup_key
        OFFSET 0 -- forces one lookup by tasks_submitter_dedup_key_idx for each key, whatever the statistics say
    ) t
),
logged AS (
    INSERT INTO receive_logs (
        request_id, task_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code
    )
    SELECT
        @request_id::text, f.task_id, f.phone_number, f.content, f.use_template, @source_ip::text, @user_agent::text, f.request_data,
        jsonb_build_object(
            'code', 200, 'message', 'success', 'data', jsonb_build_object(
                'task_id', f.task_id, 'status', f.status, 'final_content', f.final_content, 'deduplicated', true
            )
        ),
        200
    FROM originals f
    ORDER BY f.place
)
SELECT f.place::integer AS place, f.task_id, f.status, f.final_content::text AS final_content FROM originals f ORDER BY f.place;

-- SubmissionsRefused logs refused submissions from a JSON list of objects with the names of the columns. If the statement is its own
-- transaction (alone), its commit does not wait for the disk, so that refusals do not delay accepted messages. If PostgreSQL crashes,
-- refusals of the last second may be missing; they changed nothing.
-- name: SubmissionsRefused :exec
INSERT INTO receive_logs (
    request_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code
)
SELECT r.request_id, r.phone_number, r.content, r.use_template, r.source_ip, r.user_agent,
    coalesce(r.request_data, 'null'), r.response_data, r.status_code
-- OFFSET 0 forces the call of set_config, whose result nothing uses.
FROM (SELECT CASE WHEN @alone::boolean THEN set_config('synchronous_commit', 'off', true) END OFFSET 0) s
CROSS JOIN jsonb_to_recordset(@refused::jsonb) AS r (
    request_id text, phone_number text, content text, use_template boolean, source_ip text, user_agent text,
    request_data jsonb, response_data jsonb, status_code smallint
);

-- TaskEnqueue stores the tasks of a rendering, one for each person, with the log rows of their submission. They wait as due but unqueued,
-- like retries. The task of a person with a reason is FAILED from the start: nothing can be sent to that person. An empty recipient,
-- reason, country_no or sign means none.
-- name: TaskEnqueue :exec
WITH input AS MATERIALIZED (
    SELECT unnest(@task_ids::text[]) AS task_id, unnest(@user_ids::text[]) AS user_id, unnest(@recipients::text[]) AS recipient,
        unnest(@pool_ids::bigint[]) AS pool_id, nullif(unnest(@country_nos::text[]), '') AS country_no,
        nullif(unnest(@reasons::text[]), '') AS reason
),
made AS (
    INSERT INTO tasks (
        task_id, phone_number, recipient, content, submitted_by, company_id, pool_id, message_type, country_no, priority, segments,
        sign, expires_at, rendering_id, user_id, on_unclear, status, result, reported_at
    )
    SELECT i.task_id, i.recipient, i.recipient, @content::text, @submitted_by::text, @company_id::bigint, i.pool_id,
        @message_type::smallint, i.country_no, @priority::smallint, @segments::smallint, nullif(@sign::text, ''),
        sqlc.narg(expires_at)::timestamptz, @rendering_id::bigint, i.user_id, nullif(@on_unclear::text, ''),
        CASE WHEN i.reason IS NULL THEN 0 ELSE 3 END, i.reason, -- PENDING, FAILED
        CASE WHEN i.reason IS NOT NULL THEN now() END
    FROM input i
    RETURNING task_id, recipient, content, status
)
INSERT INTO receive_logs (
    request_id, task_id, phone_number, recipient, content, use_template, source_ip, user_agent, request_data, response_data, status_code
)
SELECT @request_id::text, m.task_id, m.recipient, nullif(m.recipient, ''), m.content, true, @source_ip::text, @user_agent::text,
    jsonb_build_object('rendering_id', @rendering_id::bigint), jsonb_build_object('task_id', m.task_id, 'status', m.status), 200
FROM made m;
