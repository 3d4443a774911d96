-- The feed: what happened, in the order in which it can be seen. Triggers stage events; FeedTake and FeedAppend move them to the feed, by one
-- transaction at a time.

-- FeedLock lets one transaction at a time give out ids of the feed, until its end: ids that it gives out can be seen before any larger one exists.
-- name: FeedLock :exec
SELECT lock_table('lock_feed');

-- FeedTake deletes up to portion staged events and returns them, in the order in which they were staged. Those of tasks of locked_days stay: a day is
-- how the ids of its tasks begin.
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

-- FeedSubmitters returns who submitted tasks, and the notification of each, or 0. A task whose day was dropped has none.
-- name: FeedSubmitters :many
SELECT m.task_id, m.submitted_by, coalesce(r.notification_id, 0)::bigint AS notification_id
FROM messages m
LEFT JOIN renderings r ON r.id = m.rendering_id
WHERE m.task_id = ANY (@task_ids::text[])
ORDER BY m.task_id;

-- FeedNotifications returns those of some notifications that seem to be over: those of recorded_ids that were ended, and those that have no further run and
-- no task that waits or is leased. It reads no partitions.
-- name: FeedNotifications :many
SELECT n.id, n.created_at FROM notifications n
WHERE n.id = ANY (@ids::bigint[]) AND n.deleted_at IS NULL
    AND CASE WHEN n.ended_as IS NOT NULL THEN n.id = ANY (@recorded_ids::bigint[])
        ELSE n.next_run_at IS NULL AND NOT EXISTS (SELECT FROM renderings r JOIN queue q ON q.rendering_id = r.id WHERE r.notification_id = n.id) END
ORDER BY n.id;

-- FeedNotificationsRender returns the data of the events of notifications that are over, as the view notification_standings has it. One that was not ended, and of
-- which the end of a task, or a cause of its own, is still staged, is left out: that tells it. A receipt tells nothing, so it is not waited for. One that
-- is not over any more since FeedNotifications, because a task was requeued, is left out too. Its tasks have ids from from_id on.
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
    SELECT count(*) AS people, count(*) FILTER (WHERE p.outcome = 2) AS succeeded, count(*) FILTER (WHERE p.outcome = 3) AS failed, -- SUCCESS, FAILED
        count(*) FILTER (WHERE p.outcome = 4) AS cancelled -- CANCELLED
    FROM (
        SELECT DISTINCT ON (m.user_id) l.outcome -- the last task of each person counts
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

-- FeedNotificationsAgain stages again that notifications may be over, since some times.
-- name: FeedNotificationsAgain :exec
INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
SELECT n.company_id, n.submitted_by, 'notification.finished', x.at, jsonb_build_object('notification_id', n.id)
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@ats::timestamptz[]) AS at) x
JOIN notifications n ON n.id = x.id
ORDER BY n.id;

-- FeedAppend adds events to the feed, in their order. An empty task_id, and the log_id 0, mean none.
-- name: FeedAppend :exec
INSERT INTO feed (company_id, submitted_by, type, task_id, log_id, at, data)
SELECT e.company_id, e.submitted_by, e.type, nullif(e.task_id, ''), nullif(e.log_id, 0), e.at, e.data
FROM (
    SELECT generate_series(1, cardinality(@company_ids::bigint[])) AS nth, unnest(@company_ids::bigint[]) AS company_id,
        unnest(@submitters::text[]) AS submitted_by, unnest(@types::text[]) AS type, unnest(@task_ids::text[]) AS task_id,
        unnest(@log_ids::bigint[]) AS log_id, unnest(@ats::timestamptz[]) AS at, unnest(@datas::jsonb[]) AS data
) e
ORDER BY e.nth;

-- FeedRead returns events behind an id, oldest first: of one company or of all, and of one submitter or of all.
-- name: FeedRead :many
SELECT f.id, f.company_id, f.submitted_by, f.type, coalesce(f.task_id, '')::text AS task_id, coalesce(f.log_id, 0)::bigint AS log_id, f.at, f.data
FROM feed f
WHERE f.id > @after_id AND (sqlc.narg(company_id)::bigint IS NULL OR f.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(submitted_by)::text IS NULL OR f.submitted_by = sqlc.narg(submitted_by)::text)
ORDER BY f.id
LIMIT @page_limit::integer;

-- FeedEnds returns the largest id that was deleted, and the largest id that can be seen, or was.
-- name: FeedEnds :one
SELECT s.pruned_id, greatest(s.pruned_id, coalesce((SELECT max(f.id) FROM feed f), 0))::bigint AS last_id FROM feed_state s;

-- FeedNews returns of whom there are events behind an id.
-- name: FeedNews :many
SELECT DISTINCT f.company_id, f.submitted_by FROM feed f
WHERE f.id > @after_id AND f.id <= @last_id
ORDER BY f.company_id, f.submitted_by;

-- FeedTasks returns the data of the events of tasks: the message, and a row of report_logs. No row for a task whose day was dropped.
-- name: FeedTasks :many
SELECT r.id AS log_id, m.task_id, c.company_no, m.phone_number, m.source, m.dedup_key, m.message_type, m.batch_id, d.notification_id, m.segments,
    m.is_test, m.created_at, r.outcome, r.event, r.effect, r.app_id, r.result, r.retry_count,
    coalesce(m.request_data ->> 'smsgate_id', '')::text AS smsgate_id -- of the message of SMSGate that the task belongs to
FROM messages m
JOIN report_logs r ON r.task_id = m.task_id
LEFT JOIN renderings d ON d.id = m.rendering_id
LEFT JOIN companies c ON c.id = m.company_id
WHERE m.task_id = ANY (@task_ids::text[]) AND r.task_id = ANY (@task_ids::text[]) AND r.id = ANY (@log_ids::bigint[])
ORDER BY r.id;

-- FeedListeners returns the ids behind which the events of a company, or of all, were recorded: for itself, and for those who listen to every
-- company. is_fresh: it listens itself, for at least as long as given.
-- name: FeedListeners :many
SELECT l.since_id, (
        coalesce(l.company_id, 0) = coalesce(sqlc.narg(company_id)::bigint, 0) AND l.listens_until > now() + @at_least::interval
    )::boolean AS is_fresh
FROM feed_listeners l
WHERE coalesce(l.company_id, 0) IN (0, coalesce(sqlc.narg(company_id)::bigint, 0)) AND (l.is_pushed OR l.listens_until > now())
ORDER BY l.since_id;

-- FeedListen lets the events of a company, or of all, be recorded for a while, and returns the id behind which all of them were recorded: that of its
-- first listener, or since_id if nobody listened until now.
-- name: FeedListen :one
INSERT INTO feed_listeners AS l (company_id, since_id, is_pushed, listens_until)
VALUES (sqlc.narg(company_id)::bigint, @since_id, @is_pushed, now() + @listens::interval)
ON CONFLICT (coalesce(company_id, 0)) DO UPDATE
SET since_id = CASE WHEN l.is_pushed OR l.listens_until > now() THEN l.since_id ELSE excluded.since_id END,
    is_pushed = l.is_pushed OR excluded.is_pushed, listens_until = greatest(l.listens_until, excluded.listens_until)
RETURNING l.since_id;

-- FeedOld returns up to batch_size events that are older than keep. It finds them by their time: of events that were recorded before the clock was set
-- back, ids are smaller than those of older ones.
-- name: FeedOld :many
SELECT f.id FROM feed f WHERE f.at < now() - @keep::interval ORDER BY f.at, f.id LIMIT @batch_size::integer;

-- WebhooksBehind returns the webhooks that may still post an event up to last_id, and locks them until the end of the transaction, as a run does before it
-- touches the feed.
-- name: WebhooksBehind :many
SELECT w.id FROM webhooks w
WHERE w.status = 'on'
    AND (w.after_id < @last_id OR EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.feed_id <= @last_id))
ORDER BY w.id
FOR NO KEY UPDATE;

-- FeedDeleteExpired deletes some events, and returns how many, and the largest id. Of each webhook that loses some of them, those of webhook_ids that had still to
-- post one, it writes an operator event.
-- name: FeedDeleteExpired :one
WITH gone AS (
    DELETE FROM feed f WHERE f.id = ANY (@ids::bigint[]) RETURNING f.id, f.company_id, f.submitted_by, f.type
),
lost AS (
    SELECT w.id, w.company_id, count(*) AS events, min(g.id) AS first_id, max(g.id) AS last_id
    FROM webhooks w
    LEFT JOIN users u ON u.id = w.user_id
    JOIN gone g ON (w.company_id IS NULL OR g.company_id = w.company_id) AND (w.user_id IS NULL OR g.submitted_by = u.username)
    WHERE w.id = ANY (@webhook_ids::bigint[]) AND (
        (g.id > w.after_id AND g.type = ANY (w.events)) OR EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.feed_id = g.id)
    )
    GROUP BY w.id
),
told AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'webhook.lost', l.id::text, jsonb_build_object(
        'events', l.events, 'first_event_id', 'evt_' || l.first_id, 'last_event_id', 'evt_' || l.last_id,
        'company_no', (SELECT c.company_no FROM companies c WHERE c.id = l.company_id)
    )
    FROM lost l
)
SELECT count(*) AS events, coalesce(max(g.id), 0)::bigint AS last_id FROM gone g;

-- FeedPruned records that events were deleted.
-- name: FeedPruned :exec
UPDATE feed_state s SET pruned_id = greatest(s.pruned_id, @pruned_id::bigint);

-- FeedListenersDeleteUnused deletes listeners that do not listen any more.
-- name: FeedListenersDeleteUnused :execrows
DELETE FROM feed_listeners l WHERE NOT l.is_pushed AND l.listens_until < now();
