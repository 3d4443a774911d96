-- Messages of programs that were written for SMSGate: some tasks under one id.

-- SmsgateMessagePut stores a message with its tasks, unless its submitter has used its id already.
-- name: SmsgateMessagePut :execrows
INSERT INTO smsgate_messages (company_id, submitted_by, message_id, task_ids, sender_no)
VALUES (@company_id, @submitted_by, @message_id, @task_ids::text[], nullif(@sender_no::text, ''))
ON CONFLICT ON CONSTRAINT smsgate_messages_pkey DO NOTHING;

-- SmsgateMessageGet returns a message of a submitter.
-- name: SmsgateMessageGet :one
SELECT m.message_id, m.task_ids, m.sender_no, m.created_at
FROM smsgate_messages m
WHERE m.company_id = @company_id AND m.submitted_by = @submitted_by AND m.message_id = @message_id;

-- SmsgateMessageList returns messages of a submitter and a time, newest first, or oldest first if ascending, and in each row how many match. It
-- looks at the first seen_most of the time, so that a page that is far behind costs no more.
-- name: SmsgateMessageList :many
SELECT w.message_id, w.task_ids, w.sender_no, w.created_at, count(*) OVER () AS matching
FROM (
    (
        SELECT m.message_id, m.task_ids, m.sender_no, m.created_at FROM smsgate_messages m
        WHERE NOT @ascending::boolean AND m.company_id = @company_id AND m.submitted_by = @submitted_by
            AND m.created_at >= @from_at::timestamptz AND m.created_at <= @to_at::timestamptz
        ORDER BY m.created_at DESC, m.message_id DESC
        LIMIT @seen_most::integer
    )
    UNION ALL
    (
        SELECT m.message_id, m.task_ids, m.sender_no, m.created_at FROM smsgate_messages m
        WHERE @ascending::boolean AND m.company_id = @company_id AND m.submitted_by = @submitted_by
            AND m.created_at >= @from_at::timestamptz AND m.created_at <= @to_at::timestamptz
        ORDER BY m.created_at, m.message_id
        LIMIT @seen_most::integer
    )
) w
WHERE sqlc.narg(sender_no)::text IS NULL OR w.sender_no = sqlc.narg(sender_no)::text
ORDER BY CASE WHEN @ascending::boolean THEN w.created_at END, CASE WHEN NOT @ascending::boolean THEN w.created_at END DESC, w.message_id
OFFSET @skipped::integer LIMIT @page_limit::integer;

-- SmsgateTasks returns what a message tells of its tasks. A task that was dropped from the history gives no row.
-- name: SmsgateTasks :many
SELECT t.task_id, t.recipient, t.content, t.sign, t.status, t.result, t.delivery, t.delivery_code, t.processing_app_id,
    t.created_at, t.updated_at, t.sent_at, t.reported_at, t.delivered_at
FROM tasks t
WHERE t.task_id = ANY (@task_ids::text[])
ORDER BY t.task_id;

-- SmsgateMessagesForget deletes up to batch_size messages that are older than all partitions which still have tasks. A message is made in the same
-- moment as its tasks, and a day more covers the time zone of the days.
-- name: SmsgateMessagesForget :execrows
DELETE FROM smsgate_messages m
WHERE (m.company_id, m.submitted_by, m.message_id) IN (
    SELECT o.company_id, o.submitted_by, o.message_id FROM smsgate_messages o
    WHERE o.created_at < (SELECT min(p.first_day) FROM task_partitions p WHERE p.dropped_at IS NULL) - 1
    ORDER BY o.created_at
    LIMIT @batch_size::integer
);

-- SmsgateDevices returns the senders that a company may name for its short messages.
-- name: SmsgateDevices :many
SELECT s.sender_no, s.created_at, s.updated_at, coalesce(st.seen_at, st.sent_at, s.created_at)::timestamptz AS last_seen
FROM senders s
JOIN channels c ON c.id = s.channel_id AND c.channel = @channel::text
LEFT JOIN sender_states st ON st.sender_id = s.id
WHERE sender_serves(s.id, @company_id::bigint)
ORDER BY s.sender_no
LIMIT @most::integer;
