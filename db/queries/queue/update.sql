-- Statements that change tasks without ending a lease: late reports, cancelled, withdrawn and requeued tasks, receipts of providers, and pools whose tasks were
-- moved. The rules for guards, locks and times at the beginning of dispatch/claim.sql also apply here.

-- ReportsLate logs reports that TaskReport did not apply, and returns their effects. task_ids are distinct. A report for an unknown task is not returned.
--   ignored  the app held the lease before: the report is repeated or too late
--   refused  the app never held the lease
-- provider_no, the provider's number of the message, is stored even for an ignored report, because a receipt can refer to this number. It has a line for each
-- part of a long message. in_part: the provider took only these parts.
-- name: ReportsLate :many
WITH input AS MATERIALIZED (
    SELECT
        unnest(@task_ids::text[]) AS task_id, unnest(@sender_nos::text[]) AS app_id,
        unnest(@lease_ids::int8[]) AS lease_id, -- can contain NULL, see sqlc.yaml
        unnest(@statuses::smallint[]) AS status, nullif(left(unnest(@error_messages::text[]), 500), '') AS error_message,
        unnest(@request_data::jsonb[]) AS request_data, nullif(unnest(@provider_nos::text[]), '') AS provider_no,
        unnest(@in_parts::boolean[]) AS in_part
),
known AS MATERIALIZED (
    -- With an array of ids, the planner opens only the partitions of these ids. With a join, it would open all partitions.
    SELECT m.task_id, m.company_id, m.recipient, m.batch_id, m.country_no, m.is_test FROM messages m WHERE m.task_id = ANY (@task_ids::text[])
),
leases AS MATERIALIZED (
    SELECT r.task_id, r.app_id, r.lease_id FROM report_logs r WHERE r.task_id = ANY (@task_ids::text[]) AND r.leased_at IS NOT NULL
    UNION ALL
    SELECT q.task_id, q.processing_app_id, q.lease_id FROM queue q WHERE q.task_id = ANY (@task_ids::text[]) AND q.lease_until IS NOT NULL
),
verdict AS MATERIALIZED (
    SELECT i.*, k.company_id, k.recipient, k.batch_id, k.country_no, k.is_test,
        CASE WHEN EXISTS (
            SELECT FROM leases l
            WHERE l.task_id = i.task_id AND l.app_id = i.app_id AND (i.lease_id IS NULL OR l.lease_id = i.lease_id)
        ) THEN 'ignored' ELSE 'refused' END AS effect
    FROM input i
    JOIN known k ON k.task_id = i.task_id
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, app_id, lease_id, event, status, effect, error_message, request_data, created_at, batch_id, country_no, is_test
    )
    SELECT v.task_id, v.company_id, v.app_id, v.lease_id, 'reported', v.status, v.effect, v.error_message, v.request_data,
        clock_timestamp(), v.batch_id, v.country_no, v.is_test
    FROM verdict v
),
accepted AS (
    INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no, in_part)
    SELECT v.task_id, v.lease_id, v.app_id, v.recipient, left(n.number, 200), v.in_part
    FROM verdict v CROSS JOIN LATERAL unnest(string_to_array(v.provider_no, E'\n')) AS n (number)
    WHERE n.number <> '' AND v.effect <> 'refused' AND v.lease_id IS NOT NULL
)
SELECT v.task_id::text AS task_id, v.effect::text AS effect FROM verdict v ORDER BY v.task_id;

-- DeliveryUnclear records why it is unknown whether messages were sent. If on_unclear is not fail, the caller does not report the leases, so that they expire.
-- name: DeliveryUnclear :exec
INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, error, answer)
SELECT unnest(@task_ids::text[]), unnest(@lease_ids::bigint[]), @sender_no::text, unnest(@recipients::text[]),
    left(unnest(@errors::text[]), 500), nullif(left(unnest(@answers::text[]), 2000), '');

-- TaskCancel cancels the PENDING tasks of task_ids, and returns their ids. As in all statements, rows are locked in the order of their ids.
-- name: TaskCancel :many
WITH waiting AS MATERIALIZED (
    SELECT q.task_id FROM queue q WHERE q.task_id = ANY (@task_ids::text[]) AND q.lease_until IS NULL ORDER BY q.task_id FOR UPDATE
),
cancelled AS (
    DELETE FROM queue q WHERE q.task_id = ANY (ARRAY(SELECT w.task_id FROM waiting w))
    RETURNING q.task_id, q.company_id, q.retry_count, q.due_at, q.result, q.pool_id, q.message_type, q.segments, q.entered_at, q.batch_id,
        q.country_no, q.is_test
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, event, effect, created_at, outcome, result, retry_count, due_at, request_data, pool_id, message_type, segments,
        entered_at, batch_id, country_no, is_test
    )
    SELECT c.task_id, c.company_id, 'cancelled', 'cancelled', clock_timestamp(), 4, -- outcome CANCELLED
        c.result, c.retry_count, c.due_at, @request_data, c.pool_id, c.message_type, c.segments, c.entered_at, c.batch_id, c.country_no, c.is_test
    FROM cancelled c
)
SELECT c.task_id FROM cancelled c ORDER BY c.task_id;

-- RequeueHold locks the rows that decide whether tasks of batches, notifications and send-once messages can be requeued, and returns their ids. The locks end
-- with the transaction. Four changes can affect a requeue: a cancellation of the batch, a pause of the batch, a withdrawal, and another message to the same
-- people. Because of the locks, each of them is either visible to the next statement, or waits until the transaction has ended. The same is true for a receipt:
-- see TaskReceiptHold. The statement locks the batch first, like all statements that change tasks of the batch.
-- name: RequeueHold :many
WITH about AS MATERIALIZED (
    SELECT m.rendering_id, m.batch_id FROM messages m WHERE m.task_id = ANY (@task_ids::text[])
),
batch AS MATERIALIZED (
    SELECT b.id FROM batches b WHERE b.id IN (SELECT a.batch_id FROM about a) ORDER BY b.id FOR SHARE
),
notified AS MATERIALIZED (
    SELECT n.id FROM notifications n
    WHERE n.id = ANY (ARRAY(SELECT r.notification_id FROM renderings r WHERE r.id IN (SELECT a.rendering_id FROM about a)))
    ORDER BY n.id
    FOR SHARE
),
sent_once AS MATERIALIZED (
    SELECT s.id FROM subscribe_messages s WHERE s.task_id = ANY (@task_ids::text[]) ORDER BY s.id FOR SHARE
),
ended AS MATERIALIZED (
    SELECT r.id FROM report_logs r
    WHERE r.task_id = ANY (@task_ids::text[]) AND r.outcome IN (3, 4) -- FAILED, CANCELLED
    ORDER BY r.task_id
    FOR UPDATE
)
SELECT b.id FROM batch b
UNION ALL
SELECT n.id FROM notified n
UNION ALL
SELECT s.id FROM sent_once s
UNION ALL
SELECT e.id FROM ended e
ORDER BY id;

-- RequeueMessages returns the data of tasks that decides whether their recipients are allowed to receive the messages now. If the company or the channel of a
-- task was deleted, the task is not returned and counts as withdrawn.
-- name: RequeueMessages :many
SELECT m.task_id, c.channel, m.company_id, m.message_type, m.priority, m.recipient, coalesce(m.sign, '')::text AS sign,
    coalesce(m.sender_no, '')::text AS sender_no, m.expires_at, m.expect_send_time,
    coalesce(m.exemption, '')::text AS exemption
FROM messages m
JOIN channels c ON c.id = task_channel(m.rendering_id)
JOIN companies o ON o.id = m.company_id
WHERE m.task_id = ANY (@task_ids::text[])
ORDER BY m.task_id;

-- TaskRequeue requeues the FAILED and CANCELLED tasks of task_ids, and returns the tasks that wait again. A requeued task counts as a new task with all its
-- attempts. It waits in the pool of the current routes. A task of one sender waits in the pool of this sender, which the caller has created and locked. A task
-- of a paused batch is held at once. quiet_froms contains queue.quiet_from of each task.
--
-- The log rows that ended these tasks lose their outcome. The earlier leases of the tasks have ended, so a report of such a lease cannot end the requeued task.
-- If two transactions requeue a task concurrently, the second waits for the row of the outcome. The row then has no outcome, so the second transaction skips
-- the task.
--
-- RequeueVerdicts returns why a task was skipped. Both statements have the same conditions: change them together.
-- name: TaskRequeue :many
WITH ended AS MATERIALIZED (
    SELECT r.task_id, r.id FROM report_logs r
    WHERE r.task_id = ANY (@task_ids::text[]) AND r.outcome IN (3, 4) AND r.event <> 'unreachable' -- FAILED, CANCELLED
    ORDER BY r.task_id
    FOR UPDATE
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM ended) e -- depends on ended, so the time is read after the rows are locked
),
delivered AS MATERIALIZED (
    SELECT r.task_id FROM report_logs r WHERE r.task_id = ANY (@task_ids::text[]) AND r.event = 'receipt' AND r.effect = 'delivered'
),
fit AS MATERIALIZED (
    SELECT m.*, p.pool_id AS pool_today
    FROM messages m
    CROSS JOIN moment
    CROSS JOIN LATERAL (
        SELECT pool_serving(s.id, m.company_id, m.message_type, m.country_no) AS pool_id
        FROM pools s
        WHERE m.sender_no IS NULL AND s.channel_id = task_channel(m.rendering_id) AND s.company_id IS NULL AND s.retired_at IS NULL -- the shared pool
        UNION ALL
        SELECT s.id
        FROM senders o
        JOIN pools s ON s.sender_id = o.id AND s.company_id = m.company_id AND s.message_type = m.message_type -- the pool of one sender
        WHERE o.sender_no = m.sender_no AND sender_serves(o.id, m.company_id)
    ) p
    WHERE m.task_id = ANY (@task_ids::text[]) AND m.task_id IN (SELECT e.task_id FROM ended e)
        AND m.task_id NOT IN (SELECT d.task_id FROM delivered d)
        AND (m.expires_at IS NULL OR m.expires_at > moment.at + @min_lease::interval) -- no claim would return a task that expires sooner
        AND NOT (m.is_test AND m.exemption IS NOT DISTINCT FROM 'caps_and_quiet') -- the trial of a sender is tried once
        AND m.recipient <> '' -- empty: the recipient was erased
        AND NOT m.is_sensitive -- the text was deleted when the task ended
        AND (@send_tests::boolean OR NOT m.is_test)
        AND NOT task_is_withdrawn(m.task_id, m.company_id, m.rendering_id, m.user_id)
        AND NOT EXISTS (SELECT FROM batches b WHERE b.id = m.batch_id AND b.status = 'cancelled' AND NOT b.is_settled) -- its tasks are being cancelled
),
revived AS (
    UPDATE report_logs r
    SET outcome = NULL
    WHERE r.task_id = ANY (@task_ids::text[]) AND r.task_id IN (SELECT f.task_id FROM fit f) AND r.id = ANY (ARRAY(SELECT e.id FROM ended e))
),
outdated AS (
    UPDATE report_logs r
    SET event = 'past_receipt'
    WHERE r.task_id = ANY (@task_ids::text[]) AND r.task_id IN (SELECT f.task_id FROM fit f) AND r.event = 'receipt'
),
queued AS (
    INSERT INTO queue (
        task_id, pool_id, due_at, due_when_resumed, entered_at, was_claimed, expires_at, created_at, updated_at, company_id, message_type,
        country_no, priority, segments, phone_number, recipient, content, sign, rendering_id, user_id, on_unclear, traceparent, batch_id, is_test,
        contact_values, submitted_by, quiet_from, exemption
    )
    SELECT f.task_id, f.pool_today, CASE WHEN b.status = 'paused' THEN held_due_at() ELSE d.at END, CASE WHEN b.status = 'paused' THEN d.at END,
        d.at, true, f.expires_at, f.created_at, moment.at, f.company_id, f.message_type, f.country_no, f.priority, f.segments, f.phone_number,
        f.recipient, f.content, f.sign, f.rendering_id, f.user_id, f.on_unclear, f.traceparent, f.batch_id, f.is_test, f.contact_values,
        f.submitted_by, (@quiet_froms::timestamp with time zone[])[array_position(@task_ids::text[], f.task_id)],
        f.exemption
    FROM fit f
    CROSS JOIN moment
    LEFT JOIN batches b ON b.id = f.batch_id -- locked by RequeueHold
    CROSS JOIN LATERAL (SELECT greatest(f.expect_send_time, moment.at) AS at) d
),
logged AS (
    INSERT INTO report_logs (task_id, company_id, event, effect, created_at, error_message, request_data, batch_id, country_no, is_test)
    SELECT f.task_id, f.company_id, 'requeued', 'requeued', moment.at, nullif(@remark::text, ''), @request_data, f.batch_id, f.country_no, f.is_test
    FROM fit f
    CROSS JOIN moment
)
SELECT f.task_id, f.pool_today::bigint AS pool_id FROM fit f ORDER BY f.task_id;

-- RequeueVerdicts returns whether each task can be requeued. The verdict is 'fit' if the task can be requeued, and otherwise the reason why not: see
-- TaskRequeue. A task that does not exist is not returned.
-- name: RequeueVerdicts :many
SELECT m.task_id, CASE
        WHEN q.task_id IS NOT NULL THEN 'not_ended'
        WHEN e.outcome = 2 THEN 'succeeded' -- SUCCESS
        WHEN d.task_id IS NOT NULL THEN 'delivered'
        WHEN m.expires_at <= clock_timestamp() + @min_lease::interval OR m.is_test AND m.exemption IS NOT DISTINCT FROM 'caps_and_quiet' THEN 'expired'
        WHEN e.event = 'unreachable' THEN CASE WHEN m.rendering_id IS NULL THEN 'refused' ELSE 'unreachable' END
        WHEN m.recipient = '' THEN 'erased'
        WHEN m.is_sensitive THEN 'sensitive'
        WHEN m.is_test AND NOT @send_tests::boolean THEN 'test'
        WHEN task_is_withdrawn(m.task_id, m.company_id, m.rendering_id, m.user_id) THEN 'withdrawn'
        WHEN task_channel(m.rendering_id) IS NULL THEN 'withdrawn' -- the channel was deleted
        WHEN EXISTS (SELECT FROM batches b WHERE b.id = m.batch_id AND b.status = 'cancelled' AND NOT b.is_settled) THEN 'cancelling'
        WHEN m.sender_no IS NOT NULL AND NOT EXISTS (
            SELECT FROM senders s WHERE s.sender_no = m.sender_no AND sender_serves(s.id, m.company_id)
        ) THEN 'sender_gone'
        ELSE 'fit'
    END::text AS verdict
FROM messages m
LEFT JOIN queue q ON q.task_id = m.task_id
LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.task_id = ANY (@task_ids::text[]) AND e.outcome IS NOT NULL
LEFT JOIN report_logs d ON d.task_id = m.task_id AND d.task_id = ANY (@task_ids::text[]) AND d.event = 'receipt' AND d.effect = 'delivered'
WHERE m.task_id = ANY (@task_ids::text[])
ORDER BY m.task_id;

-- TaskLastRequeue returns the user, time and remark of the last requeue of a task. It returns no row if the task was never requeued.
-- name: TaskLastRequeue :one
SELECT r.created_at, coalesce(r.request_data ->> 'by', '')::text AS by, r.error_message AS remark
FROM report_logs r
WHERE r.task_id = @task_id AND r.event = 'requeued'
ORDER BY r.id DESC
LIMIT 1;

-- TaskIDsOfNotifications returns the tasks of notifications that are PENDING or leased.
-- name: TaskIDsOfNotifications :many
SELECT q.task_id
FROM renderings r
JOIN queue q ON q.rendering_id = r.id
WHERE r.notification_id = ANY (@notification_ids::bigint[])
ORDER BY q.task_id;

-- TaskIDsTo returns the next tasks to a recipient after after_id that are PENDING or leased. company_id null: tasks of all companies.
-- name: TaskIDsTo :many
SELECT m.task_id FROM messages m
JOIN queue q ON q.task_id = m.task_id
WHERE m.recipient = @recipient::text AND m.task_id > @after_id::text -- by messages_recipient_idx
    AND (sqlc.narg(company_id)::bigint IS NULL OR q.company_id = sqlc.narg(company_id)::bigint) AND q.message_type = ANY (@message_types::smallint[])
ORDER BY m.task_id
LIMIT @portion::integer;

-- RecipientsWaiting returns the recipients of an array to whom a task is PENDING or leased.
-- name: RecipientsWaiting :many
SELECT r.recipient::text AS recipient
FROM (SELECT unnest(@recipients::text[]) AS recipient) r
JOIN LATERAL (
    SELECT m.task_id FROM messages m
    JOIN queue q ON q.task_id = m.task_id
    WHERE m.recipient = r.recipient -- by messages_recipient_idx
    LIMIT 1
) w ON true
ORDER BY r.recipient;

-- TaskTakeBack cancels the PENDING tasks of task_ids. A leased task is not cancelled, because its sender can still send the message. Such a task expires now, so
-- that its message is not sent again. If its lease ends without an outcome, TaskExpire cancels the task. The statement returns the cancelled tasks (lease_until is
-- null) and the leased tasks. `by` is the user of the cancellation. An empty result: a cancelled task keeps the result of its last attempt.
-- name: TaskTakeBack :many
WITH unsettled AS MATERIALIZED (
    SELECT q.task_id, q.company_id, q.retry_count, q.due_at, q.result, q.pool_id, q.message_type, q.segments, q.entered_at, q.batch_id, q.country_no,
        q.is_test, q.processing_app_id, q.lease_until, q.lease_until IS NULL AS is_pending
    FROM queue q
    WHERE q.task_id = ANY (@task_ids::text[])
    ORDER BY q.task_id
    FOR UPDATE
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM unsettled) o -- depends on unsettled, so the time is read after the rows are locked
),
expired AS (
    UPDATE queue q
    SET expires_at = (SELECT moment.at FROM moment), taken_back_by = @by::text, taken_back_result = nullif(@result::text, '')
    WHERE q.task_id = ANY (ARRAY(SELECT o.task_id FROM unsettled o WHERE NOT o.is_pending))
        AND (q.expires_at IS NULL OR q.expires_at > (SELECT moment.at FROM moment))
),
settled AS (
    DELETE FROM queue q WHERE q.task_id = ANY (ARRAY(SELECT o.task_id FROM unsettled o WHERE o.is_pending))
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, event, effect, created_at, outcome, result, retry_count, due_at, request_data, pool_id, message_type, segments,
        entered_at, batch_id, country_no, is_test
    )
    SELECT o.task_id, o.company_id, 'cancelled', 'cancelled', (SELECT moment.at FROM moment), 4, -- CANCELLED
        coalesce(nullif(@result::text, ''), o.result), o.retry_count, o.due_at,
        jsonb_build_object('by', @by::text), o.pool_id, o.message_type, o.segments, o.entered_at, o.batch_id, o.country_no, o.is_test
    FROM unsettled o
    WHERE o.is_pending
)
SELECT o.task_id, coalesce(o.processing_app_id, '')::text AS sender_no, o.lease_until FROM unsettled o ORDER BY o.task_id;

-- QueueWriters returns the open transactions that write queue.
-- name: QueueWriters :many
SELECT o.transaction::text AS transaction FROM queue_writers() o (transaction) ORDER BY o.transaction;

-- QueueEnter locks queue as every statement that adds tasks does, until the end of the transaction. Because of this lock, a new block is either visible to the
-- next statement of the transaction, or enforced after the transaction has ended.
-- name: QueueEnter :exec
LOCK TABLE queue IN ROW EXCLUSIVE MODE;

-- TaskReceiptHold locks the outcomes of tasks until the end of the transaction. So the receipt of a task and a requeue of the same task happen one after the
-- other: TaskReceipt sees the requeue, or the requeue sees the receipt. The statement locks only FAILED and CANCELLED tasks, because other tasks cannot be
-- requeued.
-- name: TaskReceiptHold :many
SELECT r.id FROM report_logs r
WHERE r.task_id = ANY (@task_ids::text[]) AND r.outcome IN (3, 4) -- FAILED, CANCELLED
ORDER BY r.task_id
FOR SHARE;

-- TaskReceipt stores receipts of tasks: state 1 means that the message was delivered, state 2 that it was not delivered. The result does not depend on the
-- order of receipts, or on repeated receipts. Each state is stored once. After delivered, no other state is stored, and delivered overrides an earlier
-- state. If a receipt says that a message that was sent before a requeue was not delivered, the receipt does not count for the requeued task. It is stored
-- as a past_receipt. A receipt that says delivered always counts, because the person has received the message.
-- name: TaskReceipt :exec
WITH input AS MATERIALIZED (
    SELECT unnest(@task_ids::text[]) AS task_id, unnest(@states::smallint[]) AS state, unnest(@codes::text[]) AS code,
        unnest(@sender_nos::text[]) AS sender_no, unnest(@lease_ids::int8[]) AS lease_id, -- can contain NULL, see sqlc.yaml
        generate_series(1, cardinality(@task_ids::text[])) AS nth
),
requeued AS MATERIALIZED (
    SELECT r.task_id, max(r.id) AS id FROM report_logs r WHERE r.task_id = ANY (@task_ids::text[]) AND r.event = 'requeued' GROUP BY r.task_id
),
past AS MATERIALIZED (
    SELECT r.lease_id FROM report_logs r JOIN requeued q ON q.task_id = r.task_id
    WHERE r.task_id = ANY (@task_ids::text[]) AND r.leased_at IS NOT NULL AND r.id < q.id
),
results AS MATERIALIZED (
    SELECT i.task_id, i.is_past, min(i.state) AS state, (array_agg(i.code ORDER BY i.state, i.nth))[1] AS code,
        (array_agg(i.sender_no ORDER BY i.state, i.nth))[1] AS sender_no -- the sender whose provider reported the state
    FROM (SELECT input.*, state = 2 AND lease_id IS NOT NULL AND lease_id IN (SELECT past.lease_id FROM past) AS is_past FROM input) i
    GROUP BY i.task_id, i.is_past
),
known AS MATERIALIZED (
    -- With an array of ids, the planner opens only the partitions of these ids. With a join, it would open all partitions.
    SELECT m.task_id, m.company_id, m.pool_id, m.message_type, m.segments, m.batch_id, m.country_no, m.is_test FROM messages m
    WHERE m.task_id = ANY (@task_ids::text[])
),
stored AS MATERIALIZED (
    SELECT r.task_id, r.event, r.effect, r.result FROM report_logs r
    WHERE r.task_id = ANY (@task_ids::text[]) AND r.event IN ('receipt', 'past_receipt')
)
INSERT INTO report_logs (
    task_id, company_id, app_id, event, created_at, effect, result, error_message, pool_id, message_type, segments, batch_id, country_no, is_test
)
SELECT o.task_id, k.company_id, o.sender_no, CASE WHEN o.is_past THEN 'past_receipt' ELSE 'receipt' END, clock_timestamp(),
    CASE o.state WHEN 1 THEN 'delivered' ELSE 'undelivered' END, nullif(o.code, ''), CASE o.state WHEN 2 THEN nullif(o.code, '') END,
    k.pool_id, k.message_type, k.segments, k.batch_id, k.country_no, k.is_test
FROM results o
JOIN known k ON k.task_id = o.task_id
WHERE NOT EXISTS (
    SELECT FROM stored s
    WHERE s.task_id = o.task_id
        AND CASE WHEN o.is_past THEN s.event = 'past_receipt' AND s.result IS NOT DISTINCT FROM nullif(o.code, '') ELSE s.event = 'receipt' AND s.effect = 'delivered' END
)
ORDER BY o.task_id, o.is_past
ON CONFLICT (effect, task_id) WHERE event = 'receipt' DO NOTHING;

-- PoolSettle clears unsettled_since of pools that had their first active route longer ago than `since`. TaskMove has moved all tasks to these pools, and stops
-- searching broader pools for more tasks. `since` must be longer than the move takes. It must also be longer than a server can submit tasks with an older
-- version of the routes.
-- name: PoolSettle :exec
UPDATE pools SET unsettled_since = NULL WHERE unsettled_since < clock_timestamp() - sqlc.arg(since)::interval;

-- SealedList returns the encrypted texts of all sensitive messages that wait or are leased.
-- name: SealedList :many
SELECT q.task_id, q.sealed::text AS sealed FROM queue q WHERE q.sealed IS NOT NULL ORDER BY q.task_id;

-- SealedStore replaces the encrypted text of a task, unless it was changed.
-- name: SealedStore :execrows
UPDATE queue SET sealed = @sealed::text WHERE task_id = @task_id AND sealed = @before::text;

-- SensitiveTasks returns those of task_ids whose messages are sensitive.
-- name: SensitiveTasks :many
SELECT m.task_id FROM messages m
WHERE m.task_id = ANY (@task_ids::text[]) AND m.is_sensitive
ORDER BY m.task_id;
