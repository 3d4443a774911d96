-- Statements on the SIMs of senders. A claim chooses the SIM of each task while it locks the row of the sender in sender_states (SenderBudget). A refund locks the
-- same row first (SenderRefund). Therefore the rows of a sender in sim_usages are never changed concurrently. The rules at the beginning of dispatch/claim.sql also
-- apply here.

-- SimStandings returns the SIMs of a sender with what their limits still allow (null: no limit), in the order of their slots. at is the time after the lock of the
-- sender. is_limited: the SIM is off or has a limit. month is the month of at in the time zone of the sender.
-- name: SimStandings :many
SELECT s.slot::smallint AS slot, s.is_on::boolean AS is_on,
    (NOT s.is_on OR coalesce(s.per_day, s.per_month, s.recipients_per_month) IS NOT NULL)::boolean AS is_limited,
    s.segments_left::int8 AS segments_left, s.recipients_left::int8 AS recipients_left, -- int8: can be NULL, see sqlc.yaml
    s.month::date AS month, m.at::timestamptz AS at
FROM (SELECT clock_timestamp() AS at OFFSET 0) m
CROSS JOIN LATERAL sim_standings(@sender_id, m.at) s
ORDER BY s.slot;

-- SimTasks returns the data by which a claim chooses the SIM of each offered task.
--   sim      the SIM of the last message between the sender and the recipient, in either direction, if this message is not older than
--            conversation_for; 0: no such message
--   counted  the SIMs that have counted the recipient this month
-- name: SimTasks :many
SELECT t.task_id, h.recipient_hash,
    coalesce((
        SELECT c.sim
        FROM (
            (
                SELECT r.sim, r.created_at AS at
                FROM received_messages r
                WHERE r.phone_number = t.recipient AND r.sender_no = @sender_no::text AND r.sim IS NOT NULL
                ORDER BY r.id DESC
                LIMIT 1
            )
            UNION ALL
            (
                SELECT k.slot, k.last_at
                FROM sim_recipients k
                WHERE k.sender_id = @sender_id AND k.recipient_hash = h.recipient_hash
                ORDER BY k.last_at DESC
                LIMIT 1
            )
        ) c
        WHERE c.at > now() - @conversation_for::interval
        ORDER BY c.at DESC
        LIMIT 1
    ), 0)::smallint AS sim,
    ARRAY(
        SELECT k.slot FROM sim_recipients k
        WHERE k.sender_id = @sender_id AND k.recipient_hash = h.recipient_hash AND k.month >= @month::date AND k.messages > 0
        ORDER BY k.slot
    )::smallint[] AS counted
FROM queue t
CROSS JOIN LATERAL (SELECT sha256(convert_to(t.recipient, 'UTF8')) AS recipient_hash) h
WHERE t.task_id = ANY (@task_ids::text[])
ORDER BY t.task_id;

-- SimCharge adds leases to the usage of their SIMs, and counts their recipients. Entry n of each array belongs to the same lease. at and month are those of
-- SimStandings.
-- name: SimCharge :exec
WITH leases AS MATERIALIZED (
    SELECT unnest(@slots::smallint[]) AS slot, unnest(@recipient_hashes::bytea[]) AS recipient_hash, unnest(@segments::bigint[]) AS segments
),
messages AS MATERIALIZED (
    SELECT l.slot, l.recipient_hash, count(*) AS number FROM leases l GROUP BY l.slot, l.recipient_hash
),
counted AS (
    INSERT INTO sim_recipients AS k (sender_id, recipient_hash, slot, month, messages, last_at, last_messages)
    SELECT @sender_id, m.recipient_hash, m.slot, @month::date, m.number, @at::timestamptz, m.number
    FROM messages m
    ORDER BY m.recipient_hash, m.slot -- an erasure locks in the same order
    ON CONFLICT (sender_id, recipient_hash, slot) DO UPDATE
    SET messages = CASE WHEN k.month >= excluded.month THEN k.messages ELSE 0 END + excluded.messages, month = greatest(k.month, excluded.month),
        last_at = greatest(k.last_at, excluded.last_at), last_messages = excluded.last_messages, previous_at = k.last_at
    RETURNING k.slot, k.recipient_hash, k.messages
),
added AS (
    -- A recipient is new to its SIM this month if sim_recipients counts only messages of this claim.
    SELECT l.slot, l.segments, coalesce(n.recipients, 0) AS recipients
    FROM (SELECT l.slot, sum(l.segments)::bigint AS segments FROM leases l GROUP BY l.slot) l
    LEFT JOIN (
        SELECT c.slot, count(*) AS recipients
        FROM counted c
        JOIN messages m ON m.slot = c.slot AND m.recipient_hash = c.recipient_hash
        WHERE c.messages = m.number
        GROUP BY c.slot
    ) n ON n.slot = l.slot
)
INSERT INTO sim_usages AS u (sender_id, slot, day_used, month_used, recipients_used, last_taken_at)
SELECT @sender_id, a.slot, a.segments, a.segments, a.recipients, @at::timestamptz
FROM added a
ORDER BY a.slot
ON CONFLICT (sender_id, slot) DO UPDATE
SET (day_used, month_used, recipients_used) = (
        SELECT used_in_window('day', excluded.last_taken_at, s.time_zone, u.day_used, u.last_taken_at) + excluded.day_used,
            used_in_window('month', excluded.last_taken_at, s.time_zone, u.month_used, u.last_taken_at) + excluded.month_used,
            used_in_window('month', excluded.last_taken_at, s.time_zone, u.recipients_used, u.last_taken_at) + excluded.recipients_used
        FROM senders s
        WHERE s.id = u.sender_id
    ),
    last_taken_at = greatest(u.last_taken_at, excluded.last_taken_at);

-- SimRefund subtracts leases whose messages reached nobody from the usage of their SIMs, if the day or month of the lease is still the current one. A recipient
-- without other messages in the month does not count any more. If the refund contains all leases of the last claim, last_at becomes the time of the claim
-- before (previous_at), so that the conversation stays with its SIM. Leases of the last claim are not older than last_at, because a claim reads the time of
-- last_at before it leases. The tasks of the leases wait in the queue again. The caller ended these leases in the same transaction.
-- name: SimRefund :exec
WITH leases AS MATERIALIZED (
    SELECT s.id AS sender_id, l.slot, l.segments, l.leased_at, s.time_zone, sha256(convert_to(t.recipient, 'UTF8')) AS recipient_hash,
        date_trunc('month', l.leased_at AT TIME ZONE s.time_zone)::date AS month
    FROM (
        SELECT unnest(@task_ids::text[]) AS task_id, unnest(@sender_nos::text[]) AS sender_no, unnest(@slots::smallint[]) AS slot,
            unnest(@segments::smallint[]) AS segments, unnest(@leased_ats::timestamptz[]) AS leased_at
    ) l
    JOIN senders s ON s.sender_no = l.sender_no
    CROSS JOIN LATERAL (SELECT recipient FROM queue WHERE task_id = l.task_id OFFSET 0) t -- lookup by key
),
uncounted AS (
    UPDATE sim_recipients k
    SET messages = greatest(0, k.messages - cardinality(m.leased_ats)),
        (last_at, last_messages, previous_at) = (
            SELECT CASE WHEN n.remaining = 0 THEN coalesce(k.previous_at, '-infinity') ELSE k.last_at END, nullif(n.remaining, 0),
                CASE WHEN n.remaining = 0 THEN NULL ELSE k.previous_at END
            FROM (SELECT k.last_messages - count(*) AS remaining FROM unnest(m.leased_ats) u (leased_at) WHERE u.leased_at >= k.last_at) n
        )
    FROM (
        SELECT l.sender_id, l.slot, l.recipient_hash, l.month, array_agg(l.leased_at ORDER BY l.leased_at) AS leased_ats
        FROM leases l
        GROUP BY l.sender_id, l.slot, l.recipient_hash, l.month
    ) m
    WHERE k.sender_id = m.sender_id AND k.recipient_hash = m.recipient_hash AND k.slot = m.slot AND k.month = m.month AND k.messages > 0
    RETURNING k.sender_id, k.slot, k.month, k.messages
),
refunds AS MATERIALIZED (
    SELECT u.sender_id, u.slot,
        sum(l.segments) FILTER (WHERE date_trunc('day', l.leased_at, l.time_zone) = date_trunc('day', u.last_taken_at, l.time_zone)) AS of_day,
        sum(l.segments) FILTER (WHERE date_trunc('month', l.leased_at, l.time_zone) = date_trunc('month', u.last_taken_at, l.time_zone)) AS of_month,
        (
            SELECT count(*) FROM uncounted n
            WHERE n.sender_id = u.sender_id AND n.slot = u.slot AND n.messages = 0
                AND n.month = date_trunc('month', u.last_taken_at AT TIME ZONE min(l.time_zone))::date
        ) AS recipients
    FROM leases l
    JOIN sim_usages u ON u.sender_id = l.sender_id AND u.slot = l.slot
    GROUP BY u.sender_id, u.slot
)
UPDATE sim_usages u
SET day_used = greatest(0, u.day_used - coalesce(f.of_day, 0)), month_used = greatest(0, u.month_used - coalesce(f.of_month, 0)),
    recipients_used = greatest(0, u.recipients_used - f.recipients)
FROM refunds f
WHERE u.sender_id = f.sender_id AND u.slot = f.slot;

-- SimRecipientsDeleteExpired deletes up to batch_size rows whose month is over, and whose conversations have ended (see SimTasks).
-- name: SimRecipientsDeleteExpired :execrows
WITH old AS MATERIALIZED (
    SELECT k.sender_id, k.recipient_hash, k.slot
    FROM sim_recipients k
    WHERE k.last_at < now() - interval '32 days'
    ORDER BY k.last_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM sim_recipients k
USING old o
WHERE k.sender_id = o.sender_id AND k.recipient_hash = o.recipient_hash AND k.slot = o.slot;
