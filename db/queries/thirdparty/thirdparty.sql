-- Statements on messages of programs that use the SMSGate API. Such a message has one id and one or more tasks.

-- SmsgateMessagePut stores a message with its tasks. It returns no row if the submitter has already used the id of the message.
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

-- SmsgateMessageList returns messages of a submitter in a time range, newest first. ascending: oldest first. matching is the number of messages that match,
-- among the first max_seen messages of the range. The statement reads only these messages, so that later pages do not cost more. Counting and sorting use only
-- smsgate_messages_list_idx. The table is read only for the rows of the page.
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

-- SmsgateTasks returns the data of tasks. It returns the texts of the tasks in texts_of, and empty texts for other tasks. A task whose partition was dropped is
-- not returned.
-- name: SmsgateTasks :many
SELECT t.task_id, t.recipient, t.status, t.result, t.delivery, t.delivery_code, t.processing_app_id,
    t.created_at, t.updated_at, t.sent_at, t.reported_at, t.delivered_at,
    (CASE WHEN t.task_id = ANY (@texts_of::text[]) THEN t.content ELSE '' END)::text AS content,
    (CASE WHEN t.task_id = ANY (@texts_of::text[]) THEN coalesce(t.sign, '') ELSE '' END)::text AS sign
FROM tasks t
WHERE t.task_id = ANY (@task_ids::text[])
ORDER BY t.task_id;

-- SmsgateMessagesDeleteExpired deletes up to batch_size messages whose tasks were dropped. These are the messages that are older than all partitions, and the
-- messages from the days of a dropped partition. A message is created at the same time as its tasks. A message within one day of an existing partition is not
-- deleted, because the days of different time zones differ by up to one day.
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
    AND NOT EXISTS (SELECT FROM messages_default t WHERE t.task_id = ANY (o.task_ids)) -- tasks that were kept when their partition was dropped
    ORDER BY o.created_at
    LIMIT @batch_size::integer
);

-- SmsgateDevices returns the senders that a company can select for its messages. last_seen of a shared sender is its creation time, because its last poll would
-- reveal when other companies send.
-- name: SmsgateDevices :many
SELECT s.sender_no, s.created_at, s.updated_at,
    (CASE WHEN s.is_shared THEN s.created_at ELSE coalesce(st.seen_at, s.created_at) END)::timestamptz AS last_seen
FROM senders s
JOIN channels c ON c.id = s.channel_id AND c.channel = @channel::text
LEFT JOIN sender_states st ON st.sender_id = s.id
WHERE sender_serves(s.id, @company_id::bigint)
ORDER BY s.sender_no
LIMIT @max_rows::integer;
