-- Statements on messages of programs that use the API of SMSGate: several tasks with one id.

-- SmsgateMessagePut stores a message with its tasks. It returns no row if its submitter has already used its id.
-- name: SmsgateMessagePut :one
INSERT INTO smsgate_messages (company_id, submitted_by, message_id, task_ids, sender_no)
VALUES (@company_id, @submitted_by, @message_id, @task_ids::text[], nullif(@sender_no::text, ''))
ON CONFLICT ON CONSTRAINT smsgate_messages_pkey DO NOTHING
RETURNING created_at;

-- SmsgateMessageGet returns a message of a submitter.
-- name: SmsgateMessageGet :one
SELECT m.message_id, m.task_ids, m.sender_no, m.created_at
FROM smsgate_messages m
WHERE m.company_id = @company_id AND m.submitted_by = @submitted_by AND m.message_id = @message_id;

-- SmsgateMessageList returns messages of a submitter in a time range, newest first, or oldest first if ascending. Each row contains the total number of
-- matching messages. It reads only the first max_seen messages of the range, so that later pages do not cost more. Counting and sorting use only
-- smsgate_messages_list_idx; the table is read only for the rows of the page.
-- name: SmsgateMessageList :many
SELECT page.message_id, m.task_ids, m.sender_no, m.created_at, page.matching
FROM (
    SELECT w.message_id, w.created_at, count(*) OVER () AS matching
    FROM (
        (
            SELECT d.message_id, d.sender_no, d.created_at FROM smsgate_messages d
            WHERE NOT @ascending::boolean AND d.company_id = @company_id AND d.submitted_by = @submitted_by
                AND d.created_at >= @from_at::timestamptz AND d.created_at <= @to_at::timestamptz
            ORDER BY d.created_at DESC, d.message_id DESC
            LIMIT @max_seen::integer
        )
        UNION ALL
        (
            SELECT a.message_id, a.sender_no, a.created_at FROM smsgate_messages a
            WHERE @ascending::boolean AND a.company_id = @company_id AND a.submitted_by = @submitted_by
                AND a.created_at >= @from_at::timestamptz AND a.created_at <= @to_at::timestamptz
            ORDER BY a.created_at, a.message_id
            LIMIT @max_seen::integer
        )
    ) w
    WHERE sqlc.narg(sender_no)::text IS NULL OR w.sender_no = sqlc.narg(sender_no)::text
    ORDER BY CASE WHEN @ascending::boolean THEN w.created_at END, CASE WHEN NOT @ascending::boolean THEN w.created_at END DESC, w.message_id
    OFFSET @skipped::integer LIMIT @page_limit::integer
) page
JOIN smsgate_messages m ON m.company_id = @company_id AND m.submitted_by = @submitted_by AND m.message_id = page.message_id
ORDER BY CASE WHEN @ascending::boolean THEN page.created_at END, CASE WHEN NOT @ascending::boolean THEN page.created_at END DESC, page.message_id;

-- SmsgateTasks returns the data of the tasks of messages, and for some messages their texts. It returns no row for a task that was dropped from the history.
-- name: SmsgateTasks :many
SELECT t.task_id, t.recipient, t.status, t.result, t.delivery, t.delivery_code, t.processing_app_id,
    t.created_at, t.updated_at, t.sent_at, t.reported_at, t.delivered_at,
    (CASE WHEN t.task_id = ANY (@texts_of::text[]) THEN t.content ELSE '' END)::text AS content,
    (CASE WHEN t.task_id = ANY (@texts_of::text[]) THEN coalesce(t.sign, '') ELSE '' END)::text AS sign
FROM tasks t
WHERE t.task_id = ANY (@task_ids::text[])
ORDER BY t.task_id;

-- SmsgateMessagesDeleteExpired deletes up to batch_size messages whose tasks were dropped: messages that are older than all partitions, and messages from the
-- time of a dropped partition. A message is created at the same time as its tasks. A message within a day of an existing partition stays, which covers the
-- time zones of days.
-- name: SmsgateMessagesDeleteExpired :execrows
DELETE FROM smsgate_messages m
WHERE (m.company_id, m.submitted_by, m.message_id) IN (
    SELECT o.company_id, o.submitted_by, o.message_id
    FROM (
        SELECT '-infinity'::date AS first_day, min(p.first_day) AS before_day FROM task_partitions p WHERE p.dropped_at IS NULL
        UNION ALL
        SELECT d.first_day, d.last_day + 1 FROM task_partitions d
        WHERE d.dropped_at IS NOT NULL AND d.first_day > (SELECT min(k.first_day) FROM task_partitions k WHERE k.dropped_at IS NULL)
    ) gone
    JOIN smsgate_messages o ON o.created_at >= gone.first_day AND o.created_at < gone.before_day
    WHERE NOT EXISTS (
        SELECT FROM task_partitions n
        WHERE n.dropped_at IS NULL AND o.created_at >= n.first_day - 1 AND o.created_at < n.last_day + 2
    )
    AND NOT EXISTS (SELECT FROM messages_default t WHERE t.task_id = ANY (o.task_ids)) -- tasks that were kept when their day was dropped
    ORDER BY o.created_at
    LIMIT @batch_size::integer
);

-- SmsgateDevices returns the senders that a company can name for its short messages. For a shared sender, the last poll is hidden, because it would reveal
-- when other companies send.
-- name: SmsgateDevices :many
SELECT s.sender_no, s.created_at, s.updated_at,
    (CASE WHEN s.is_shared THEN s.created_at ELSE coalesce(st.seen_at, s.created_at) END)::timestamptz AS last_seen
FROM senders s
JOIN channels c ON c.id = s.channel_id AND c.channel = @channel::text
LEFT JOIN sender_states st ON st.sender_id = s.id
WHERE sender_serves(s.id, @company_id::bigint)
ORDER BY s.sender_no
LIMIT @most::integer;
