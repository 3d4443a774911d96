-- Statements on the feed of events. Triggers store events in feed_staged. FeedTake and FeedAppend move these staged events to the feed, and assign the ids of
-- the feed. Only one transaction does this at a time.

-- FeedLock locks the feed until the end of the transaction, so that only one transaction at a time assigns ids. Therefore an id becomes visible before a larger
-- id is assigned.
-- name: FeedLock :exec
SELECT lock_table('lock_feed');

-- FeedTake deletes up to `portion` staged events and returns them in the order in which they were staged. It skips the events of tasks of locked_days. Each of
-- these days is given as the first 13 characters of its task ids.
-- name: FeedTake :many
WITH taken AS (
    DELETE FROM feed_staged s
    WHERE s.id = ANY (ARRAY(
        SELECT o.id FROM feed_staged o
        WHERE o.task_id IS NULL OR left(o.task_id, 13) <> ALL (@locked_days::text[])
        ORDER BY o.id
        LIMIT @portion::integer
    ))
    RETURNING *
)
SELECT t.company_id, t.submitted_by, t.type, coalesce(t.task_id, '')::text AS task_id, coalesce(t.log_id, 0)::bigint AS log_id, t.at, t.data
FROM taken t
ORDER BY t.id;

-- FeedSubmitters returns the submitter and the notification of each task. notification_id is 0 if the task has no notification. A task whose partition was
-- dropped is not returned.
-- name: FeedSubmitters :many
SELECT m.task_id, m.submitted_by, coalesce(r.notification_id, 0)::bigint AS notification_id
FROM messages m
LEFT JOIN renderings r ON r.id = m.rendering_id
WHERE m.task_id = ANY (@task_ids::text[])
ORDER BY m.task_id;

-- FeedNotifications returns the notifications of `ids` that have probably ended. A notification with a stored final state (ended_as) is returned only if it is
-- in recorded_ids. Another notification is returned if it has no further run, and none of its tasks waits or is leased. The statement does not read partitions.
-- name: FeedNotifications :many
SELECT n.id, n.created_at FROM notifications n
WHERE n.id = ANY (@ids::bigint[]) AND n.deleted_at IS NULL
    AND CASE WHEN n.ended_as IS NOT NULL THEN n.id = ANY (@recorded_ids::bigint[])
        ELSE n.next_run_at IS NULL AND NOT EXISTS (SELECT FROM renderings r JOIN queue q ON q.rendering_id = r.id WHERE r.notification_id = n.id) END
ORDER BY n.id;

-- FeedNotificationsRender returns the event notification.finished of each notification that has ended. The data of the event is the same as in the view
-- notification_standings. No task of the notifications has an id before from_id. The statement skips a notification in these cases:
--   1. Another event notification.finished of the notification is still staged.
--   2. The notification has no stored final state (ended_as), and the end of one of its tasks is still staged.
--   3. The notification has no stored final state, and one of its tasks was requeued after FeedNotifications. The notification has not ended.
-- In the cases 1 and 2, FeedTake takes the staged event later, and the notification is then checked again.
-- name: FeedNotificationsRender :many
SELECT n.id, n.company_id, n.submitted_by, jsonb_build_object(
    'notification_id', n.id, 'company_no', c.company_no, 'channel', h.channel, 'biz_type', n.biz_type, 'biz_id', n.biz_id,
    'status', coalesce(n.ended_as, CASE
        WHEN t.succeeded = t.people THEN 1 WHEN t.succeeded > 0 THEN 5 WHEN t.cancelled = t.people THEN 3 ELSE 2
    END),
    'created_at', n.created_at, 'counts', jsonb_build_object(
        'people', t.people, 'success', t.succeeded, 'failed', t.failed, 'cancelled', t.cancelled
    )
)::jsonb AS data
FROM notifications n
JOIN companies c ON c.id = n.company_id
JOIN channels h ON h.id = n.channel_id
CROSS JOIN LATERAL (
    SELECT count(*) AS people, count(*) FILTER (WHERE p.outcome = 2) AS succeeded, count(*) FILTER (WHERE p.outcome = 3) AS failed, -- 2 SUCCESS, 3 FAILED
        count(*) FILTER (WHERE p.outcome = 4) AS cancelled -- 4 CANCELLED
    FROM (
        SELECT DISTINCT ON (m.user_id) l.outcome -- only the last task of each person counts
        FROM renderings r
        JOIN messages m ON m.rendering_id = r.id AND m.task_id >= @from_id::text
        LEFT JOIN report_logs l ON l.task_id = m.task_id AND l.task_id >= @from_id::text AND l.outcome IS NOT NULL
        WHERE r.notification_id = n.id
        ORDER BY m.user_id, m.task_id DESC
    ) p
) t
WHERE n.id = ANY (@ids::bigint[]) AND (n.ended_as IS NOT NULL OR n.next_run_at IS NULL AND NOT EXISTS (
    SELECT FROM renderings r JOIN queue q ON q.rendering_id = r.id WHERE r.notification_id = n.id
) AND NOT EXISTS (
    SELECT FROM renderings r
    JOIN messages m ON m.rendering_id = r.id AND m.task_id >= @from_id::text
    JOIN feed_staged s ON s.task_id = m.task_id
    WHERE r.notification_id = n.id AND s.type IN ('message.sent', 'message.failed', 'message.expired', 'message.cancelled')
)) AND NOT EXISTS (
    SELECT FROM feed_staged s WHERE s.type = 'notification.finished' AND s.data ->> 'notification_id' = n.id::text
)
ORDER BY n.id;

-- FeedNotificationsAgain stages an event for each notification that has possibly ended. ats: the times of the events.
-- name: FeedNotificationsAgain :exec
INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
SELECT n.company_id, n.submitted_by, 'notification.finished', x.at, jsonb_build_object('notification_id', n.id)
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@ats::timestamptz[]) AS at) x
JOIN notifications n ON n.id = x.id
ORDER BY n.id;

-- FeedAppend adds events to the feed, in the given order. An event without task has an empty task_id. An event without log row has the log_id 0.
-- name: FeedAppend :exec
INSERT INTO feed (company_id, submitted_by, type, task_id, log_id, at, data)
SELECT e.company_id, e.submitted_by, e.type, nullif(e.task_id, ''), nullif(e.log_id, 0), e.at, e.data
FROM (
    SELECT generate_series(1, cardinality(@company_ids::bigint[])) AS nth, unnest(@company_ids::bigint[]) AS company_id,
        unnest(@submitters::text[]) AS submitted_by, unnest(@types::text[]) AS type, unnest(@task_ids::text[]) AS task_id,
        unnest(@log_ids::bigint[]) AS log_id, unnest(@ats::timestamptz[]) AS at, unnest(@datas::jsonb[]) AS data
) e
ORDER BY e.nth;

-- FeedRead returns events after after_id, oldest first. company_id null: events of all companies. submitted_by null: events of all submitters.
-- name: FeedRead :many
SELECT f.id, f.company_id, f.submitted_by, f.type, coalesce(f.task_id, '')::text AS task_id, coalesce(f.log_id, 0)::bigint AS log_id, f.at, f.data
FROM feed f
WHERE f.id > @after_id AND (sqlc.narg(company_id)::bigint IS NULL OR f.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(submitted_by)::text IS NULL OR f.submitted_by = sqlc.narg(submitted_by)::text)
ORDER BY f.id
LIMIT @page_limit::integer;

-- FeedEnds returns two ids: pruned_id, the largest deleted id, and last_id, the largest id that is visible or was deleted.
-- name: FeedEnds :one
SELECT s.pruned_id, greatest(s.pruned_id, coalesce((SELECT max(f.id) FROM feed f), 0))::bigint AS last_id FROM feed_state s;

-- FeedNews returns the companies and submitters with events after after_id, up to last_id.
-- name: FeedNews :many
SELECT DISTINCT f.company_id, f.submitted_by FROM feed f
WHERE f.id > @after_id AND f.id <= @last_id
ORDER BY f.company_id, f.submitted_by;

-- FeedTasks returns the data of the events of tasks: the message of the task, and the row of report_logs. A task whose partition was dropped is not returned.
-- name: FeedTasks :many
SELECT r.id AS log_id, m.task_id, c.company_no, m.phone_number, m.source, m.dedup_key, m.message_type, m.batch_id, d.notification_id, m.segments,
    m.is_test, m.created_at, r.outcome, r.event, r.effect, r.app_id, r.result, r.retry_count,
    coalesce(m.request_data ->> 'smsgate_id', '')::text AS smsgate_id, -- the id of the SMSGate message of the task
    (m.request_data -> 'smpp')::jsonb AS smpp -- the fields of an SMPP message that its receipts need
FROM messages m
JOIN report_logs r ON r.task_id = m.task_id
LEFT JOIN renderings d ON d.id = m.rendering_id
LEFT JOIN companies c ON c.id = m.company_id
WHERE m.task_id = ANY (@task_ids::text[]) AND r.task_id = ANY (@task_ids::text[]) AND r.id = ANY (@log_ids::bigint[])
ORDER BY r.id;

-- FeedListeners returns the listeners to the events of a company: listeners of the company itself, and listeners to all companies. company_id null: only
-- listeners to all companies. Events are recorded after since_id. is_fresh is true if the listener belongs to the given company_id and still listens for
-- at_least.
-- name: FeedListeners :many
SELECT l.since_id, (
        coalesce(l.company_id, 0) = coalesce(sqlc.narg(company_id)::bigint, 0) AND l.listens_until > now() + @at_least::interval
    )::boolean AS is_fresh
FROM feed_listeners l
WHERE coalesce(l.company_id, 0) IN (0, coalesce(sqlc.narg(company_id)::bigint, 0)) AND (l.is_pushed OR l.listens_until > now())
ORDER BY l.since_id;

-- FeedListen registers a listener to the events of a company for the time `listens`. company_id null: events of all companies. It returns the id after which
-- these events are recorded: since_id of the existing listener, or the given since_id if no listener was active.
-- name: FeedListen :one
INSERT INTO feed_listeners AS l (company_id, since_id, is_pushed, listens_until)
VALUES (sqlc.narg(company_id)::bigint, @since_id, @is_pushed, now() + @listens::interval)
ON CONFLICT (coalesce(company_id, 0)) DO UPDATE
SET since_id = CASE WHEN l.is_pushed OR l.listens_until > now() THEN l.since_id ELSE excluded.since_id END,
    is_pushed = l.is_pushed OR excluded.is_pushed, listens_until = greatest(l.listens_until, excluded.listens_until)
RETURNING l.since_id;

-- FeedOld returns up to batch_size events that are older than `keep`. It searches by time and not by id, because events with smaller ids have later times if the
-- clock was set back.
-- name: FeedOld :many
SELECT f.id FROM feed f WHERE f.at < now() - @keep::interval ORDER BY f.at, f.id LIMIT @batch_size::integer;

-- WebhooksBehind locks the webhooks that possibly still have to send an event with an id up to last_id, and returns them. A run of a webhook locks the webhook
-- before it reads or changes the feed, so the run waits until the end of this transaction.
-- name: WebhooksBehind :many
SELECT w.id FROM webhooks w
WHERE w.status = 'on'
    AND (w.after_id < @last_id OR EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.feed_id <= @last_id))
ORDER BY w.id
FOR NO KEY UPDATE;

-- FeedDeleteExpired deletes the events of `ids`, and returns their number and the largest deleted id. It adds one operator event for each webhook of
-- webhook_ids that still had to send one of the deleted events.
-- name: FeedDeleteExpired :one
WITH deleted AS (
    DELETE FROM feed f WHERE f.id = ANY (@ids::bigint[]) RETURNING f.id, f.company_id, f.submitted_by, f.type
),
lost AS (
    SELECT w.id, w.company_id, count(*) AS events, min(g.id) AS first_id, max(g.id) AS last_id
    FROM webhooks w
    LEFT JOIN users u ON u.id = w.user_id
    JOIN deleted g ON (w.company_id IS NULL OR g.company_id = w.company_id) AND (w.user_id IS NULL OR g.submitted_by = u.username)
    WHERE w.id = ANY (@webhook_ids::bigint[]) AND (
        (g.id > w.after_id AND g.type = ANY (w.events)) OR EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.feed_id = g.id)
    )
    GROUP BY w.id
),
event_added AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'webhook.lost', l.id::text, jsonb_build_object(
        'events', l.events, 'first_event_id', 'evt_' || l.first_id, 'last_event_id', 'evt_' || l.last_id,
        'company_no', (SELECT c.company_no FROM companies c WHERE c.id = l.company_id)
    )
    FROM lost l
)
SELECT count(*) AS events, coalesce(max(g.id), 0)::bigint AS last_id FROM deleted g;

-- FeedPruned stores the largest deleted id of the feed.
-- name: FeedPruned :exec
UPDATE feed_state s SET pruned_id = greatest(s.pruned_id, @pruned_id::bigint);

-- FeedListenersDeleteUnused deletes the listeners whose time is over.
-- name: FeedListenersDeleteUnused :execrows
DELETE FROM feed_listeners l WHERE NOT l.is_pushed AND l.listens_until < now();

-- FeedReceived returns received messages, and the numbers of their companies. An erased message is not returned.
-- kind is never 'keyword': a rule can change the kind from 'text' to 'keyword' after the event was posted, and a repeated post must have the same kind.
-- name: FeedReceived :many
SELECT r.id, c.company_no, r.sender_no, r.sim, r.phone_number, r.own_number, r.content,
    (CASE r.kind WHEN 'keyword' THEN 'text' ELSE r.kind END)::text AS kind, r.received_at, r.created_at, r.message_no, r.task_id
FROM received_messages r
LEFT JOIN companies c ON c.id = r.company_id
WHERE r.id = ANY (@ids::bigint[]) AND r.phone_number <> ''
ORDER BY r.id;

-- FeedVerifications returns verifications that have ended, and the numbers of their companies. A deleted verification is not returned.
-- name: FeedVerifications :many
SELECT v.verification_id, c.company_no, v.channel, v.recipient, v.purpose, v.task_ids, v.created_at, v.expires_at, v.ended_at
FROM verifications v
LEFT JOIN companies c ON c.id = v.company_id
WHERE v.verification_id = ANY (@ids::text[])
ORDER BY v.verification_id;
