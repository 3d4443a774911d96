-- Statements on received messages: what people sent to the numbers of senders.

-- ReceivedSender returns the company of the messages to a sender that answer no task, and the region of their national numbers. If the inbox company of the
-- sender was deleted, the company is `default`.
-- name: ReceivedSender :one
SELECT c.id AS inbox_company_id, c.default_region
FROM senders s
JOIN companies c ON c.id = coalesce(
    (SELECT o.id FROM companies o WHERE o.id = s.inbox_company_id),
    (SELECT o.id FROM companies o WHERE o.company_no = 'default')
)
WHERE s.sender_no = @sender_no;

-- ReceivedExtensions returns the numbers of a sender that belong to companies: its src_id and the extension of the company. A longer number comes before
-- a number with which it begins.
-- name: ReceivedExtensions :many
SELECT c.id AS company_id, (coalesce(s.config ->> 'src_id', '') || e.digits)::text AS own_number
FROM senders s
CROSS JOIN LATERAL jsonb_each_text(CASE jsonb_typeof(s.config -> 'extensions') WHEN 'object' THEN s.config -> 'extensions' END) e (company_no, digits)
JOIN companies c ON c.company_no = e.company_no
WHERE s.sender_no = @sender_no
ORDER BY e.digits DESC, c.id;

-- ReceivedAnswers returns the task that each received message answers, and the submitter and the recipient of this task. Entry n of nths, phone_numbers, untils and
-- to_companies is the index of a message, one of its possible numbers, its time, and the company to whose number it was sent, or 0. A message answers a task of this
-- company to one of its numbers. Of several tasks, it answers the task that the sender leased last before the time of the message. If the sender leased no such task, the statement returns the task of the company that
-- another sender leased last, with is_answered false: this task only shows which number the message has. The statement reads only the max_tasks newest tasks to
-- each number with ids from from_id on. A message without such a task is not returned.
-- name: ReceivedAnswers :many
SELECT DISTINCT ON (n.nth) n.nth::integer AS nth, n.phone_number::text AS phone_number, t.task_id, t.company_id, t.submitted_by, t.is_answered::boolean AS is_answered
FROM (
    SELECT unnest(@nths::integer[]) AS nth, unnest(@phone_numbers::text[]) AS phone_number, unnest(@untils::timestamptz[]) AS until,
        unnest(@to_companies::bigint[]) AS to_company
) n
CROSS JOIN LATERAL (
    SELECT m.task_id, m.company_id, m.submitted_by, l.is_answered, l.leased_at
    FROM (
        SELECT o.task_id, o.company_id, o.submitted_by FROM messages o
        WHERE o.recipient = n.phone_number AND o.task_id >= @from_id::text
        ORDER BY o.task_id DESC
        LIMIT @max_tasks::integer
    ) m
    CROSS JOIN LATERAL (
        SELECT coalesce(x.app_id = @sender_no::text, false) AS is_answered, max(x.leased_at) AS leased_at
        FROM (
            SELECT r.app_id, r.leased_at FROM report_logs r
            WHERE r.task_id = m.task_id AND r.task_id >= @from_id::text AND r.leased_at <= n.until
                AND (r.app_id = @sender_no::text OR m.company_id = @company_id::bigint)
            UNION ALL
            SELECT q.processing_app_id, q.updated_at FROM queue q -- a claim sets updated_at, and nothing changes it during the lease
            WHERE q.task_id = m.task_id AND q.lease_until IS NOT NULL AND q.updated_at <= n.until
                AND (q.processing_app_id = @sender_no::text OR m.company_id = @company_id::bigint)
        ) x
        GROUP BY 1
    ) l
    WHERE n.to_company IN (0, m.company_id)
    ORDER BY l.is_answered DESC, l.leased_at DESC, m.task_id DESC
    LIMIT 1
) t
ORDER BY n.nth, t.is_answered DESC, t.leased_at DESC, t.task_id DESC;

-- ReceivedLock makes transactions that store messages to the same sender run one after the other. Posts of the same messages can have different orders, and their
-- rows would otherwise deadlock in the unique indexes. It locks the row of the sender, which no claim locks, and no other database role can lock.
-- name: ReceivedLock :exec
SELECT s.id FROM senders s WHERE s.sender_no = @sender_no FOR NO KEY UPDATE;

-- ReceivedAdd stores the messages that are not stored yet, in the given order, and returns their ids. An empty text or byte sequence means null.
-- name: ReceivedAdd :many
WITH added AS (
    INSERT INTO received_messages (
        company_id, sender_no, sim, phone_number, own_number, content, kind, received_at, message_no, identity, message_identity, task_id, submitted_by,
        raw
    )
    SELECT unnest(@company_ids::bigint[]), @sender_no::text, nullif(unnest(@sims::smallint[]), 0), unnest(@phone_numbers::text[]),
        nullif(unnest(@own_numbers::text[]), ''), unnest(@contents::text[]), unnest(@kinds::text[]), unnest(@received_ats::timestamp with time zone[]),
        nullif(unnest(@message_nos::text[]), ''), nullif(unnest(@identities::bytea[]), ''), nullif(unnest(@message_identities::bytea[]), ''),
        nullif(unnest(@task_ids::text[]), ''), unnest(@submitters::text[]), nullif(unnest(@raws::text[]), '')
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT a.id FROM added a ORDER BY a.id;

-- ReceivedIdentified returns the stored messages with one of the given identities.
-- name: ReceivedIdentified :many
SELECT r.id, r.identity, r.message_identity FROM received_messages r
WHERE r.identity = ANY (@identities::bytea[]) OR r.message_identity = ANY (@message_identities::bytea[])
ORDER BY r.id;

-- A list reads ids in portions, by an index. ReceivedListOf then applies all filters to these ids. Each of the following statements returns up to max_rows ids
-- from from_id up to, but without, before_id, newest first.

-- name: ReceivedIDs :many
SELECT r.id FROM received_messages r WHERE r.id < @before_id::bigint AND r.id >= @from_id::bigint ORDER BY r.id DESC LIMIT @max_rows::integer;

-- name: ReceivedIDsOfCompany :many
SELECT r.id FROM received_messages r
WHERE r.company_id = @company_id AND r.id < @before_id::bigint AND r.id >= @from_id::bigint
ORDER BY r.id DESC
LIMIT @max_rows::integer;

-- name: ReceivedIDsUnread :many
SELECT r.id FROM received_messages r
WHERE r.read_at IS NULL AND r.id < @before_id::bigint AND r.id >= @from_id::bigint
ORDER BY r.id DESC
LIMIT @max_rows::integer;

-- name: ReceivedIDsUnreadOfCompany :many
SELECT r.id FROM received_messages r
WHERE r.company_id = @company_id AND r.read_at IS NULL AND r.id < @before_id::bigint AND r.id >= @from_id::bigint
ORDER BY r.id DESC
LIMIT @max_rows::integer;

-- name: ReceivedIDsOfSender :many
SELECT r.id FROM received_messages r
WHERE r.sender_no = @sender_no AND r.id < @before_id::bigint AND r.id >= @from_id::bigint
ORDER BY r.id DESC
LIMIT @max_rows::integer;

-- name: ReceivedIDsOfNumbers :many
SELECT r.id
FROM unnest(@phone_numbers::text[]) n (phone_number)
CROSS JOIN LATERAL (
    SELECT o.id FROM received_messages o
    WHERE o.phone_number = n.phone_number AND o.id < @before_id::bigint AND o.id >= @from_id::bigint
    ORDER BY o.id DESC
    LIMIT @max_rows::integer
) r
ORDER BY r.id DESC
LIMIT @max_rows::integer;

-- ReceivedListOf returns the messages of `ids` that match all filters, newest first. owner: only replies to tasks of this submitter. An erased message is not
-- returned. rule_...: what a rule did with the message.
-- name: ReceivedListOf :many
SELECT r.*, c.company_no, a.rule_id, a.action AS rule_action, a.outcome AS rule_outcome, a.refused AS rule_refused, a.done_at AS rule_done_at
FROM received_messages r
LEFT JOIN companies c ON c.id = r.company_id
LEFT JOIN reply_actions a ON a.received_id = r.id AND a.outcome IS NOT NULL
WHERE r.id = ANY (@ids::bigint[]) AND r.phone_number <> ''
    AND (sqlc.narg(company_id)::bigint IS NULL OR r.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(owner)::text IS NULL OR r.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(sender_no)::text IS NULL OR r.sender_no = sqlc.narg(sender_no)::text)
    AND (@phone_numbers::text[] IS NULL OR r.phone_number = ANY (@phone_numbers::text[]))
    AND (sqlc.narg(kind)::text IS NULL OR r.kind = sqlc.narg(kind)::text)
    AND (sqlc.narg(is_unread)::boolean IS NULL OR (r.read_at IS NULL) = sqlc.narg(is_unread)::boolean)
    AND (sqlc.narg(created_from)::timestamptz IS NULL OR r.created_at >= sqlc.narg(created_from)::timestamptz)
    AND (sqlc.narg(created_to)::timestamptz IS NULL OR r.created_at < sqlc.narg(created_to)::timestamptz)
ORDER BY r.id DESC;

-- ReceivedInbox returns messages of a company that match all filters, newest first, among its max_seen newest messages. matching is the number of matching
-- messages. The time of a message is received_at, or created_at if received_at is unknown.
-- name: ReceivedInbox :many
SELECT r.id, r.sender_no, r.sim, r.phone_number, r.own_number, r.content, coalesce(r.received_at, r.created_at)::timestamptz AS at,
    count(*) OVER () AS matching
FROM (
    SELECT o.* FROM received_messages o WHERE o.company_id = @company_id ORDER BY o.id DESC LIMIT @max_seen::integer
) r
WHERE (sqlc.narg(owner)::text IS NULL OR r.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(sender_no)::text IS NULL OR r.sender_no = sqlc.narg(sender_no)::text)
    AND (sqlc.narg(from_at)::timestamptz IS NULL OR coalesce(r.received_at, r.created_at) >= sqlc.narg(from_at)::timestamptz)
    AND (sqlc.narg(to_at)::timestamptz IS NULL OR coalesce(r.received_at, r.created_at) <= sqlc.narg(to_at)::timestamptz)
ORDER BY r.id DESC
OFFSET @skipped::integer LIMIT @page_limit::integer;

-- FirstReceivedSince returns approximately the smallest id of the messages that arrived at or after `since`.
-- name: FirstReceivedSince :one
SELECT first_id_since('received_messages'::regclass, @since::timestamptz);

-- ReceivedRead marks a message as read. It does not change a message that is already read, so that read_by is the first reader.
-- name: ReceivedRead :execrows
UPDATE received_messages r
SET read_at = now(), read_by = @username::text
WHERE r.id = @id AND r.read_at IS NULL AND (sqlc.narg(company_id)::bigint IS NULL OR r.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(owner)::text IS NULL OR r.submitted_by = sqlc.narg(owner)::text);

-- ReceivedReadUpTo marks up to max_rows messages of a company and a number as read, up to and including up_to. It starts with the oldest unread message. It
-- does not change messages that are already read.
-- name: ReceivedReadUpTo :execrows
UPDATE received_messages r
SET read_at = now(), read_by = @username::text
WHERE r.read_at IS NULL AND r.id = ANY (ARRAY(
    SELECT o.id FROM received_messages o
    WHERE o.company_id = @company_id AND o.phone_number = @phone_number AND o.id <= @up_to::bigint AND o.read_at IS NULL
        AND (sqlc.narg(owner)::text IS NULL OR o.submitted_by = sqlc.narg(owner)::text)
    ORDER BY o.id
    LIMIT @max_rows::integer
    FOR UPDATE
));

-- ReceivedOptedIn records that a message ended a block for which the person had asked.
-- name: ReceivedOptedIn :exec
UPDATE received_messages r SET kind = 'opt_in' WHERE r.id = @id;

-- ReceivedMatched records that a rule matched a message. It changes only the kind 'text': an opt-out, an opt-in and an automatic reply keep their kinds.
-- name: ReceivedMatched :exec
UPDATE received_messages r SET kind = 'keyword' WHERE r.id = @id AND r.kind = 'text';

-- ReceivedDeleteExpired reads the batch_size oldest messages, deletes the messages that are older than `keep`, and returns their ids.
-- name: ReceivedDeleteExpired :many
WITH deleted AS (
    DELETE FROM received_messages r
    USING (SELECT o.id FROM received_messages o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
    WHERE r.id = old.id AND r.created_at < now() - @keep::interval
    RETURNING r.id
)
SELECT d.id FROM deleted d ORDER BY d.id;

-- ReceivedPartKeep stores a part of a message. A part that arrived before within `known` is not stored again, so that a repeat does not begin a second message.
-- Another part with the same number replaces the earlier one.
-- name: ReceivedPartKeep :exec
WITH arrived AS (
    INSERT INTO received_part_identities AS i (identity) VALUES (@identity)
    ON CONFLICT (identity) DO UPDATE SET created_at = now() WHERE i.created_at < now() - @known::interval
    RETURNING i.identity
)
INSERT INTO received_parts AS p (sender_no, from_no, to_no, reference, total, nth, alphabet, octets)
SELECT @sender_no, @from_no, @to_no, @reference, @total, @nth, @alphabet, @octets FROM arrived
ON CONFLICT (sender_no, from_no, to_no, reference, total, nth) DO UPDATE SET alphabet = excluded.alphabet, octets = excluded.octets;

-- ReceivedPartsForget deletes up to batch_size identities of parts that arrived longer ago than `known`.
-- name: ReceivedPartsForget :execrows
DELETE FROM received_part_identities i
USING (
    SELECT o.identity FROM received_part_identities o WHERE o.created_at < now() - @known::interval
    ORDER BY o.created_at LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED
) old
WHERE i.identity = old.identity;

-- ReceivedPartsEnd deletes and returns the parts of a message if all of them are stored, or if its first part is older than max_age. The caller has locked the
-- messages of the sender.
-- name: ReceivedPartsEnd :many
WITH parts AS MATERIALIZED (
    SELECT p.total, p.created_at FROM received_parts p
    WHERE p.sender_no = @sender_no AND p.from_no = @from_no AND p.to_no = @to_no AND p.reference = @reference AND p.total = @total
),
ended AS (
    DELETE FROM received_parts p
    WHERE p.sender_no = @sender_no AND p.from_no = @from_no AND p.to_no = @to_no AND p.reference = @reference AND p.total = @total
        AND (SELECT count(*) = min(i.total) OR min(i.created_at) < now() - @max_age::interval FROM parts i)
    RETURNING p.nth, p.alphabet, p.octets, p.created_at
)
SELECT e.nth, e.alphabet, e.octets, e.created_at FROM ended e ORDER BY e.nth;

-- ReceivedPartsExpired returns up to max_rows messages whose first part is older than max_age, the oldest first.
-- name: ReceivedPartsExpired :many
SELECT p.sender_no, p.from_no, p.to_no, p.reference, p.total, min(p.created_at)::timestamptz AS began
FROM received_parts p
WHERE p.created_at < now() - @max_age::interval
GROUP BY p.sender_no, p.from_no, p.to_no, p.reference, p.total
ORDER BY began, p.sender_no, p.from_no, p.to_no, p.reference, p.total
LIMIT @max_rows::integer;
