-- Statements on conversations: the messages between a company and a phone number, in both directions. owner is the submitter whose tasks and answers a
-- statement returns. An empty owner means all submitters.

-- A list reads the last received messages of conversations in portions, by an index. ConversationListOf then applies all filters to these ids. Each of the
-- following statements returns up to max_rows ids before before_id, newest first.

-- name: ConversationIDs :many
SELECT c.last_id FROM conversations c
WHERE c.submitted_by = @owner::text AND c.last_id < @before_id::bigint
ORDER BY c.last_id DESC
LIMIT @max_rows::integer;

-- name: ConversationIDsUnread :many
SELECT c.last_id FROM conversations c
WHERE c.submitted_by = @owner::text AND c.unread > 0 AND c.last_id < @before_id::bigint
ORDER BY c.last_id DESC
LIMIT @max_rows::integer;

-- name: ConversationIDsOfCompany :many
SELECT c.last_id FROM conversations c
WHERE c.company_id = @company_id AND c.submitted_by = @owner::text AND c.last_id < @before_id::bigint
ORDER BY c.last_id DESC
LIMIT @max_rows::integer;

-- name: ConversationIDsUnreadOfCompany :many
SELECT c.last_id FROM conversations c
WHERE c.company_id = @company_id AND c.submitted_by = @owner::text AND c.unread > 0 AND c.last_id < @before_id::bigint
ORDER BY c.last_id DESC
LIMIT @max_rows::integer;

-- ConversationIDsOfSender returns messages that a sender received. Most of them are not the last message of their conversation.
-- name: ConversationIDsOfSender :many
SELECT r.id FROM received_messages r WHERE r.sender_no = @sender_no AND r.id < @before_id::bigint ORDER BY r.id DESC LIMIT @max_rows::integer;

-- ConversationListOf returns the conversations with the last received messages `ids` that match all filters, newest first. Conversations of deleted companies
-- are not returned.
-- name: ConversationListOf :many
SELECT c.company_id, o.company_no, c.phone_number, c.unread, c.last_id, r.sender_no, left(r.content, @max_length::integer)::text AS content, r.created_at, r.task_id
FROM conversations c
JOIN received_messages r ON r.id = c.last_id
JOIN companies o ON o.id = c.company_id
WHERE c.submitted_by = @owner::text AND c.last_id = ANY (@ids::bigint[])
    AND (sqlc.narg(company_id)::bigint IS NULL OR c.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(sender_no)::text IS NULL OR r.sender_no = sqlc.narg(sender_no)::text)
    AND (sqlc.narg(is_unread)::boolean IS NULL OR (c.unread > 0) = sqlc.narg(is_unread)::boolean)
ORDER BY c.last_id DESC;

-- name: ConversationFind :one
SELECT c.phone_number FROM conversations c
WHERE c.company_id = @company_id AND c.phone_number = ANY (@phone_numbers::text[]) AND c.submitted_by = @owner::text
ORDER BY array_position(@phone_numbers::text[], c.phone_number)
LIMIT 1;

-- name: ConversationGet :one
SELECT c.company_id, o.company_no, c.phone_number, c.unread, c.last_id, r.sender_no, left(r.content, @max_length::integer)::text AS content, r.created_at, r.task_id
FROM conversations c
JOIN received_messages r ON r.id = c.last_id
JOIN companies o ON o.id = c.company_id
WHERE c.company_id = @company_id AND c.phone_number = @phone_number AND c.submitted_by = @owner::text;

-- ConversationUnread returns the number of conversations with unread messages, at most max_rows, and the largest id of a received message (0: no message
-- exists). Each message that arrives changes one of these values, so that a page can notice new messages without reading a list. Conversations of deleted
-- companies are not counted, as in ConversationListOf.
-- name: ConversationUnread :one
SELECT (
    SELECT count(*) FROM (
        SELECT FROM conversations c
        WHERE c.submitted_by = '' AND c.unread > 0 AND EXISTS (SELECT FROM companies o WHERE o.id = c.company_id)
        LIMIT @max_rows::integer
    ) u
)::bigint AS conversations,
    coalesce((SELECT c.last_id FROM conversations c WHERE c.submitted_by = '' ORDER BY c.last_id DESC LIMIT 1), 0)::bigint AS last_id;

-- name: ConversationUnreadOfCompany :one
SELECT (
    SELECT count(*) FROM (SELECT FROM conversations c WHERE c.company_id = @company_id AND c.submitted_by = '' AND c.unread > 0 LIMIT @max_rows::integer) u
)::bigint AS conversations, coalesce((
    SELECT c.last_id FROM conversations c WHERE c.company_id = @company_id AND c.submitted_by = '' ORDER BY c.last_id DESC LIMIT 1
), 0)::bigint AS last_id;

-- ConversationPartition reads the max_rows newest partitions before before_id. It returns the first id of the oldest of these partitions. The id is empty if
-- fewer than max_rows partitions exist.
-- name: ConversationPartition :one
SELECT coalesce(CASE WHEN count(*) = @max_rows::integer THEN min(n.first_id) END, '')::text AS first_id
FROM (
    SELECT p.first_id FROM task_partitions p
    WHERE p.dropped_at IS NULL AND p.first_id < @before_id::text AND p.first_day <= (now() AT TIME ZONE 'UTC')::date
    ORDER BY p.first_id DESC
    LIMIT @max_rows::integer
) n;

-- ConversationLastTasks returns the last task to each number, if its id is at least the from_id of the number. nth is the index of the number, from 1. The
-- statement reads the newest max_tasks tasks to each number. All their ids are from min_id up to, but without, end_id, so that the planner opens only the
-- partitions of this range.
-- name: ConversationLastTasks :many
SELECT n.nth::integer AS nth, t.task_id, t.content::text AS content, t.created_at
FROM (
    SELECT unnest(@company_ids::bigint[]) AS company_id, unnest(@phone_numbers::text[]) AS phone_number, unnest(@from_ids::text[]) COLLATE "C" AS from_id,
        generate_series(1, cardinality(@company_ids::bigint[])) AS nth
) n
CROSS JOIN LATERAL (
    SELECT m.task_id, left(coalesce('【' || m.sign || '】', '') || m.content, @max_length::integer) AS content, m.created_at
    FROM (
        SELECT o.task_id, o.content, o.sign, o.created_at, o.company_id, o.submitted_by FROM messages o
        WHERE o.recipient = n.phone_number AND o.task_id >= @min_id::text AND o.task_id < @end_id::text AND o.task_id >= n.from_id
        ORDER BY o.task_id DESC
        LIMIT @max_tasks::integer
    ) m
    WHERE m.company_id = n.company_id AND (@owner::text = '' OR m.submitted_by = @owner::text)
    ORDER BY m.task_id DESC
    LIMIT 1
) t
ORDER BY n.nth;

-- ConversationTasks returns up to max_rows tasks to a number before before_id and from from_id on, newest first. is_own: the task belongs to the conversation.
-- The content of other tasks is empty.
-- name: ConversationTasks :many
SELECT o.task_id, o.is_own::boolean AS is_own, CASE WHEN o.is_own THEN coalesce('【' || o.sign || '】', '') || o.content ELSE '' END::text AS content, o.created_at
FROM (
    SELECT m.task_id, m.content, m.sign, m.created_at, m.company_id = @company_id::bigint AND (@owner::text = '' OR m.submitted_by = @owner::text) AS is_own
    FROM messages m
    WHERE m.recipient = @phone_number::text AND m.task_id < @before_id::text AND m.task_id >= @from_id::text
    ORDER BY m.task_id DESC
    LIMIT @max_rows::integer
) o
ORDER BY o.task_id DESC;

-- ConversationStates returns the state of each task, newest first. It is computed as in the view tasks, which would open all partitions of report_logs. With the
-- array of ids, the planner opens only the partitions of these ids. OFFSET 0 forces one lookup in one partition for each id; otherwise, each partition is searched
-- for each id.
-- name: ConversationStates :many
SELECT t.status, t.sender_no, t.delivery
FROM (SELECT u.task_id COLLATE "C" AS task_id FROM unnest(@task_ids::text[]) AS u (task_id)) i
CROSS JOIN LATERAL (
    SELECT CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
        coalesce(q.processing_app_id, e.app_id, '')::text AS sender_no, coalesce(e.delivery, '')::text AS delivery
    FROM (
        -- One scan of report_logs: a second one would double the time of planning, which grows with the partitions.
        SELECT max(r.outcome) AS outcome, -- at most one row has an outcome
            max(r.app_id) FILTER (WHERE r.outcome IS NOT NULL AND r.event = 'reported' AND r.effect <> 'exhausted') AS app_id,
            min(r.effect) FILTER (WHERE r.event = 'receipt' AND r.effect IN ('delivered', 'undelivered')) AS delivery -- delivered before undelivered
        FROM report_logs r
        WHERE r.task_id = i.task_id AND r.task_id = ANY (@task_ids::text[])
    ) e
    LEFT JOIN queue q ON q.task_id = i.task_id
    OFFSET 0
) t
ORDER BY i.task_id DESC;

-- ConversationReceived returns up to max_rows received messages of a conversation before before_id, newest first. rule_...: what a rule did with the message.
-- name: ConversationReceived :many
SELECT r.id, r.content, r.created_at, r.received_at, r.sender_no, r.sim, r.read_at, a.rule_id, a.action AS rule_action, a.outcome AS rule_outcome,
    a.refused AS rule_refused, a.done_at AS rule_done_at
FROM received_messages r
LEFT JOIN reply_actions a ON a.received_id = r.id AND a.outcome IS NOT NULL
WHERE r.company_id = @company_id AND r.phone_number = @phone_number AND r.id < @before_id::bigint
    AND (@owner::text = '' OR r.submitted_by = @owner::text)
ORDER BY r.id DESC
LIMIT @max_rows::integer;

-- ConversationSign returns the signature of a task; null: the task has none.
-- name: ConversationSign :one
SELECT m.sign FROM messages m WHERE m.task_id = @task_id;

-- ConversationUserIsDisabled reports whether a user is disabled.
-- name: ConversationUserIsDisabled :one
SELECT EXISTS (SELECT FROM users u WHERE u.username = @username AND u.is_disabled)::boolean AS is_disabled;
