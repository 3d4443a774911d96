-- Statements on submissions. They store tasks, and log what was submitted.

-- TaskSubmit stores tasks with their submissions, and returns the ids of the stored tasks. It stores all tasks or none. But a task is skipped if its submitter
-- has already used its dedup_key. A task that a block forbids is skipped, too, and returned with is_blocked. An empty source, dedup_key, country_no, sign,
-- sender_no or exemption means no value; a batch_id of 0 means no batch. The array of a value that no task has can be empty.
--
-- Ranks: a task that is not scheduled is queued at once, with the ranks of task_ranks_reserve. A scheduled task is queued when it becomes due. planned_times
-- contains the times at which caps allow the tasks; null means that caps allow the task now or, if it is scheduled, at its scheduled time.
--
-- Simulated tasks: a simulated task is a test that is not sent, and is never in the queue. TaskSimulate ends it in the same transaction.
--
-- Directory: directory_versions contains the versions of the directory with which the pools were chosen. If another version is current, the statement stores
-- nothing and returns one empty id. If directory_versions is empty, the version is not checked.
--
-- Renderings: a task with a rendering uses the text of the rendering; rendering_id 0 means no rendering. contact_values contains the values of its
-- placeholders; null means no values. content is then only the beginning of the text.
--
-- Sensitive messages: sealed_texts contains the encrypted text; empty: the message is not sensitive. All other texts of a sensitive message are masked.
--
-- Locks: the statement locks keys of dedup_keys in one order, then rows of fair_ranks in one order. Therefore two submissions cannot deadlock.
-- name: TaskSubmit :many
WITH directory AS MATERIALIZED (
    SELECT coalesce(coalesce((SELECT v.version::text::bigint FROM directory_version v), 0) = ALL (@directory_versions::bigint[]), true) AS is_current
),
input AS MATERIALIZED (
    SELECT unnest(@task_ids::text[]) AS task_id, unnest(@phone_numbers::text[]) AS phone_number, unnest(@recipients::text[]) AS recipient,
        unnest(@final_contents::text[]) AS final_content, nullif(unnest(@sources::text[]), '') AS source,
        unnest(@submitters::text[]) AS submitted_by, nullif(unnest(@dedup_keys::text[]), '') AS dedup_key,
        unnest(@request_ids::text[]) AS request_id, unnest(@contents::text[]) AS content, unnest(@use_templates::boolean[]) AS use_template,
        unnest(@source_ips::text[]) AS source_ip, unnest(@user_agents::text[]) AS user_agent, unnest(@request_data::jsonb[]) AS request_data,
        nullif(unnest(@traceparents::text[]), '') AS traceparent, unnest(@company_ids::bigint[]) AS company_id, unnest(@pool_ids::bigint[]) AS pool_id,
        unnest(@message_types::smallint[]) AS message_type, nullif(unnest(@country_nos::text[]), '') AS country_no,
        unnest(@priorities::smallint[]) AS priority, unnest(@segments::smallint[]) AS segments, nullif(unnest(@signs::text[]), '') AS sign,
        unnest(@are_tests::boolean[]) AS is_test, unnest(@are_simulated::boolean[]) AS is_simulated, nullif(unnest(@batch_ids::bigint[]), 0) AS batch_id,
        nullif(unnest(@only_sender_nos::text[]), '') AS sender_no, nullif(unnest(@rendering_ids::bigint[]), 0) AS rendering_id,
        unnest(@contact_values::jsonb[]) AS contact_values, nullif(unnest(@user_ids::text[]), '') AS user_id,
        unnest(@expect_send_times::timestamp with time zone[]) AS asked_time, unnest(@expire_times::timestamp with time zone[]) AS expires_at, -- NULL: the task never expires
        unnest(@every_seconds::int8[]) AS every_seconds, unnest(@quiet_froms::timestamp with time zone[]) AS quiet_from,
        unnest(@planned_times::timestamp with time zone[]) AS planned_at, nullif(unnest(@exemptions::text[]), '') AS exemption, -- sqlc.yaml explains int8
        nullif(unnest(@sealed_texts::text[]), '') AS sealed
    FROM directory d WHERE d.is_current
),
blocked AS MATERIALIZED (
    SELECT i.task_id FROM input i CROSS JOIN LATERAL (SELECT FROM blocks_of(i.recipient, i.company_id, i.message_type) LIMIT 1) b
),
named AS (
    INSERT INTO dedup_keys (company_id, submitted_by, dedup_key, task_id)
    SELECT i.company_id, i.submitted_by, i.dedup_key, i.task_id
    FROM input i
    WHERE i.dedup_key IS NOT NULL AND i.task_id NOT IN (SELECT b.task_id FROM blocked b)
    ORDER BY i.company_id, i.submitted_by, i.dedup_key, i.task_id
    ON CONFLICT (company_id, submitted_by, dedup_key) DO NOTHING
    RETURNING task_id
),
made AS MATERIALIZED (
    SELECT i.*, row_number() OVER () AS nth, -- the order of the arrays; the estimate of generate_series is too large for a plan that PostgreSQL keeps
        -- A message with every_seconds waits for the next full interval of the clock.
        coalesce(i.asked_time, date_bin(make_interval(secs => i.every_seconds), now(), 'epoch') + make_interval(secs => i.every_seconds)) AS at
    FROM input i
    WHERE i.task_id NOT IN (SELECT b.task_id FROM blocked b) AND (i.dedup_key IS NULL OR i.task_id IN (SELECT named.task_id FROM named))
),
ranks AS MATERIALIZED (
    SELECT k.task_id, k.rank, k.flow_rank
    FROM (
        SELECT array_agg(m.task_id) AS task_ids, array_agg(m.pool_id) AS pool_ids, array_agg(m.priority) AS priorities,
            array_agg(m.company_id) AS company_ids, array_agg(task_flow(m.batch_id, m.submitted_by)) AS flows
        FROM (SELECT * FROM made o WHERE coalesce(o.planned_at, o.at) IS NULL AND o.is_simulated IS NOT TRUE ORDER BY o.nth) m
    ) a
    CROSS JOIN LATERAL task_ranks_reserve(a.task_ids, a.pool_ids, a.priorities, a.company_ids, a.flows) AS k (task_id, rank, flow_rank)
),
stored AS (
    INSERT INTO messages (task_id, phone_number, recipient, content, source, submitted_by, dedup_key, company_id, pool_id, message_type, country_no, priority,
        segments, sign, is_test, expect_send_time, expires_at, request_id, submitted_content, use_template, source_ip, user_agent, request_data, traceparent,
        batch_id, sender_no, rendering_id, contact_values, user_id, exemption, is_sensitive)
    SELECT m.task_id, m.phone_number, m.recipient, m.final_content, m.source, m.submitted_by, m.dedup_key, m.company_id, m.pool_id, m.message_type,
        m.country_no, m.priority, m.segments, m.sign, m.is_test, m.at, m.expires_at, m.request_id, nullif(m.content, m.final_content), m.use_template,
        m.source_ip, m.user_agent, m.request_data, m.traceparent, m.batch_id, m.sender_no, m.rendering_id, m.contact_values, m.user_id, m.exemption,
        m.sealed IS NOT NULL
    FROM made m
),
queued AS (
    INSERT INTO queue (task_id, pool_id, lane, rank, flow_rank, quiet_from, due_at, due_when_resumed, expires_at, company_id, message_type, country_no, priority, segments,
        phone_number, recipient, content, sign, entered_at, traceparent, batch_id, is_test, submitted_by, rendering_id, contact_values, user_id, exemption,
        sealed)
    SELECT m.task_id, m.pool_id, CASE WHEN k.rank IS NOT NULL THEN 32 * m.priority END, k.rank, k.flow_rank, m.quiet_from, -- 32 * priority is the lane of new tasks
        greatest(m.planned_at, m.at, now()), CASE WHEN m.planned_at IS NOT NULL THEN greatest(m.at, now()) END, m.expires_at, m.company_id, m.message_type, m.country_no, m.priority, m.segments, m.phone_number, m.recipient,
        m.final_content, m.sign, greatest(m.planned_at, m.at, now()), m.traceparent, m.batch_id, m.is_test, m.submitted_by, m.rendering_id, m.contact_values,
        m.user_id, m.exemption, m.sealed
    FROM made m
    LEFT JOIN ranks k ON k.task_id = m.task_id
    WHERE m.is_simulated IS NOT TRUE
)
SELECT m.task_id::text AS task_id, false AS is_blocked FROM made m
UNION ALL SELECT b.task_id, true FROM blocked b
UNION ALL SELECT '', false FROM directory d WHERE NOT d.is_current
ORDER BY task_id;

-- TaskSimulate ends simulated tasks as SUCCESS. It is separate from TaskSubmit, which would otherwise run the triggers of report_logs for each submission. Run it
-- with plans for the parameters, so that the planner opens only the partitions of the tasks.
-- name: TaskSimulate :exec
INSERT INTO report_logs (task_id, company_id, event, effect, outcome, result, retry_count, due_at, pool_id, message_type, segments, batch_id, country_no, is_test)
SELECT m.task_id, m.company_id, 'simulated', 'success', 2, -- SUCCESS
    @result::text, 0, now(), m.pool_id, m.message_type, m.segments, m.batch_id, m.country_no, m.is_test
FROM messages m
WHERE m.task_id = ANY (@task_ids::text[]);

-- DedupKeyTasks returns the ids of the tasks that use dedup_keys of a submitter. place is the index of the key in dedup_keys, from 0. An unused key is not
-- returned.
-- name: DedupKeyTasks :many
SELECT a.place::integer AS place, k.task_id
FROM (
    SELECT unnest(@dedup_keys::text[]) AS dedup_key, generate_series(0, cardinality(@dedup_keys::text[]) - 1) AS place
) a
JOIN dedup_keys k ON k.company_id = @company_id AND k.submitted_by = @submitted_by::text AND k.dedup_key = a.dedup_key
ORDER BY a.place;

-- SubmissionsRepeated logs submissions that repeated tasks, and returns these tasks. place is the index of the task in task_ids, from 0. If the partition of a
-- task was dropped, the task is returned with is_dropped, and the submission is not logged.
-- name: SubmissionsRepeated :many
WITH asked AS MATERIALIZED (
    SELECT
        unnest(@task_ids::text[]) AS task_id,
        unnest(@phone_numbers::text[]) AS phone_number,
        unnest(@contents::text[]) AS content,
        unnest(@use_templates::boolean[]) AS use_template,
        unnest(@request_data::jsonb[]) AS request_data,
        generate_series(0, cardinality(@task_ids::text[]) - 1) AS place
),
known AS MATERIALIZED (
    -- The state is computed as in the view tasks. The view would open all partitions of report_logs. With an array of ids, the planner opens only the
    -- partitions of these ids; with a join, it would open all partitions.
    SELECT m.task_id, coalesce('【' || m.sign || '】', '') || m.content AS final_content,
        CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status
    FROM messages m
    LEFT JOIN queue q ON q.task_id = m.task_id
    LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.task_id = ANY (@task_ids::text[]) AND e.outcome IS NOT NULL
    WHERE m.task_id = ANY (@task_ids::text[])
),
originals AS MATERIALIZED (
    SELECT a.*, t.task_id IS NULL AS is_dropped, t.status, t.final_content
    FROM asked a
    LEFT JOIN known t ON t.task_id = a.task_id
),
logged AS (
    INSERT INTO fruitless_submissions (
        request_id, company_id, task_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code
    )
    SELECT
        @request_id::text, @company_id::bigint, f.task_id, f.phone_number, f.content, f.use_template, @source_ip::text, @user_agent::text, f.request_data,
        jsonb_build_object(
            'code', 200, 'message', 'success', 'data', jsonb_build_object(
                'task_id', f.task_id, 'status', f.status, 'final_content', f.final_content, 'deduplicated', true
            )
        ),
        200
    FROM originals f
    WHERE NOT f.is_dropped
    ORDER BY f.place
)
SELECT f.place::integer AS place, f.task_id::text AS task_id, f.is_dropped::boolean AS is_dropped, coalesce(f.status, 0)::smallint AS status,
    coalesce(f.final_content, '')::text AS final_content
FROM originals f
ORDER BY f.place;

-- SubmissionsDeleteExpired deletes submissions that created no task and are older than `keep`. It checks only the batch_size oldest of these submissions.
-- name: SubmissionsDeleteExpired :execrows
DELETE FROM fruitless_submissions f
USING (SELECT o.id FROM fruitless_submissions o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE f.id = old.id AND f.created_at < now() - @keep::interval;

-- DedupKeysDeleteExpired deletes up to batch_size dedup keys that are older than `keep`, in full days (UTC). A key is not deleted while its task waits or is
-- leased. Otherwise a repeated submission would be sent as a second message.
-- name: DedupKeysDeleteExpired :execrows
DELETE FROM dedup_keys d
USING (
    SELECT o.company_id, o.submitted_by, o.dedup_key
    FROM dedup_keys o
    WHERE o.made_on < (now() AT TIME ZONE 'UTC' - @keep::interval)::date AND NOT EXISTS (SELECT FROM queue q WHERE q.task_id = o.task_id)
    ORDER BY o.made_on
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
) old
WHERE d.company_id = old.company_id AND d.submitted_by = old.submitted_by AND d.dedup_key = old.dedup_key;

-- DeliveriesDeleteExpired deletes up to batch_size deliveries whose tasks were dropped with their partition. It skips partitions that are being imported.
-- name: DeliveriesDeleteExpired :execrows
DELETE FROM deliveries d
USING (
    SELECT x.id
    FROM task_partitions p
    CROSS JOIN LATERAL (
        SELECT o.id FROM deliveries o
        WHERE o.task_id >= p.first_id AND o.task_id < p.before_id AND NOT EXISTS (SELECT FROM messages m WHERE m.task_id = o.task_id)
        LIMIT @batch_size::integer
    ) x
    WHERE p.dropped_at IS NOT NULL
    LIMIT @batch_size::integer
    FOR SHARE OF p SKIP LOCKED
) old
WHERE d.id = old.id;

-- SubmissionsRefused logs rejected submissions. `refused` is a JSON array of objects, whose keys are the names of the columns. alone: the statement is its own
-- transaction. Its commit then does not wait for the disk, so that rejections do not delay accepted messages. If PostgreSQL crashes, the rejections of the last
-- second can be lost. This is harmless, because a rejected submission changed nothing.
-- name: SubmissionsRefused :exec
INSERT INTO fruitless_submissions (
    request_id, company_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code
)
SELECT r.request_id, r.company_id, r.phone_number, r.content, r.use_template, r.source_ip, r.user_agent,
    coalesce(r.request_data, 'null'), r.response_data, r.status_code
-- OFFSET 0 forces the call of set_config, although the query does not use its result.
FROM (SELECT CASE WHEN @alone::boolean THEN set_config('synchronous_commit', 'off', true) END OFFSET 0) s
CROSS JOIN jsonb_to_recordset(@refused::jsonb) AS r (
    request_id text, company_id bigint, phone_number text, content text, use_template boolean, source_ip text, user_agent text,
    request_data jsonb, response_data jsonb, status_code smallint
);

-- TaskEnqueue stores the tasks of a rendering, one task for each person, with their submissions. An empty recipient, reason, country_no, sign or exemption
-- means no value. reason: why the person cannot receive a message. The task of such a person is FAILED from the beginning. All other tasks are due at the
-- time in planned_times, at which caps allow them; null means now. Like retries, these tasks are queued by the sweep when they are due. is_queued: the tasks are
-- queued at once, at the front of their lane and of their company, so that tasks that became due earlier do not delay them. planned_times then contains only
-- nulls.
-- name: TaskEnqueue :exec
WITH input AS MATERIALIZED (
    SELECT unnest(@task_ids::text[]) AS task_id, unnest(@user_ids::text[]) AS user_id, unnest(@recipients::text[]) AS recipient,
        unnest(@pool_ids::bigint[]) AS pool_id, nullif(unnest(@country_nos::text[]), '') AS country_no,
        nullif(unnest(@reasons::text[]), '') AS reason, nullif(unnest(@contents::text[]), '') AS content, -- null: the content of the rendering is used
        nullif(unnest(@contact_values::jsonb[]), 'null') AS contact_values, unnest(@quiet_froms::timestamp with time zone[]) AS quiet_from,
        unnest(@planned_times::timestamp with time zone[]) AS planned_at
),
stored AS (
    INSERT INTO messages (
        task_id, phone_number, recipient, content, submitted_by, company_id, pool_id, message_type, country_no, priority, segments,
        sign, expires_at, rendering_id, user_id, on_unclear, request_id, use_template, source_ip, user_agent, request_data, traceparent, contact_values,
        exemption
    )
    SELECT i.task_id, i.recipient, i.recipient, coalesce(i.content, @content::text), @submitted_by::text, @company_id::bigint, i.pool_id,
        @message_type::smallint, i.country_no, @priority::smallint, @segments::smallint, nullif(@sign::text, ''),
        sqlc.narg(expires_at)::timestamptz, @rendering_id::bigint, i.user_id, nullif(@on_unclear::text, ''), @request_id::text, true,
        @source_ip::text, @user_agent::text, jsonb_build_object('rendering_id', @rendering_id::bigint),
        nullif(@traceparent::text, ''), i.contact_values, nullif(@exemption::text, '')
    FROM input i
),
queued AS (
    INSERT INTO queue (
        task_id, pool_id, lane, rank, flow_rank, expires_at, company_id, message_type, country_no, priority, segments, phone_number, recipient, content, sign,
        rendering_id, user_id, on_unclear, traceparent, contact_values, submitted_by, quiet_from, due_at, entered_at, exemption, due_when_resumed
    )
    SELECT i.task_id, i.pool_id, CASE WHEN @is_queued::boolean THEN 32 * @priority::smallint END, -- 32 * priority is the lane of new tasks
        CASE WHEN @is_queued::boolean THEN task_queue_front(i.pool_id, @priority::smallint) END,
        CASE WHEN @is_queued::boolean THEN nullif(
            task_flow_start(i.pool_id, @priority::smallint, @company_id::bigint, NULL, 0), task_queue_front(i.pool_id, @priority::smallint)
        ) END,
        sqlc.narg(expires_at)::timestamptz, @company_id::bigint, @message_type::smallint, i.country_no,
        @priority::smallint, @segments::smallint, i.recipient, i.recipient, coalesce(i.content, @content::text), nullif(@sign::text, ''),
        @rendering_id::bigint, i.user_id, nullif(@on_unclear::text, ''), nullif(@traceparent::text, ''), i.contact_values, @submitted_by::text,
        i.quiet_from, coalesce(i.planned_at, now()), coalesce(i.planned_at, now()), nullif(@exemption::text, ''),
        CASE WHEN i.planned_at IS NOT NULL THEN now() END
    FROM input i
    WHERE i.reason IS NULL
)
INSERT INTO report_logs (
    task_id, company_id, event, effect, outcome, result, retry_count, due_at, pool_id, message_type, segments, country_no
)
SELECT i.task_id, @company_id::bigint, 'unreachable', 'failed', 3, i.reason, 0, now(), i.pool_id, @message_type::smallint, -- FAILED
    @segments::smallint, i.country_no
FROM input i
WHERE i.reason IS NOT NULL;

-- TaskRefuse stores the task of a submission that was accepted before all checks, and is now rejected. The task is FAILED from the beginning, with the given
-- result. The task uses the dedup key, unless another task uses this key. An empty source, dedup_key, sign or country_no means no value.
-- name: TaskRefuse :exec
WITH named AS (
    INSERT INTO dedup_keys (company_id, submitted_by, dedup_key, task_id)
    SELECT @company_id::bigint, @submitted_by::text, @dedup_key::text, @task_id::text
    WHERE @dedup_key::text <> ''
    ON CONFLICT (company_id, submitted_by, dedup_key) DO NOTHING
),
stored AS (
    INSERT INTO messages (
        task_id, phone_number, recipient, content, source, submitted_by, dedup_key, company_id, pool_id, message_type, country_no, priority,
        segments, sign, is_test, expect_send_time, expires_at, request_id, use_template, source_ip, user_agent, request_data
    )
    VALUES (
        @task_id::text, @phone_number::text, @recipient::text, @content::text, nullif(@source::text, ''), @submitted_by::text,
        nullif(@dedup_key::text, ''), @company_id::bigint, @pool_id::bigint, @message_type::smallint, nullif(@country_no::text, ''), @priority::smallint,
        @segments::smallint, nullif(@sign::text, ''), @is_test::boolean, sqlc.narg(expect_send_time)::timestamptz, sqlc.narg(expires_at)::timestamptz,
        @request_id::text, @use_template::boolean, @source_ip::text, @user_agent::text, @request_data::jsonb
    )
)
INSERT INTO report_logs (
    task_id, company_id, event, effect, outcome, result, retry_count, due_at, pool_id, message_type, segments, country_no, is_test
)
VALUES (
    @task_id::text, @company_id::bigint, 'unreachable', 'failed', 3, @result::text, 0, now(), @pool_id::bigint, @message_type::smallint, -- FAILED
    @segments::smallint, nullif(@country_no::text, ''), @is_test::boolean
);
